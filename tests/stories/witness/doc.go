// Package witness says what plumbline says of nodes and is not so. In come what anybody can read of it (the status
// of a NodeSync, commit statuses) and what there is (objects, EC2's instances, the API server's audit, the
// files of a commit); out come the lies, each with how long it may stand. Nothing that plumbline
// has counted is believed: each rule has its own definition of what would contradict it.
//
// It reads nothing itself, and knows no story.
package witness
