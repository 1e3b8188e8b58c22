// Package preflight finds what will disrupt a cluster's Karpenter: permissions, roles, queues, networks and objects that
// do not fit the version, the cluster, or each other.
//
// Read reads the cluster and AWS into an Observed: plain values, each with the error of its calls. A check is a function
// from an Observed to a Result with its findings; it makes no request. What AWS or the API server denies makes a check
// unknown, with the missing action, and never OK. Rules that belong to other packages come as values in Observed.
//
// The package changes nothing.
package preflight
