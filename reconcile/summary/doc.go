// Package summary says how a NodeSync is, in a person's words: its state, what happens next,
// what it waits for, its pools with their nodes by state, and which nodes are outdated. It also explains one
// object: why a node was terminated or what keeps one that runs, what a NodePool that is removed waits for, and
// what keeps an EC2NodeClass that was deleted.
//
// In come a NodeSync with its status, NodePools, NodeClaims and Records, as an API server or the watch
// cache has them; out come values and sentences, which `plumbline status` and `plumbline why` print and the page
// shows, so that all say the same. It reads nothing, writes nothing, and takes the time as a
// value.
package summary
