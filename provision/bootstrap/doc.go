// Package bootstrap decides what a cluster needs in AWS before plumbline and Karpenter run in it, and what to do next to
// get there.
//
// New returns the template of one CloudFormation stack for a cluster and a version of Karpenter: the roles of nodes, of
// Karpenter's controller and of plumbline, the interruption queue with its rules, and who may join the cluster. Next
// decides what to do with a stack in a state, Choose which existing resources are adopted or avoided by another name, and
// Permissions what a user needs for all of it.
//
// Everything here is a function of values: it calls no AWS API, and reads no cluster.
package bootstrap
