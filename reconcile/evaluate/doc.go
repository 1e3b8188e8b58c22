// Package evaluate finds out what Git wants, and plans how to get there.
//
// DesiredStep turns the files of a commit into Desired: what plumbline.yaml says, Karpenter's charts and their values,
// the schema of the definitions, and the Set of definitions. PlanStep combines what the NodeSync allows (plan.PolicyOf)
// with facts from outside of it: what the other NodeSyncs of the cluster have in Git, whether HEAD may be older than
// what was applied, and what people have approved. With these it plans the Set against the live objects.
//
// Nothing is written to the cluster, with one exception: expired Approvals are deleted. The Git host is queried for the
// order of two commits only if a removal depends on it.
package evaluate
