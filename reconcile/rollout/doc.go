// Package rollout follows what Karpenter's nodes do after a commit, and stops a rollout that goes wrong.
//
// Rollouts finds the nodes that do not match their definitions and what keeps them from being replaced; Launches finds the pools that
// get no nodes; SeeDrift finds nodes that drift after a change of Karpenter although nothing has asked for it. These only report.
//
// Next and BrakeStep are the brake: a disruption budget of 0 nodes for the reason Drifted, which keeps Karpenter from replacing more
// nodes of a NodePool. Nodes that are being launched go on, and consolidation, expiry, interruption, repair and removals are not
// stopped. Next is pure: the rollout, the launches and the status of each pool are its input, the new status is its result. A brake
// is recorded first and written by the next reconcile, so that a daemon that is killed in between continues where it was. It ends
// by its record: the next Plan finds Git's budgets missing and writes them. Karpenter's CRD makes the budgets of a NodePool one
// atomic list, so that the field manager plumbline-brake applies Git's budgets and its own after them, and Git's object is
// applied without any meanwhile (reconcile/plan/brake.go).
//
// A HoldAsker queries the conditions of spec.rollout.holdWhile (Prometheus or Alertmanager) in the background. Each query has a
// time-out, its answer is limited in size, redirects are not followed, and only the URL that the NodeSync names is queried. The
// value of a Secret is sent to no other host (reconcile/grant) and is not part of any message.
//
// A ProposalAsker opens a pull request that takes definitions back to the revision that was applied before, if a rollout is stopped
// because its launches failed and spec.rollout.onFailure is BrakeAndPropose. Which proposals are due is decided by values (due.go).
// It looks for its pull request and its branch before it opens one: a daemon that was killed and another leader
// continue where that one was, and what a person has closed is not opened again. It never merges, and never writes to an
// existing branch.
package rollout
