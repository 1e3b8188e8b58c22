// Package termination finds NodeClaims, Nodes and instances that have been terminating for longer than expected,
// no matter which client deleted them, and names what each waits for.
//
// Input: the NodeClaims of the watch cache, and the Nodes and instances without a NodeClaim that the comparison with EC2 found.
// Output: the API's Terminations, with the diagnosis that removals use (package blocker). It reads past the watch cache once a
// minute, and only while something is overdue. It writes nothing.
package termination
