// Package review evaluates a commit that is not merged yet, or that a user plans, and describes the result: one line
// for a commit status, and Markdown for a comment on a pull request.
//
// A Step makes a Preview from a NodeSync, a Snapshot and a cluster that is read with the caller's permissions: the
// Plan, or why there is none. It uses evaluate.Evaluate, like the daemon. It writes nothing. It queries AWS only for
// what selectors resolve to, and only if it is given a way to. It does not dry-run a change of the charts on the API
// server, and does not know what other NodeSyncs have in Git.
//
// Of makes a Review from a Preview, without I/O. A commit's content is data: in Markdown it is formatted as code, which
// is neither a link nor a mention nor HTML, and the length of every text is limited.
package review
