// Package move reads what a migration from the Cluster Autoscaler depends on, and performs its steps one at a time.
//
// Its inputs are a cluster, the cluster's AWS account, and the steps of package migrate; its outputs are migrate.Facts, and
// what it has changed. It decides nothing: what comes next is decided in package migrate, from Facts that are read again
// after each step. Pods leave nodes only by the Eviction API, and an instance is terminated only once its pods run elsewhere.
package move
