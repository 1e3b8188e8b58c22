// Package apply writes the Changes of a Plan to the cluster.
//
// In go the Changes, each with Git's object and the live one that it was
// planned against. Out comes a Result: what was written, and a typed error for
// each object that could not be. Objects are written by server-side apply, the
// ownership label with them: one request for each object, but one more where
// fields of a person have to become ours first, and one more where a removal is
// taken back. An object is made only where a read shows that its name is free.
//
// Classes go before pools, a pool that names a class which could not be made is
// left out, and nothing is waited for. It decides nothing that a Plan decides,
// deletes nothing, and never tries twice.
//
// A RecordStore keeps what a NodeSync has applied, by name and UID, and of which revision, in a ConfigMap that the NodeSync owns. The
// ownership label on live objects says nothing of an object that another client has deleted: its nodes may still run, and nobody
// would ask EC2 about them. The record outlives the object. It is written only if an object came or went, or the revision
// changed, and before a NodePool is created. NextRecord and Vanished are functions from values to values.
package apply
