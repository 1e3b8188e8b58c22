package render

import "strings"

// ShortRevision cuts the hash of a revision to what people read: of
// main@sha1:<40 digits> it leaves main@sha1:<8 digits>.
func ShortRevision(revision string) string {
	const keep = 8
	if at := strings.LastIndex(revision, ":"); at >= 0 && len(revision) > at+1+keep {
		return revision[:at+1+keep]
	}
	return revision
}

// CommitOf is the commit of a revision; empty where it has none.
func CommitOf(revision string) string {
	if i := strings.LastIndex(revision, ":"); i >= 0 {
		return revision[i+1:]
	}
	return ""
}
