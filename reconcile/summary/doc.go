// Package summary describes a NodeSync for people: its state, what happens next, what it waits for, its pools with
// their nodes by state, and which nodes are outdated. It also explains one object: why a node was terminated or what
// blocks one that runs, what a NodePool that is being removed waits for, and what blocks an EC2NodeClass that was
// deleted.
//
// Its input is a NodeSync with its status, NodePools, NodeClaims and Records, as read from an API server or the watch
// cache; its output is values and sentences, which `plumbline status` and `plumbline why` print and the page shows, so
// that all report the same. It reads nothing, writes nothing, and takes the time as a value.
package summary
