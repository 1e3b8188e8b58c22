// Package plan compares a Set with what lives and says what would be done.
//
// In go the Set of a revision, the live definitions, NodeClaims and open
// removals, and the policy of a NodeSync. Out comes a Plan: a Change for each
// object that is not as Git says, in the order of their Stages, each with its
// Effect and the nodes it touches; the entries that have left the repository,
// weighed by the guard; and a Digest that names all of it.
//
// A Calendar says when nodes may be removed or replaced: within spec.guard.windows, which are as in
// Karpenter's disruption budgets, in a time zone of their own, and not on the dates of spec.guard.freeze.
//
// CompiledPolicies are spec.policies: CEL with Kubernetes' libraries, checked against the types of planjson
// and bounded in what they may cost. They fail closed: a policy that does not compile, or a Deny that cannot be
// evaluated, is an error, by which nothing of the Plan is done; a Hold that cannot be evaluated holds.
//
// It is a function from values to values. It reads no clock, asks no cluster and
// writes nothing. One broken object never keeps the others from their Change.
package plan
