// Package leftover judges what is left of a cluster's Karpenter in AWS.
//
// In go what AWS has answered about each kind (cloud.Answer) and the cluster's
// PersistentVolumes, out comes a Report: what is left, what is kept on purpose, and which
// question has no answer. Nothing is left only where every question has one. What is attached
// to an instance that EC2 has not ended goes with that, or belongs to a node of another maker:
// it is not counted.
//
// Ends says what of it a user's command may end: by its tags this cluster's, and no other's.
//
// It asks nobody and deletes nothing.
package leftover
