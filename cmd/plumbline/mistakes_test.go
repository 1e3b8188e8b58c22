package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// TestMistakesAreSaidOnce: the summary of a message is not printed beside what it sums up.
func TestMistakesAreSaidOnce(t *testing.T) {
	long := "a rather long sentence about a field, its value and what it should be, which is longer than a commit status may have characters"
	for name, c := range map[string]struct {
		message string
		want    []string
	}{
		"one":         {"not allowed", []string{"not allowed"}},
		"a long one":  {render.Errors{{File: "a.yaml", Line: 1, Message: long}}.Error(), []string{"a.yaml:1: " + long}},
		"two":         {render.Errors{{File: "a.yaml", Line: 1, Message: "b"}, {File: "c.yaml", Line: 2, Message: "d"}}.Error(), []string{"a.yaml:1: b", "c.yaml:2: d"}},
		"other lines": {"helm says:\nno such thing", []string{"helm says:", "no such thing"}},
	} {
		if diff := cmp.Diff(c.want, mistakes(c.message)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
