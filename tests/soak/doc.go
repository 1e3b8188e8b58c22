// Package soak runs the daemon for a while: one cluster with the real Karpenter, two daemons of which one leads, a
// repository with continuous pushes, workloads that come and go, and faults. The actions are drawn from a seed, so that
// the same seed does the same things again; their durations are not.
//
//	make soak MINUTES=30          from a random seed, which is printed
//	make soak MINUTES=30 SEED=42  what seed 42 does
//
// Faults affect the daemons (killed, with and without their cache, stopped, frozen for longer than a lease), the API
// server for one of them or for both (unavailable, hanging, slow, busy, watches expired), the Git host, the host of
// commit statuses and the registry of the charts, and AWS: calls that fail, answers that lag and omit instances, a
// disrupted zone, instances that are stopped or protected. Each ends within 20 s.
//
// Three invariants are checked all the time:
//
//   - No node that Git wants is lost. The daemon deletes a NodePool, a NodeClaim or
//     an EC2NodeClass only if some HEAD of the last minute did not contain the entry,
//     according to the API server's audit log; it deletes no CRD and no Deployment, and
//     no NodePool before its instances are terminated. A commit that drops all pools
//     removes none: the guard holds them. And an instance that ran when all was last
//     quiet runs when it is quiet again, if every HEAD in between contained its pool and
//     its class unchanged.
//   - No status is untrue. While the NodeSync is Ready at a revision, the objects match
//     that revision, or a later one; only a manual edit may remain for a while. A commit
//     that does not render, or that the guard holds, is never such a revision, and its
//     commit status is never success, except because of a later commit that it names.
//   - No daemon exits on its own, except one that has lost the lease or could not reach
//     the API server; it logs that, and is restarted.
//
// From time to time, faults end and the repository is valid; then, within a few minutes,
//
//   - nothing remains that Git does not contain: no pool, no record of a removal, no
//     instance of another pool or without a NodeClaim, and all pods run that have a
//     pool to run in;
//   - nothing leaks: goroutines, watches and memory are as before, with some tolerance.
//
// In the end, the NodeSync is deleted with onDelete: Drain, and nothing is left in AWS.
package soak
