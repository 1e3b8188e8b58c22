// Package resolve queries AWS for what the selectors of an EC2NodeClass resolve to: AMIs, subnets,
// security groups and capacity reservations, as Karpenter would find them. A class, as Git has it
// with the schema's defaults, goes in, IDs come out, or a typed error that says why they are
// unavailable.
//
// The rules are Karpenter's own: its providers are called, over a client that only reads,
// remembers each answer for some minutes and asks no more than a small budget allows, which is
// far below EC2's, so that Karpenter is never throttled for it. Over budget the answer is a
// *BusyError at once; nothing waits.
package resolve
