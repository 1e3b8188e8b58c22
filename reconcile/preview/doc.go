// Package preview says what a pass over a commit would come to, without a daemon: a NodeSync,
// a Snapshot and a cluster that is read as the person who asks go in, the Plan comes out, or
// why there is none. It takes the daemon's steps in the daemon's order, each by the function
// that a pass takes it by, so that both say the same of the same commit; a property test in
// package reconcile compares them. It writes nothing. It asks AWS only what selectors come to, and
// that only where it is given a way to; it does not rehearse a change of the charts on the API
// server, and does not know what other NodeSyncs have in Git.
package preview
