// Package pulls follows the open pull requests of NodeSyncs that enable this, and reports on each what it would do to
// nodes.
//
// It lists them on the Git host (reconcile/report), fetches the head of one (reconcile/source), makes the plan that a
// reconcile would make (reconcile/review), and reports it as a status of the head (reconcile/report) and as a comment
// that it keeps updating. It makes a plan when the head, the NodeSync or the applied state has changed, and renews it
// after a while.
//
// It runs on the leader only, beside the reconciles and never in their way: one plan of the repository's own and one of a
// fork at a time, so many a minute of each and of one author, each for so long at the most. What it has in memory
// may be lost at any time: words and the IDs of comments are in the queue's ledger; a comment without one is found by its marker.
// It changes nothing in the cluster but that ledger.
package pulls
