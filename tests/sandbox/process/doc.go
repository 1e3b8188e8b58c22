// Package process starts the programs of a sandbox so that none outlives it.
//
// All parts that start programs use a Group: the control plane, the nodes, the Git host, Karpenter's supervisor. When
// the group closes, it kills the programs that still run, and the kernel kills them if the sandbox itself is killed and
// cannot close anything.
//
// The package does not know what the programs are for, and never restarts one: that is up to the caller, who sees Done.
package process
