// Package audit finds what clusters of the same accounts share by mistake: a name, a queue, a role, a tag.
//
// A Reader reads EKS, EC2 and IAM by account and region, and Karpenter's controllers and EC2NodeClasses by context of a
// kubeconfig, into an Observed: plain values. Judge is a function from an Observed to findings; it makes no request. What
// AWS or an API server denies is an Unknown finding with the missing action.
//
// The package changes nothing.
package audit
