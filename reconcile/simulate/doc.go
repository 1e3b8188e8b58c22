// Package simulate runs Karpenter's own scheduling on a copy of a cluster.
//
// A Capture is everything that this scheduling reads, as one value that fits into a file: nodes, NodeClaims,
// definitions, DaemonSets, budgets, volumes, and the fields of pods that decide where they run. It contains no Secrets,
// no ConfigMaps, and no environment, command, image or volume of a pod: each field that is kept is listed, so that a
// field that Kubernetes adds is left out. ReadCapture reads it in pages with any reader; it names and omits what may
// not be read.
//
// Run takes a Capture, the definitions after a commit, the NodeClaims that the commit touches, and what EC2 offers. It
// returns the pods that move, the unschedulable pods with Karpenter's reason, the nodes that would be launched with the
// possible instance types, and list prices before and after. Every decision is made by the linked sigs.k8s.io/karpenter
// (disruption.SimulateScheduling). All nodes that the commit touches are assumed to terminate at once, whereas
// Karpenter terminates them within its budgets.
//
// Karpenter's simulation takes time in proportion to the pods that move, times the nodes and instance types. Run leaves
// out the nodes to which none of these pods can be scheduled (relevantPart), and serves one instance type for all those
// that the scheduler cannot distinguish (alike). The result is the same: a property test compares it with that of the
// whole.
//
// A LandingChecker finds out whether the pods of removed pools can be scheduled elsewhere, before the first of their
// nodes is terminated. It works in the background: it reads the cluster past the cache, queries EC2 for its instance
// types twice a day, and simulates in a child process with limited memory and time. For a large cluster, it simulates
// only the nodes that are terminated, and some pods of each workload. It holds nothing itself, and an unknown result
// holds nothing either.
//
// The package writes nothing to a cluster.
package simulate
