// Package reconcile is the controller of NodeSyncs.
//
// One pass goes one way: fetch a Snapshot, read plumbline.yaml, resolve the
// charts, render the Set, plan it against what lives, install the charts, apply
// what changed, take away what left, and conclude. A pass never waits: it does
// what can be done now, notes what it waits for, and is woken by watches or by
// the earliest of its times. Only the conclusion writes status, sends events,
// records metrics, posts commit statuses and says when the next pass comes.
package reconcile
