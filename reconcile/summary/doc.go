// Package summary says how a NodeSync is, in a person's words: its state, what happens next,
// what it waits for, its pools with their nodes by state, and which nodes are outdated.
//
// In come a NodeSync with its status, NodePools and NodeClaims, as an API server or the watch
// cache has them; out come values and sentences, which `plumbline status` prints and the page
// shows, so that both say the same. It reads nothing, writes nothing, and takes the time as a
// value.
package summary
