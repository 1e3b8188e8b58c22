// Package allowance decides what of Karpenter's charts may come from Git.
//
// Its input is an Allowance, which is spec.charts.allow of a NodeSync, and what a commit requests: a Request
// (repository, version, values, IAM role), the digests of the fetched charts, and their rendered objects. Its outputs
// are Refusals; each names what is refused and the line of the NodeSync that would allow it.
//
// By default, everything else is refused. The values that a commit may set are in one table (table.go), which contains
// every value of Karpenter's real charts, open or closed with the reason: a test checks this for each released version.
// The allowed objects are those of the real charts, with their rules (charted.json, generated).
//
// It has no I/O, no clock and no client, and never prints a value: some are secrets.
package allowance
