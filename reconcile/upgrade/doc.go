// Package upgrade brings Karpenter's charts from what is installed to what Git
// says, in the only safe order, and back where the controller does not come up.
//
// Next is the whole rule, a function from values to values: the status and what
// is seen go in, the status one step further and the Action to take come out. It
// has no clock, no client and no context; the scripts under testdata read as
// plays of it.
//
// Step does what Next says, for one reconcile, with Helm; gates.go finds what must be refused before anything changes.
//
// The order: everything is checked while nothing has moved; objects are
// rewritten where the new CRDs would lose their stored version; the CRDs go
// first and are Established before the controller follows; a controller that
// does not come up in time is rolled back to the last good release, and the
// CRDs stay. Package rollout watches meanwhile, and for a while longer, for unexpected
// node drift. Each step is in the status before it is taken, and can be taken
// again after a kill.
package upgrade
