// Package teardown decides what `plumbline teardown` does: what is deleted and what stays, whether the teardown may begin, when it is
// complete, what keeps Karpenter installed, and which instances the command itself may terminate.
//
// All of it is functions of values: the NodeSync, objects of the cluster, and answers of AWS. The command reads these, asks
// the user, writes and prints. Nothing here drains a node: the daemon's removals do that.
package teardown
