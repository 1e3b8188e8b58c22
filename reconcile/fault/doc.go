// Package fault classifies what went wrong.
//
// Every step of a reconcile returns a typed error of its own package, and one
// table here says what each means for the NodeSync: Terminal (only a person can
// help: the commit, the NodeSync or the cluster has to change), Waiting (nothing
// is wrong, something is not there yet), Transient (try again after
// retryInterval) or Superseded (a newer state of the world is known: look again
// at once). Only the class decides when the next reconcile comes.
//
// It never touches conditions, events or requeues.
package fault
