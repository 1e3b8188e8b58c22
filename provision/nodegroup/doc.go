// Package nodegroup makes the first definitions for an EKS cluster from its managed node groups.
//
// Its input is a Found: the cluster, its node groups with their launch templates, subnets, and published AMIs. Its output is
// a Result: plumbline.yaml, an EC2NodeClass and a NodePool as texts, and Notes about what cannot be equal to a node group
// or needs a decision. Make is a function of values; Read queries AWS. The package writes no file, and changes nothing in
// AWS.
package nodegroup
