package reconcile

import (
	"errors"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestSeveral: a message names a few objects and counts the rest, and what it
// means is what the gravest means, told or not.
func TestSeveral(t *testing.T) {
	odd := errors.New("odd")
	cases := map[string]struct {
		errs  []error
		want  string
		class fault.Class
	}{
		"one":   {[]error{odd}, "odd", fault.Transient},
		"three": {[]error{odd, odd, odd}, "odd; odd; odd", fault.Transient},
		"many":  {[]error{odd, odd, odd, odd, &plan.ConflictError{}}, "odd; odd; odd; and 2 more", fault.Terminal},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := fault.Classify(several(c.errs))
			if got.Error() != c.want || got.Class != c.class {
				t.Errorf("%s: %s", got.Class, got)
			}
		})
	}
	if several(nil) != nil || several(apart(nil)) != nil {
		t.Error("no error is one")
	}
	if parts := apart(errors.Join(odd, odd)); len(parts) != 2 {
		t.Errorf("two joined ones are %v", parts)
	}
}
