package soak

import (
	"testing"
	"time"
)

// TestWanted holds what the daemon may delete.
func TestWanted(t *testing.T) {
	start := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	with := fleet{pools: map[string]pool{"a": {class: "x"}}, classes: map[string]class{"x": {}}}
	without := fleet{pools: map[string]pool{}, classes: map[string]class{"x": {}}}
	recoloured := fleet{pools: with.pools, classes: map[string]class{"x": {team: "blue"}}}
	h := &history{}
	h.push("1", with, at(0), at(2))
	h.push("2", without, at(100), at(102))
	h.push("3", with, at(200), at(202))
	h.push("4", recoloured, at(300), at(302))
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
}
