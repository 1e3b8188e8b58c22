// Package whatif is Karpenter's own scheduling over a Capture: what would become of pods once a
// commit's definitions are in force and the NodeClaims that it touches are gone.
//
// In go a Capture, the definitions after the commit, the NodeClaims that it touches, and what EC2
// offers; out come pods that move, pods with nowhere to go with Karpenter's reason, nodes that
// would be launched with the instance types that could come, and list prices before and after.
// Every decision is that of the linked sigs.k8s.io/karpenter (disruption.SimulateScheduling, as
// Karpenter itself simulates a disruption): all nodes that the commit touches are taken as ending
// at once, where Karpenter ends them within its budgets. It writes nothing and asks nobody; beside
// the passes reconcile/landing calls it in a child process.
package whatif
