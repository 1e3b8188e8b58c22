// Package steppoint names the points that the daemon reaches, so that a test can
// kill it at each of them. What it is built with reports whether there are any:
//
//	go build -tags steppoints    points are reached, and two flags more are there
//	go build                     nothing: each call is an empty function
//
// There is no list of points. A step of a pass has its function's name, a request
// that changes something in the cluster the name of what it changes, before it
// is sent and after its answer came, and a removal's phase its own; a new step is
// a new point by itself. A run with --step-trace writes down those it reaches.
//
// Nothing is decided here, and no release has it.
package steppoint
