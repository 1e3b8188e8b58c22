// Package policy evaluates IAM policies as AWS does.
//
// In go documents in IAM's JSON and a Request: who does what to which resource,
// and the values of the condition keys. Out comes a Decision: an explicit deny
// wins, then an allow, else it is denied. The rules are those of
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
//
// An operator or an element that it does not know is an error when a document is
// read, never a statement that is skipped.
package policy
