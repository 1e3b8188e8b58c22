// Package recorder is the flight recorder of nodes: for each NodeClaim of a NodePool that a
// NodeSync owns, and that ends, it keeps what it was, when each stage of its end was, how many
// pods it had, and why it ended.
//
// In come NodeClaims as the watch cache has them (reconcile/watch calls See and Gone); out come
// Records in ConfigMaps that the NodeSync owns, the newest of them only. Why a NodeClaim ended
// is decided by one table of rules over what was seen (cause.go), each with its source in
// Karpenter; what no rule tells is Unknown. EC2 is asked where nothing in the cluster tells. Pods are
// counted as the deletion begins, of some nodes a second. The table and the ring are pure; Recorder
// does the I/O, on the leader only, in batches, beside the reconciles: none waits for it.
//
// A Record is written when its end begins, and again as it proceeds, so that a daemon that is
// killed has written who was ending; what ended while nobody led is a Gap in the log.
// Nothing is read from Secrets, and nothing but ConfigMaps is written.
package recorder
