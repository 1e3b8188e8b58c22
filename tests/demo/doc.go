// Command demo plays plumbline's main job once, on a sandbox on this machine,
// and tells it as it happens.
//
// It starts an empty cluster, pushes examples/basic to a Git host, lets pods
// make Karpenter launch instances, removes a NodePool by a commit, and shows
// what EC2 reports, the commit statuses, and what is left in AWS at the end.
// Ctrl-C ends everything at any time. With KEEP=1 the sandbox stays up behind
// one process, whose id is printed.
package main
