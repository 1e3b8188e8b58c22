// Package train proposes newer AMIs in pull requests that pin them.
//
// Its input is the aliases that the EC2NodeClasses of a NodeSync select, the releases that AWS publishes with their dates,
// spec.images, the pull requests that are open, and the time. Wanted and Decide are functions of these values: they return
// which pull request there should be, and what to do: open it, rebase it, close another one, or nothing, and why.
//
// A Worker reads these values and carries out the decision in the background of a NodeSync's reconciles: it queries AWS and
// the Git host, edits the files of the followed branch, pushes a branch below plumbline/images/, and opens the pull request.
// No reconcile waits for it: the next one reports the answer in status.images. It never writes another branch, overwrites
// no commit that it has not made, and keeps an open pull request while it is unknown what AWS publishes.
package train
