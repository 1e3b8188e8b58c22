// Package resolve queries AWS for what the selectors of an EC2NodeClass resolve to: AMIs, subnets, security groups and
// capacity reservations, as Karpenter would find them. Its input is a class from Git with the schema's defaults. Its
// output is IDs, or a typed error that says why they are unavailable.
//
// The rules are Karpenter's own: the package calls its providers with a client that only reads, caches each response
// for some minutes and stays within a small budget, which is far below EC2's limits, so that Karpenter is never
// throttled because of it. Over budget, it returns a *BusyError immediately; it never waits.
package resolve
