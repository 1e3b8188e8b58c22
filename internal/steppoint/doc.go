// Package steppoint names points in the daemon's run, so that a test can kill it at each of them:
//
//	go build -tags steppoints    points are recorded, and there are more flags
//	go build                     each call is an empty function
//
// There is no list of points. A step of a reconcile is a point with its own name, a request that changes something in
// the cluster has one before it is sent and one after its response, named after what it changes, and so has each phase
// of a removal. A new step automatically is a new point. A run with --step-trace records those it reaches.
package steppoint
