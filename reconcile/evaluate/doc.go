// Package evaluate finds out what Git wants, and what is to be done for it.
//
// DesiredStep turns the files of a commit into Desired: what plumbline.yaml says, Karpenter's charts and their values, the schema of
// the definitions, and the Set of definitions. PlanStep adds to what the NodeSync allows (plan.PolicyOf) what is known outside of
// it: what the other NodeSyncs of the cluster have in Git, whether HEAD may be older than what was applied, and what people have
// approved. With that it plans the Set against what lives.
//
// Nothing is written to the cluster, with one exception: Approvals that have expired are deleted. The Git host is asked how two
// commits are related, only if a removal depends on the answer.
package evaluate
