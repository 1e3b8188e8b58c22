// Package landing finds out whether the pods of pools that leave find a place elsewhere, before the first of
// their nodes ends.
//
// A Plan goes in, a plan.Landing comes out: the pods that Karpenter's own scheduling
// (reconcile/whatif) finds no place for, by pool, with its reason; or why nobody can say. It asks beside
// the passes: reads the cluster past the cache, asks EC2 for its instance types twice a day, and
// has a child process simulate, within the child's memory and time. Of a large cluster it takes only the nodes
// that end, and some pods of each workload: they have to fit on new nodes, within what the limits leave. It holds
// nothing itself, and what it cannot find out holds nothing either.
package landing
