// Package brake stops a rollout that goes wrong. A disruption budget of no nodes for the reason
// Drifted keeps Karpenter from replacing more nodes of a NodePool: what is launched already goes
// on, and consolidation, expiry, interruption, repair and removals are not stopped.
//
// In come the rollout, the launches of its pools, and what the status says of each pool; out comes
// what the status is to say (Next, which is pure), and the budget of each pool of which the status
// says so already (Step): it is recorded first, and written by the next pass. So a daemon that is
// killed in between goes on where it stood. A brake ends by its record: the Plan of the next pass
// finds the budgets of Git missing, and writes them.
//
// Karpenter's CRD makes the budgets of a NodePool one value (an atomic list), so that the brake's
// field manager, plumbline-brake, applies Git's budgets with its own after them, and Git's object is
// applied without any meanwhile (reconcile/plan/brake.go).
package brake
