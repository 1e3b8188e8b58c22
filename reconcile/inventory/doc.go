// Package inventory records what a NodeSync has applied, by name and UID, and of which
// revision.
//
// The ownership label on the live objects says what belongs to a NodeSync now.
// It says nothing of an object that another client has deleted: its nodes may
// still run, and nobody would ask EC2 about them. The record outlives the object.
//
// Next and Vanished are functions from values to values: the record and what
// lives go in, the record as it should be and the objects that are missing come
// out. Store keeps the record in a ConfigMap that the NodeSync owns. It is written
// only where an object came or went, or the revision changed, and before a NodePool
// comes. The status has the revision as well; a restore brings back an older one of it,
// and not of the record. Store.Lost says where that was restored or deleted, too.
package inventory
