package queue

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/report"
)

// TestACommitThatSilencesTheHost keeps no other from being reported, nor do two of them for long.
func TestACommitThatSilencesTheHost(t *testing.T) {
	for bombs, most := range map[int]time.Duration{0: 0, 1: 0, 2: longestWait} {
		l := &Lane{}
		for i := range bombs {
			l.put(fmt.Sprintf("bomb-%d", i), waiting, "", noon)
		}
		pushed := noon.Add(time.Hour)
		for now := noon; ; now = now.Add(time.Second) {
			if now.Equal(pushed) {
				l.put("late", fine, "", now)
			}
			e, due := l.next(now)
			if due && e.Commit == "late" {
				if waited := now.Sub(pushed); waited > most {
					t.Errorf("%d commits keep it waiting for %s, want at most %s", bombs, waited, most)
				}
				break
			}
			if due {
				l.failed(attempt{entry: e, at: now}, &report.UnavailableError{Err: errors.New("no answer in time")}, false)
			}
			if now.After(pushed.Add(time.Hour)) {
				t.Errorf("%d commits keep it waiting for an hour", bombs)
				break
			}
		}
	}
}
