// Package smoke tests that NodePools launch a node for a pod, and that the node is terminated afterwards.
//
// Workload returns the Deployment of a test, Stages what has happened so far, and Blocked why nothing happens: these are
// functions of observed objects. Runner creates the Deployment, observes, scales it to zero, and deletes what the test
// has created. It never deletes a NodeClaim whose node runs pods of others, and changes no definition.
package smoke
