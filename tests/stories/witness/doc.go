// Package witness finds what plumbline reports about nodes that is not true. Its input is what plumbline reports (the
// status of a NodeSync, commit statuses) and the actual state (objects, EC2's instances, the API server's audit log,
// the files of a commit); its output is the lies, each with how long it is tolerated. It does not rely on plumbline's
// own counts: each rule defines for itself what would contradict a report.
//
// It reads nothing itself, and does not depend on stories.
package witness
