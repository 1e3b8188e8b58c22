// Package termination finds NodeClaims, Nodes and instances that have been terminating for longer than expected,
// no matter which client deleted them, and names what each waits for.
//
// The NodeClaims of the watch cache, and what the comparison with EC2 has found without a NodeClaim, go in; the API's
// Terminations come out, by the diagnosis that removals have (package blocker). It reads past the watch cache once a
// minute, and only while something is overdue. It writes nothing.
package termination
