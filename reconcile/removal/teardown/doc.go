// Package teardown decides what `plumbline teardown` does: what is deleted and what stays, whether the teardown may
// start, when it is complete, why Karpenter stays installed, and which instances the command itself may terminate.
//
// The package has only functions from values to values: the NodeSync, objects of the cluster, and responses of AWS. The
// command reads these, prompts the user, writes and prints. Nothing here drains a node: the daemon's removals do that.
package teardown
