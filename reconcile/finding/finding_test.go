package finding_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
)

// TestJoin keeps the order of the steps, and the earliest time.
func TestJoin(t *testing.T) {
	early, late := time.Unix(10, 0), time.Unix(20, 0)
	for name, c := range map[string]struct{ first, second, want time.Time }{
		"none":             {},
		"only the first":   {first: late, want: late},
		"only the second":  {second: late, want: late},
		"second is sooner": {first: late, second: early, want: early},
		"first is sooner":  {first: early, second: late, want: early},
	} {
		t.Run(name, func(t *testing.T) {
			var all, other finding.Findings
			all.Wait("charts", "they come first")
			all.WakeAt = c.first
			other.Wait("NodePool/a", "it is not Ready")
			other.Warn("LaunchFailed", "no capacity")
			other.WakeAt = c.second
			all.Join(other)
			want := finding.Findings{
				Waits:  []finding.Wait{{On: "charts", Message: "they come first"}, {On: "NodePool/a", Message: "it is not Ready"}},
				Notes:  []finding.Note{{Type: "Warning", Reason: "LaunchFailed", Message: "no capacity"}},
				WakeAt: c.want,
			}
			if diff := cmp.Diff(want, all); diff != "" {
				t.Errorf("joined (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSome lists at most five objects.
func TestSome(t *testing.T) {
	for want, names := range map[string][]string{
		"":                         nil,
		"a, b":                     {"a", "b"},
		"a, b, c, d, e":            {"a", "b", "c", "d", "e"},
		"a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"},
	} {
		if got := finding.Some(names); got != want {
			t.Errorf("%v: %q, want %q", names, got, want)
		}
	}
}

// TestBounded truncates at the end of a line or a word, and never within a character.
func TestBounded(t *testing.T) {
	cases := map[string]struct{ text, want string }{
		"short":           {"odd", "odd"},
		"at a line's end": {strings.Repeat("a", 20) + "\n" + strings.Repeat("b", 30), strings.Repeat("a", 20) + " … (cut)"},
		"at a word's end": {strings.Repeat("word ", 12), "word word word word word word … (cut)"},
		"one long word":   {strings.Repeat("ä", 60), strings.Repeat("ä", 15) + " … (cut)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := finding.Bounded(c.text, 40); got != c.want || len(got) > 40 {
				t.Errorf("%d bytes: %q, want %q", len(got), got, c.want)
			}
		})
	}
}
