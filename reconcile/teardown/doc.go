// Package teardown takes entries away that have left the repository, without
// stranding a node.
//
// Next is the whole rule, a function from values to values: a Removal and what
// is seen of its object go in, the Removal one step further and the Actions to
// take come out. It has no clock, no client and no context, so that every order
// of events, crash and stale cache can be played through in a test; the scripts
// under testdata read as such plays. Drive is the I/O around it: it observes,
// answers the questions that Next has, and acts, with the object's UID and
// resourceVersion as preconditions and the lease checked before each delete.
//
// A pool goes last: recorded, growth stopped, NodeClaims ended, EC2 asked, and
// only then deleted. Nothing is ever forced: a removal that stands still is
// Stalled, with a diagnosis, for as long as it takes. What a pass deletes, an
// earlier pass has recorded. Release undoes what open removals have done when
// the NodeSync goes and leaves its nodes.
package teardown
