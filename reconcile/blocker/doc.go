// Package blocker names what blocks the termination of a node: a pod with its PodDisruptionBudget, annotation or
// finalizer, an attached volume, a refusal by EC2 or AWS, or what Karpenter reports.
//
// Its input is Nodes. Look reads past the cache what may block them, as Evidence. Causes, a pure function, contains the
// rules and the messages: the same Evidence results in the same messages. Removals and rollouts use it.
//
// The package only reads. It decides nothing, and forces nothing.
package blocker
