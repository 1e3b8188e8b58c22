// Package apply writes the Changes of a Plan to the cluster.
//
// The input is the Changes, each with the object in Git and the live one that it was planned against. The output is a
// Result: what was written, and a typed error for each object that could not be. Objects are written by server-side
// apply, with the ownership label: one request for each object, one more if plumbline must take ownership of a person's
// fields first, and one more if a removal is reverted. An object is created only if a read shows that its name is free.
//
// Classes are written before pools. A pool that references a class which could not be created is left out, and nothing
// is waited for. The package decides nothing that a Plan decides, deletes nothing, and never retries.
//
// A RecordStore keeps what a NodeSync has applied, by name and UID, and of which revision, in a ConfigMap that the
// NodeSync owns. The ownership label on live objects is lost when another client deletes an object: its nodes may still
// run, and plumbline would not query EC2 about them. The record outlives the object. It is written only if an object
// was added or removed, or the revision changed, and before a NodePool is created. NextRecord and Vanished are pure
// functions.
package apply
