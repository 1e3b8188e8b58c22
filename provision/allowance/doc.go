// Package allowance decides what of Karpenter's charts may come from Git.
//
// In go an Allowance, which is what spec.charts.allow of a NodeSync says, and what a
// commit asks for: a Request (repository, version, values, IAM role), the digests that
// were found, and the objects that the charts render to. Out come Refusals; each names
// what is refused and the line of the NodeSync that would allow it.
//
// It is closed by default. The values that a commit may set are one table
// (table.go), and every value of Karpenter's real charts stands in it, open or closed
// with the reason: a test checks that for each released version. The objects are those
// that the real charts have, with the rules that they have (charted.json, generated).
//
// It has no I/O, no clock and no client, and never repeats a value: some are secrets.
package allowance
