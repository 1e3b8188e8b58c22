package recorder

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
)

// TestKilledAnywhere checks that, however NodeClaims are terminated, and at whichever write the daemon is killed, at
// most as many Records are kept as the ring has slots, the latest ones, and each terminated NodeClaim is among them,
// unless newer ones have overwritten it, or a Gap covers its deletion.
func TestKilledAnywhere(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		l := &life{world: newWorld(t), ring: ring{segments: rapid.IntRange(1, 3).Draw(t, "segments"), slots: rapid.IntRange(1, 4).Draw(t, "slots")}}
		l.r.ring = l.ring
		l.launch("first")
		l.pass(time.Second) // what was terminated before is not recorded
		t.Repeat(map[string]func(*rapid.T){
			"launch": func(t *rapid.T) {
				for range rapid.IntRange(1, 6).Draw(t, "claims") {
					l.launch(fmt.Sprintf("general-%05d", len(l.made)))
					l.made = append(l.made, end{})
				}
			},
			"delete": l.deletes,
			"end":    l.ends,
			"write":  func(*rapid.T) { l.pass(writeInterval) },
			"wait":   func(*rapid.T) { l.pass(time.Second) },
			"kill": func(t *rapid.T) {
				l.fuse, l.done = rapid.IntRange(0, 3).Draw(t, "writes"), rapid.Bool().Draw(t, "carried out")
			},
			"refuse":  func(*rapid.T) { l.refuse = true },
			"gone":    func(*rapid.T) { l.r = nil },
			"rewrite": func(*rapid.T) { l.pass(writeInterval) },
			"": func(t *rapid.T) {
				if l.r == nil && rapid.Bool().Draw(t, "restarts") {
					l.restart()
				}
				l.checkSize(t)
			},
		})
		if l.r == nil {
			l.restart()
		}
		l.fuse = -1
		for range 4 {
			l.pass(settlePeriod)
		}
		l.check(t)
	})
}

// life is a history of NodeClaims.
type life struct {
	*world
	ring ring
	made []end
	// first is the end of the NodeClaim that existed before.
	first end
}

// end is when a NodeClaim's deletion started, and when it was gone.
type end struct{ deleted, gone time.Time }

func (l *life) pick(t *rapid.T, deleted bool) (name string, found bool) {
	var of []string
	for _, name := range slices.Sorted(maps.Keys(l.claims)) {
		if (l.claims[name].DeletionTimestamp != nil) == deleted {
			of = append(of, name)
		}
	}
	if len(of) == 0 {
		return "", false
	}
	return rapid.SampledFrom(of).Draw(t, "claim"), true
}

func (l *life) of(name string) *end {
	if name == "first" {
		return &l.first
	}
	var i int
	if _, err := fmt.Sscanf(name, "general-%d", &i); err != nil {
		l.t.Fatal(err)
	}
	return &l.made[i]
}

func (l *life) deletes(t *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(t, "claims") {
		if name, found := l.pick(t, false); found {
			l.of(name).deleted = l.now
			l.delete(name)
		}
	}
}

func (l *life) ends(t *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(t, "claims") {
		if name, found := l.pick(t, true); found {
			l.of(name).gone = l.now
			l.end(name)
		}
	}
}

// pass lets time pass, if the daemon was not killed.
func (l *life) pass(d time.Duration) {
	if l.r == nil {
		l.now = l.now.Add(d)
		return
	}
	if err := l.after(d); errors.Is(err, errKilled) {
		l.r = nil
	} else if err != nil && !errors.Is(err, errRefused) {
		l.t.Fatal(err)
	}
}

func (l *life) restart() {
	l.start()
	l.r.ring = l.ring
}

func (l *life) checkSize(t *rapid.T) {
	if got := len(l.log().Records); got > l.ring.capacity() {
		t.Fatalf("%d records", got)
	}
}

func (l *life) check(t *rapid.T) {
	l.checkSize(t)
	log := l.log()
	for i, e := range l.made {
		if e.gone.IsZero() {
			continue
		}
		name, newer := fmt.Sprintf("general-%05d", i), 0
		for j, other := range l.made {
			if j != i && !other.deleted.Before(e.deleted) {
				newer++
			}
		}
		at := slices.IndexFunc(log.Records, func(r Record) bool { return r.NodeClaim == name })
		switch {
		case at >= 0 && log.Records[at].Gone.IsZero():
			t.Fatalf("%s is still said to be ending", name)
		case at >= 0, newer >= l.ring.capacity():
		case !slices.ContainsFunc(log.Gaps, func(g Gap) bool { return !e.gone.Before(g.From.Time) && !e.gone.After(g.To.Time) }):
			t.Fatalf("%s, gone at %s, is not recorded, and no gap has it: %v", name, e.gone, log.Gaps)
		}
	}
}
