package bench

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Counts are the expected counts of a row. They do not depend on the machine.
type Counts struct {
	// Writes are exact; the others are maximums, or free. Refused are writes that conflicted with another client's
	// write of the same object.
	Writes, Refused, Patches, Events, Lists, Reads int
	// Children are exact, too.
	Children int
}

// free does not check a count.
const free = -1

// wakes returns how often a daemon is woken at most during a steady stream of events: immediately, after increasing
// delays, and then once per second; and by its own changes.
func wakes(d time.Duration) int { return 8 + int(d/time.Second) }

// counted returns for how many terminated nodes the recorder counts the pods at most (reconcile/recorder/pods.go).
func counted(ends int, d time.Duration) int { return min(ends, 100+20*int(d/time.Second+1)) }

var (
	// oneObject is the maximum cost of a change of one object. The status is patched before the write, after it, and when
	// the commit status was posted.
	oneObject = Counts{Writes: 1, Patches: 3, Events: 1, Lists: 0, Reads: free}
	// nothing is the maximum cost of a commit outside the inputs: recording that HEAD matches, and that its commit
	// status was posted.
	nothing = Counts{Patches: 2, Lists: 0, Reads: 0}
)

// exact checks a row's counts.
func exact(row Row, want Counts) error {
	var failed error
	if row.Writes != want.Writes || row.Refused > want.Refused || row.DryRuns > 0 {
		failed = fmt.Errorf("%d objects were written, %d writes refused and %d only tried; want exactly %d, at most %d and none",
			row.Writes, row.Refused, row.DryRuns, want.Writes, want.Refused)
	}
	if row.Children != want.Children && want.Children != free {
		failed = errors.Join(failed, fmt.Errorf("%d child processes; want exactly %d", row.Children, want.Children))
	}
	for _, count := range []struct {
		what      string
		got, most int
	}{
		{"status patches", row.Patches, want.Patches},
		{"events", row.Events, want.Events},
		{"LISTs", row.Lists, want.Lists},
		{"GETs of objects", row.Reads, want.Reads},
	} {
		if count.most != free && count.got > count.most {
			failed = errors.Join(failed, fmt.Errorf("%d %s; want at most %d", count.got, count.what, count.most))
		}
	}
	if want.Lists != free && row.Lists > want.Lists {
		failed = errors.Join(failed, fmt.Errorf("the LISTs are %s", strings.Join(row.Listed, ", ")))
	}
	if failed != nil {
		return fmt.Errorf("%s: %w", row.Work, failed)
	}
	return nil
}
