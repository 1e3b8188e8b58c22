// Package approval decides whether people have approved what the guard holds of a Plan. What is
// held, the Approvals, and what the API server enforces of them go in; what the status says of it
// comes out. What is approved is recorded in the status first, and acted on by a later reconcile, as
// removals are. It reads nothing, writes nothing and knows no clock.
package approval
