// Package upgrade changes Karpenter's charts from what is installed to what is in Git, in the only safe order, and
// rolls back if the controller does not become ready.
//
// Next contains all rules. It is a pure function: from the status and an observation, it returns the status one step
// further and the Action to take. It has no clock, client or context; the scripts under testdata play through it.
//
// Step carries out the Actions with Helm, in one reconcile; gates.go finds what must be refused before anything
// changes.
//
// The order is: everything is checked before anything changes; objects are rewritten if the new CRDs would lose their
// stored version; the CRDs are installed first and are Established before the controller is installed; a controller
// that does not become ready in time is rolled back to the last good release, while the CRDs stay. Meanwhile, and for a
// while afterwards, package rollout watches for unexpected node drift. Each step is in the status before it is taken,
// and can be repeated after a kill.
package upgrade
