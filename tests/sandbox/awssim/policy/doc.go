// Package policy evaluates IAM policies like AWS.
//
// Its input is documents in IAM's JSON and a Request: who does what to which resource, and the values of the condition
// keys. It returns a Decision: an explicit deny wins, then an allow, else the request is denied. The rules are those of
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
//
// An unknown operator or element is an error when a document is parsed, never a skipped statement.
package policy
