package report

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
)

// TestKilledAnywhere: whatever hosts respond and wherever the process is killed, each commit eventually gets its final
// status, statuses come in order, and none is posted twice unless the process was killed between the host's response
// and the write of the ledger.
func TestKilledAnywhere(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		l := newLife(t)
		steps := map[string]func(*rapid.T){
			"push":    l.push,
			"verdict": l.verdict,
			"deliver": l.deliverSome,
			"wait":    l.wait,
			"host":    l.hostChanges,
			"kill":    l.lightFuse,
			"":        func(*rapid.T) { l.bury() },
		}
		t.Repeat(steps)
		l.end(t)
	})
}

// life is the life of a daemon over a history of commits.
type life struct {
	*world
	// commits is their number; those up to applied were applied.
	commits, applied int
	// told is the last verdict; a daemon that was killed before it saved its status reports it again.
	told     Update
	verdicts int
	// excused is how many posts may have been forgotten because of kills.
	excused int
}

func newLife(t *rapid.T) *life {
	l := &life{world: newWorld(t), commits: 1}
	l.told = l.update(Pending)
	l.tell()
	return l
}

func (l *life) update(state State) Update {
	l.verdicts++
	s := Update{Head: fmt.Sprintf("c%d", l.commits), State: state, Description: fmt.Sprintf("v%d", l.verdicts)}
	for i := l.commits; i > l.applied && l.commits-i < 50; i-- {
		s.Commits = append(s.Commits, fmt.Sprintf("c%d", i))
	}
	return s
}

func (l *life) tell() {
	if err := l.say(l.told); err != nil && !errors.Is(err, errKilled) {
		l.t.Fatal(err)
	}
}

func (l *life) push(t *rapid.T) {
	if rapid.Bool().Draw(t, "applied") {
		l.applied = l.commits
	}
	l.commits += rapid.IntRange(1, 3).Draw(t, "commits")
	l.verdict(t)
}

func (l *life) verdict(t *rapid.T) {
	l.told = l.update(rapid.SampledFrom([]State{Pending, Success, Failure}).Draw(t, "state"))
	l.tell()
}

func (l *life) deliverSome(*rapid.T) {
	before := len(l.posted)
	l.deliver()
	if l.fuse == 0 {
		l.excused += len(l.posted) - before // at most: some of them were written
	}
}

func (l *life) wait(t *rapid.T) {
	l.now = l.now.Add(time.Duration(rapid.IntRange(1, 400).Draw(t, "seconds")) * time.Second)
}

func (l *life) hostChanges(t *rapid.T) {
	answers := []error{nil, &UnavailableError{Code: 503}, &UnavailableError{Code: 500}, &RateLimitedError{RetryAfter: time.Minute}, &UnauthorizedError{}}
	err := rapid.SampledFrom(answers).Draw(t, "answer")
	l.answer = func(string, Status) error { return err }
}

func (l *life) lightFuse(t *rapid.T) { l.fuse = rapid.IntRange(0, 6).Draw(t, "fuse") }

// bury restarts the daemon if it was killed.
func (l *life) bury() {
	if l.fuse != 0 {
		return
	}
	l.start()
	l.tell()
}

func (l *life) end(t *rapid.T) {
	l.fuse, l.answer = -1, nil
	l.told = l.update(Success)
	l.told.Retry = true
	l.tell()
	for range 3 {
		l.now = l.now.Add(2 * retryRejectedSecret)
		l.deliver()
	}
	if stored, _ := l.stored(); len(stored.Lanes[0].Waiting) > 0 {
		t.Fatalf("still waiting: %+v", stored.Lanes[0])
	}
	last, twice := map[string]Status{}, 0
	for _, s := range l.posted {
		before, known := last[s.Commit]
		if known && before == s {
			twice++
		}
		if known && number(s) < number(before) {
			t.Fatalf("%s: %q was posted after %q", s.Commit, s.Description, before.Description)
		}
		last[s.Commit] = s
	}
	if twice > l.excused {
		t.Fatalf("%d are posted twice, and kills excuse %d", twice, l.excused)
	}
	for commit, s := range last {
		if s.State == Pending {
			t.Fatalf("%s is left pending: %q", commit, s.Description)
		}
	}
	if got := last[l.told.Head]; got.State != Success || got.Description != l.told.Description {
		t.Fatalf("HEAD is told %+v, want %+v", got, l.told)
	}
}

var verdictNumber = regexp.MustCompile(`v(\d+)$`)

func number(s Status) int {
	found := verdictNumber.FindStringSubmatch(s.Description)
	if found == nil {
		return 0
	}
	n, _ := strconv.Atoi(found[1])
	return n
}
