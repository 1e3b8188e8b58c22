// Package rules compiles spec.policies of a NodeSync and asks them about a Plan. Policies and a
// planjson.Plan go in; which policy denies it, and what others hold, come out. The expressions are
// CEL with Kubernetes' libraries, checked against the types of planjson, and bounded in what they
// may cost. It decides nothing by itself, and has neither clock nor client.
//
// It fails closed: a policy that does not compile, or a Deny that cannot be evaluated, is an error,
// by which nothing of the Plan is done; a Hold that cannot be evaluated holds.
package rules
