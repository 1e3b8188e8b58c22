// Package notify notifies the receivers in spec.notify of problems of a NodeSync that need a person: a refused commit,
// a held change, a failing rollout, a stalled removal, unexpected node drift. Each problem is notified once, and so is
// its end.
//
// Next is a pure function: its input is the conditions before and after a reconcile, and the record of open problems;
// its output is the new record and the Notices. The conclusion writes the record first, and passes the Notices to a
// Sender only when the record is in the cluster, so that no restart sends one twice. A Notice that is lost because the
// daemon was killed or the receiver was unreachable is not sent again.
//
// A Sender posts concurrently with the reconciles, in the order of the Notices, in memory, with a small queue for each
// receiver. No reconcile waits for it. An adapter for each type of receiver creates the body, without I/O. The content
// of a Secret is sent only to the hosts in its annotation (reconcile/grant) and never appears in a message; redirects
// are not followed.
package notify
