// Package page serves what the daemon knows as web pages that are only read: each NodeSync with
// what it waits for, its pools with their nodes by state, the rollout and the removals as they go,
// what is held and what releases it, drift, and the nodes that ended with their causes.
//
// In come values out of the watch cache and what the recorder keeps in memory (World); out comes
// HTML that needs no script and nothing from elsewhere, in the words of `plumbline status`
// (reconcile/summary). An answer is good for a second, and there is one render at a time, so that
// any number of requests costs the API server nothing and the reconciles little.
//
// It never writes, reads no Secret, sets no cookie and runs no script. It shows statuses, which the
// conclusion of each reconcile has redacted, names and counts; no message of other objects.
package page
