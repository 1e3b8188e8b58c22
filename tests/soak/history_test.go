package soak

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// pushed records a push.
func pushed(h *history, commit string, f fleet, began, ended time.Time) {
	h.coming(commit, f, began)
	h.arrived(ended)
}

// TestWanted checks what the daemon may delete.
func TestWanted(t *testing.T) {
	start := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	with := fleet{pools: map[string]pool{"a": {class: "x"}}, classes: map[string]class{"x": {}}}
	without := fleet{pools: map[string]pool{}, classes: map[string]class{"x": {}}}
	recoloured := fleet{pools: with.pools, classes: map[string]class{"x": {team: "blue"}}}
	h := &history{}
	pushed(h, "1", with, at(0), at(2))
	pushed(h, "2", without, at(100), at(102))
	pushed(h, "3", with, at(200), at(202))
	pushed(h, "4", recoloured, at(300), at(302))
	for name, test := range map[string]struct {
		from, to     int
		wanted, kept bool
	}{
		"while it was there":                     {10, 90, true, true},
		"while its removal was pushed":           {10, 101, false, false},
		"while it was gone":                      {110, 120, false, false},
		"while it was pushed again":              {201, 250, false, false},
		"after it was pushed again":              {203, 250, true, true},
		"over the time in which it was gone":     {10, 250, false, false},
		"over a change of its class":             {250, 350, true, false},
		"after its class had changed":            {303, 350, true, true},
		"at the moment that the push had an end": {202, 202, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := h.wanted(nodePools, "a", at(test.from), at(test.to)); got != test.wanted {
				t.Errorf("wanted: got %v, want %v", got, test.wanted)
			}
			if got := h.kept("a", at(test.from), at(test.to)); got != test.kept {
				t.Errorf("kept: got %v, want %v", got, test.kept)
			}
		})
	}
	if h.wanted(nodePools, "b", at(10), at(20)) {
		t.Error("an entry that Git never had is wanted")
	}
	h.coming("5", without, at(400))
	if h.wanted(nodePools, "a", at(390), at(410)) {
		t.Error("an entry is wanted that a push takes away, whose end has not come")
	}
}

// TestSince checks what may have been applied after a commit was.
func TestSince(t *testing.T) {
	h := &history{}
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for _, commit := range []string{"1", "2", "1", "3"} {
		pushed(h, commit, fleet{broken: commit == "2", notes: int(commit[0] - '0')}, now, now)
	}
	for name, test := range map[string]struct {
		commit string
		want   []int
	}{
		"one that came back": {"1", []int{1, 2, 1, 3}},
		"the last":           {"3", []int{3}},
		"none":               {"4", nil},
	} {
		t.Run(name, func(t *testing.T) {
			var got []int
			for _, f := range h.since(test.commit) {
				got = append(got, f.notes)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff([]string{"2"}, h.amiss()); diff != "" {
		t.Errorf("commits that must not be followed (-want +got):\n%s", diff)
	}
}
