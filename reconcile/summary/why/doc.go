// Package why explains one object to a person: why a node was terminated or what keeps one that runs, what a NodePool that is removed waits
// for, and what keeps an EC2NodeClass that was deleted.
//
// In come the NodeClaim, its Record, its definitions and the statuses of NodeSyncs; out come values, which `plumbline why`
// prints. It reads nothing, writes nothing, and takes the time as a value.
package why
