// Package workload creates Deployments that need nodes, as the applications of a cluster do.
package workload
