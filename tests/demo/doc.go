// Command demo shows plumbline's main tasks once, in a sandbox on this machine, and prints what happens.
//
// It starts an empty cluster, pushes examples/basic to a Git host, lets pods make Karpenter launch instances, removes a
// NodePool with a commit, and shows what EC2 reports, the commit statuses, and what is left in AWS at the end. Ctrl-C
// stops everything at any time. With KEEP=1 one background process, whose ID is printed, keeps the sandbox running.
package main
