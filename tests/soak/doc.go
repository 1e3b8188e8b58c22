// Package soak lets the daemon live for a while: one cluster with the real
// Karpenter, two daemons of which one leads, a repository that people push to without
// rest, workloads that come and go, and faults. What happens is drawn from a seed, so
// that the same seed does the same things again; how long each takes is not.
//
//	make soak MINUTES=30          from a seed by chance, which is printed
//	make soak MINUTES=30 SEED=42  what seed 42 does
//
// Faults are of the daemons (killed, with and without their cache, stopped, frozen
// for longer than a lease), of the API server for one of them or for both (away,
// hanging, slow, busy, watches expired), of the Git host, the host of commit statuses
// and the registry of the charts, and of AWS: calls that fail, answers that lag and
// miss instances, a zone that is away, instances that are stopped or protected. Each
// ends within 20 s.
//
// Three things are held all the time:
//
//   - No node that Git wants is lost. The daemon deletes a NodePool, a NodeClaim or
//     an EC2NodeClass only if some HEAD of the last minute did not have the entry,
//     as the API server's audit has it; it deletes no CRD and no Deployment, and no
//     NodePool before its instances are terminated. A commit that drops all pools
//     takes none: the guard holds them. And an instance that ran when all was quiet
//     last runs when it is quiet again, if every HEAD in between had its pool and its
//     class unchanged.
//   - No status lies. While the NodeSync is Ready at a revision, the objects are what
//     that revision says, or a later one; only an edit by hand may stay for a while. A
//     commit that does not render, or that the guard holds, is never one, nor is its
//     commit status ever success, but for the sake of a later commit that it names.
//   - No daemon ends by itself, but one that has lost the lease or could not reach the
//     API server; it says so, and is started again.
//
// From time to time faults end and the repository is whole; then, within a few
// minutes,
//
//   - nothing stays that Git does not want: no pool, no record of a removal, no
//     instance of another pool or without a NodeClaim, and all pods run that have a
//     pool to run in;
//   - nothing leaks: goroutines, watches and memory are what they were, with some
//     tolerance.
//
// In the end the NodeSync is deleted with onDelete: Drain, and nothing is left in
// AWS.
package soak
