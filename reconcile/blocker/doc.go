// Package blocker names what keeps a node that is to end: a pod with its PodDisruptionBudget,
// annotation or finalizer, a volume that is attached, EC2's or AWS's refusal, or what Karpenter says.
//
// Nodes go in; Look reads what hangs on them past the cache, as Evidence. Causes is the rule, a
// function from values to values, and the words are made there, too: the same Evidence makes the
// same words. Removals and rollouts both go by it.
//
// It only reads. It decides nothing, and forces nothing.
package blocker
