package fault

import (
	"errors"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestSeveral: a message lists a few objects and counts the rest, and its class is the most severe, even of those that
// are not listed.
func TestSeveral(t *testing.T) {
	odd := errors.New("odd")
	cases := map[string]struct {
		errs  []error
		want  string
		class Class
	}{
		"one":   {[]error{odd}, "odd", Transient},
		"three": {[]error{odd, odd, odd}, "odd; odd; odd", Transient},
		"many":  {[]error{odd, odd, odd, odd, &plan.ConflictError{}}, "odd; odd; odd; and 2 more", Terminal},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := Classify(Several(c.errs))
			if got.Error() != c.want || got.Class != c.class {
				t.Errorf("%s: %s", got.Class, got)
			}
		})
	}
	if Several(nil) != nil || Several(Apart(nil)) != nil {
		t.Error("no error is one")
	}
	if parts := Apart(errors.Join(odd, odd)); len(parts) != 2 {
		t.Errorf("two joined ones are %v", parts)
	}
}
