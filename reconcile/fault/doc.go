// Package fault classifies errors.
//
// Every step of a reconcile returns a typed error of its own package, and one table here defines what each means for
// the NodeSync: Terminal (only a person can resolve it: the commit, the NodeSync or the cluster must change), Waiting
// (nothing is wrong, something is not ready yet), Transient (retry after retryInterval) or Superseded (newer state is
// known: reconcile again at once). Only the class decides when the next reconcile runs.
//
// It never touches conditions, events or requeues.
package fault
