// Package recorder is the flight recorder of nodes: for each terminated NodeClaim of a NodePool that a NodeSync owns,
// it records what it was, when each stage of its termination was, how many pods it had, and why it was terminated.
//
// Its input is NodeClaims from the watch cache (reconcile/watch calls See and Gone). Its output is Records in
// ConfigMaps that the NodeSync owns, limited to the latest. The cause of a termination is decided by one table of rules
// over the observed facts (cause.go), each with its source in Karpenter; if no rule applies, it is Unknown. EC2 is
// queried if nothing in the cluster shows the cause. Pods are counted when the deletion starts, for a limited number of
// nodes a second. The table and the ring are pure; Recorder does the I/O, on the leader only, in batches, concurrently
// with the reconciles: none waits for it.
//
// A Record is written when the termination starts, and again as it proceeds, so a daemon that is killed has written
// what was terminating; what was terminated while there was no leader is a Gap in the log. The package reads no
// Secrets, and writes only ConfigMaps.
package recorder
