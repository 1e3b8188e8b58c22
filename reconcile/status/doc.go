// Package status concludes a reconcile. It is the one place where what was found becomes conditions, the rest of the NodeSync's
// status, events, metrics, commit statuses and the time of the next reconcile. Whatever was read from a Secret is redacted
// first.
package status
