// Package review evaluates a commit that is not pushed, or that a person plans, and words the result: one line for a commit
// status, and Markdown for a comment on a pull request.
//
// A Step makes a Preview from a NodeSync, a Snapshot and a cluster that is read with the rights of the person who asks: the Plan, or why
// there is none. It evaluates by evaluate.Evaluate, as the daemon does. It writes nothing, asks AWS only what selectors resolve to, and only
// if it is given a way to; it does not rehearse a change of the charts on the API server, and does not know what other NodeSyncs have
// in Git.
//
// Of makes a Review from a Preview, purely. What stands in a commit is data: in Markdown it is code, which is neither a link nor a mention nor
// HTML, and the length of every text is limited.
package review
