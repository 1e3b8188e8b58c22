// Package migrate decides how a cluster moves from the Cluster Autoscaler to Karpenter.
//
// Its inputs are Facts: what was read in the cluster and in AWS, with the records that earlier runs have left in
// annotations and tags; and a Wish: what the user requests. Its output is a Plan: what was found, and the steps in their
// order, each Done, Pending, or waiting for the user. A step that is interrupted is Pending again in the next Plan, so a
// migration continues from what it finds. Back returns the steps that reverse a migration. NextOfNode decides what happens
// next to one node that goes away.
//
// The package consists of pure functions: it reads no cluster, calls no AWS, and changes nothing. Package move does that.
package migrate
