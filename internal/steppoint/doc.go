// Package steppoint names the points that the daemon reaches, so that a test can kill it at each of them:
//
//	go build -tags steppoints    points are reached, and there are two more flags
//	go build                     each call is an empty function
//
// There is no list of points. A step of a reconcile has its own name, a request that changes something in the cluster the name
// of what it changes, before it is sent and after its answer came, and a removal's phase its own. A new step is a new point by
// itself. A run with --step-trace writes down those it reaches.
package steppoint
