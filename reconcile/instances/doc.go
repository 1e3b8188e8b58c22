// Package instances finds EC2 instances that are not what their definitions and NodeClaims say,
// though Karpenter takes them to be: edited tags or security groups, an instance that ended by
// hand, one that no NodeClaim has. What EC2 shows and what lives go in;
// the instances that differ, with what differs, come out; and the volumes that nodes which are gone
// have left attached.
//
// An Asker asks AWS beside the passes, seldom and within the budget of questions that only serve a
// report, and a pass reads its last answer. It acts on nothing, never waits, and says nothing of
// nodes that Karpenter has found Drifted: those are reported as that.
package instances
