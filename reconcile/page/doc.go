// Package page serves the daemon's state as read-only web pages: each NodeSync with what it waits for, its pools with
// their nodes by state, the progress of rollouts and removals, what is held and how to release it, drift, and
// terminated nodes with their causes.
//
// The input is the watch cache and what the recorder keeps in memory (World); the output is HTML without scripts or
// external resources, with the same text as `plumbline status` (reconcile/summary). A response is cached for a second,
// and only one page is rendered at a time, so that any number of requests costs the API server nothing and the
// reconciles little.
//
// The package never writes, reads no Secret, sets no cookie and runs no script. It shows statuses, which the conclusion
// of each reconcile has redacted, names and counts, but no messages of other objects.
package page
