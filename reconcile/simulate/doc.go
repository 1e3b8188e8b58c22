// Package simulate runs Karpenter's own scheduling over a copy of a cluster.
//
// A Capture is everything that this scheduling reads, as one value that fits into a file: nodes, NodeClaims, definitions, DaemonSets,
// budgets, volumes, and of pods the fields that decide where they run. It has no Secret, no ConfigMap, no environment, command,
// image or volume of a pod: each field that is kept is listed, so that a field that Kubernetes adds is left out.
// ReadCapture reads it in pages through any reader; what may not be read is named and left out.
//
// Run takes a Capture, the definitions after a commit, the NodeClaims that the commit touches, and what EC2 offers. It returns the pods
// that move, the pods with nowhere to go and Karpenter's reason, the nodes that would be launched with the possible instance types,
// and list prices before and after. Every decision is made by the linked sigs.k8s.io/karpenter (disruption.SimulateScheduling). All nodes
// that the commit touches are taken as terminating at once, whereas Karpenter terminates them within its budgets.
//
// A LandingAsker finds out whether the pods of pools that are removed can be scheduled elsewhere, before the first of their nodes
// terminates. It works in the background: it reads the cluster past the cache, asks EC2 for its instance types twice a day, and simulates in
// a child process with limited memory and time. In a large cluster only the nodes that terminate and some pods of each workload
// are simulated. It holds nothing itself, and what it cannot find out holds nothing either.
//
// Nothing here writes to a cluster.
package simulate
