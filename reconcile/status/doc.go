// Package status concludes a reconcile. Only here does what was found become conditions, the rest of the NodeSync's
// status, events, metrics, commit statuses and the time of the next reconcile. Everything that was read from a Secret
// is redacted first.
package status
