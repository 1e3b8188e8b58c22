// Package plan compares a Set with the live cluster and decides what to change.
//
// The input is the Set of a revision, the live definitions, NodeClaims and open removals, and the policy of a NodeSync.
// The output is a Plan: a Change for each object that differs from Git, in the order of their Stages, each with its
// Effect and the nodes that it affects; the objects that were removed from Git, checked by the guard; and a Digest of
// all of it.
//
// A Calendar decides when nodes may be removed or replaced: within spec.guard.windows, which work like Karpenter's
// disruption budgets but have their own time zone, and not on the dates of spec.guard.freeze.
//
// CompiledPolicies are spec.policies: CEL with Kubernetes' libraries, type-checked against planjson and limited in
// cost. They fail closed: a policy that does not compile, or a Deny that cannot be evaluated, is an error, and nothing
// of the Plan is applied; a Hold that cannot be evaluated holds.
//
// The package is a pure function: it reads no clock, queries no cluster and writes nothing. One broken object never
// keeps the others from their Change.
package plan
