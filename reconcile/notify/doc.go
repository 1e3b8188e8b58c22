// Package notify notifies the receivers in spec.notify of what goes wrong with a NodeSync until a
// person does something: a commit that is refused, a change that is held, a rollout that fails, a
// removal that is stalled, unexpected node drift. Each is notified once, and so is its end.
//
// Next is pure: the conditions before and after a reconcile, and the record of open troubles, go in; the
// record as it is to be and the Notices come out. The conclusion writes the record first, and hands
// the Notices to a Sender only when it stands in the cluster, so that no restart sends one twice: one
// that a kill or a receiver that stays away loses is not sent again.
//
// A Sender posts beside the reconciles, in the order of the Notices, a few at a time for each receiver
// and in memory. No pass waits for it. An adapter for each type of receiver makes the body, without
// I/O. What is in a Secret goes to no host but those of its annotation (reconcile/grant), and into no
// message; redirects are not followed.
package notify
