// Package rollout follows what Karpenter does with nodes after a commit, and stops a rollout that fails.
//
// Rollouts finds the nodes that do not match their definitions and what blocks their replacement; Launches finds the
// pools that get no nodes; SeeDrift finds nodes that drift after a change of Karpenter that was not expected to replace
// them. These only report.
//
// Measure and Estimate are pure: from the numbers of each look, recorded in the rollout, they compute how fast nodes
// are replaced, when the rollout is expected to be complete, what limits it, and whether it will exceed its timeout.
//
// Next and BrakeStep are the brake: a disruption budget of 0 nodes for the reason Drifted, which keeps Karpenter from
// replacing more nodes of a NodePool. It does not stop nodes that are being launched, consolidation, expiry,
// interruption, repair or removals. Next is pure: it computes the new status from the rollout, the launches and the
// status of each pool. A brake is recorded first and written by the next reconcile, so that a daemon that is killed in
// between continues where it was. Removing the record removes the brake: the next Plan finds that Git's budgets are
// missing and writes them. Karpenter's CRD makes the budgets of a NodePool one atomic list. The field manager
// plumbline-brake therefore applies Git's budgets followed by its own, and Git's object is applied without any budgets
// meanwhile (reconcile/plan/brake.go).
//
// A HoldChecker queries the conditions of spec.rollout.holdWhile (Prometheus or Alertmanager) in the background. Each
// query has a timeout, its answer is limited in size, redirects are not followed, and only the URL that the NodeSync
// names is queried. The value of a Secret is sent to no other host (reconcile/grant) and is not part of any message.
//
// A ProposalWorker opens a pull request that restores definitions of the previously applied revision, if a rollout is
// stopped because its launches failed and spec.rollout.onFailure is BrakeAndPropose. Which proposals are due is decided
// by values (due in proposal.go). It looks for its pull request and its branch before it opens one: after a kill or a
// change of the leader it continues from there, and what a person has closed is not opened again. It never merges, and
// never writes to an existing branch.
package rollout
