package observe

import (
	"slices"

	"github.com/plumbline-dev/plumbline/render"
)

// ByRef is the readiness of each definition that was looked at.
type ByRef map[render.Ref]Readiness

// Of sums up the definitions of some kinds of a Set: the first that is not Ready speaks.
func (r ByRef) Of(set *render.Set, kinds ...string) Readiness {
	for _, object := range set.Objects {
		if !slices.Contains(kinds, object.Ref.Kind) {
			continue
		}
		ready, seen := r[object.Ref]
		if !seen {
			return Readiness{Message: object.Ref.String() + " is not applied yet"}
		}
		if !ready.Ready {
			return ready
		}
	}
	return Readiness{Ready: true}
}
