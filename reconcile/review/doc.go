// Package review says what a Preview comes to for those who review it: one line for a commit
// status, and Markdown for a comment on a pull request.
//
// In goes a Preview, out come texts. What stands in a commit is data: in Markdown it stands in
// code, where it is neither a link nor a mention nor HTML, and every text is bounded. It asks
// nobody, and decides nothing that the Preview has not decided.
//
// A Step makes the Preview: a NodeSync, a Snapshot and a cluster that is read with the rights of the person who asks are its input,
// the Plan, or why there is none, is its result. It takes the steps of the daemon's evaluation in the same order, each by the same function;
// a property test in package reconcile compares them. It writes nothing. It asks AWS only what selectors resolve to, and only
// if it is given a way to; it does not rehearse a change of the charts on the API server, and does not know what other NodeSyncs have
// in Git.
package review
