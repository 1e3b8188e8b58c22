// Package process starts the programs of a sandbox so that none outlives it.
//
// A Group is handed to whoever starts a program: the control plane, the
// nodes, the Git host, Karpenter's supervisor. A program that is still there
// when the group closes is killed, and so it is by the kernel when the
// sandbox itself is killed and cannot close anything.
//
// The package knows nothing of what the programs are for, and never restarts
// one: that is up to the caller, who sees Done.
package process
