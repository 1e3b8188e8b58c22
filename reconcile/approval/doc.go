// Package approval decides whether people have approved what the guard holds of a Plan. The input is what is held, the
// Approvals, and what the API server enforces for them; the output is what the status reports. An approval is first
// recorded in the status, and applied by a later reconcile, as removals are. The package reads nothing, writes nothing
// and has no clock.
package approval
