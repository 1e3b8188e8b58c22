package soak

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func TestClaimOf(t *testing.T) {
	var sync unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(`status: {lastAppliedRevision: "main@sha1:abc", conditions: [{type: Removing, status: "False"}, {type: Ready, status: "True"}]}`), &sync.Object); err != nil {
		t.Fatal(err)
	}
	if got, want := claimOf(&sync), (claim{commit: "abc", ready: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestUntruth(t *testing.T) {
	one := fleet{pools: map[string]pool{"a": {weight: 1}}}
	two := fleet{pools: map[string]pool{"a": {weight: 2}}}
	broken, emptied := one, one
	broken.broken, emptied.emptied = true, true
	h := &history{}
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for _, push := range []struct {
		commit string
		fleet  fleet
	}{{"1", one}, {"broken", broken}, {"emptied", emptied}, {"2", two}} {
		pushed(h, push.commit, push.fleet, now, now)
	}
	h.edit("a", 9)
	weighing := func(weight int) fleet { return fleet{pools: map[string]pool{"a": {weight: weight}}} }
	for name, test := range map[string]struct {
		claim      claim
		live       fleet
		stale, lie string
	}{
		"true":                            {claim{"2", true}, two, "", ""},
		"not Ready":                       {claim{"2", false}, weighing(7), "", ""},
		"ahead of the status":             {claim{"1", true}, two, "", ""},
		"behind the status":               {claim{"2", true}, one, "pool a", "pool a"},
		"edited by hand":                  {claim{"2", true}, weighing(9), "pool a", ""},
		"as nobody has said":              {claim{"2", true}, weighing(7), "pool a", "pool a"},
		"at a commit that is none":        {claim{"3", true}, two, "never pushed", "never pushed"},
		"at one that does not render":     {claim{"broken", true}, one, "not be followed", "not be followed"},
		"at one that drops all the pools": {claim{"emptied", true}, fleet{}, "not be followed", "not be followed"},
	} {
		t.Run(name, func(t *testing.T) {
			stale, lie := test.claim.untruth(h, test.live)
			for got, want := range map[string]string{stale: test.stale, lie: test.lie} {
				if (got == "") != (want == "") || !strings.Contains(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
}

// TestJudge checks how long each report may be untrue.
func TestJudge(t *testing.T) {
	start := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	type seen struct {
		at         int
		stale, lie string
		disturbed  int
		quiet      bool
	}
	for name, test := range map[string]struct {
		looks []seen
		want  bool
	}{
		"true":                             {[]seen{{0, "", "", 0, true}, {100, "", "", 0, true}}, false},
		"a lie for a moment":               {[]seen{{0, "x", "x", 0, true}, {4, "x", "x", 0, true}, {6, "", "", 0, true}, {8, "x", "x", 0, true}}, false},
		"a lie that stays":                 {[]seen{{0, "x", "x", 0, true}, {6, "x", "x", 0, true}}, true},
		"a lie under a fault":              {[]seen{{0, "x", "x", 0, false}, {6, "x", "x", 0, false}}, true},
		"one lie after the other":          {[]seen{{0, "x", "x", 0, true}, {3, "y", "y", 0, true}, {6, "z", "z", 0, true}}, true},
		"an edit, soon put right":          {[]seen{{0, "x", "", 0, true}, {29, "x", "", 0, true}, {32, "", "", 0, true}}, false},
		"an edit that stays":               {[]seen{{0, "x", "", 0, true}, {31, "x", "", 0, true}}, true},
		"an edit that stays under a fault": {[]seen{{0, "x", "", 0, false}, {31, "x", "", 0, false}}, false},
		"an edit after a fault":            {[]seen{{0, "x", "", 20, true}, {31, "x", "", 20, true}}, false},
		"an edit long after a fault":       {[]seen{{0, "x", "", 20, true}, {51, "x", "", 20, true}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var u untruths
			var err error
			for _, s := range test.looks {
				at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
				err = errors.Join(err, u.judge(s.stale, s.lie, at(s.at), at(s.disturbed), s.quiet))
			}
			if errors.Is(err, errViolation) != test.want {
				t.Errorf("got %v, want a violation: %v", err, test.want)
			}
		})
	}
}
