package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// watched is for how long after a controller came into force node drift is laid to
// it: two rounds of Karpenter's, which looks at each NodeClaim every five minutes
// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/disruption/drift.go).
const watched = 10 * time.Minute

// Watch begins the watch over nodes before anything of a change moves, where there
// are nodes or a controller that have to come through it. One that is under way for
// an earlier change goes on: what that was expected to do it may have done.
func Watch(k v1alpha1.KarpenterStatus, to string, expected []string, claims []observe.Claim, now time.Time) v1alpha1.KarpenterStatus {
	if w := k.NodeDrift; w != nil && w.Until == nil {
		going := *w
		going.To, going.ExpectedPools = to, union(w.ExpectedPools, expected)
		k.NodeDrift = &going
		return k
	}
	k.NodeDrift = nil
	if k.Controller == nil && k.Version == "" && len(claims) == 0 {
		return k
	}
	w := &v1alpha1.NodeDriftWatch{From: k.Version, To: to, Since: metav1.NewTime(now).Rfc3339Copy(), ExpectedPools: expected}
	for _, claim := range claims {
		if claim.Ending {
			continue
		}
		w.Claims++
		if w.Newest == nil || w.Newest.Before(&claim.Created) {
			created := claim.Created
			w.Newest = &created
		}
	}
	k.NodeDrift = w
	return k
}

// EndWatch has a watch last for a while longer: the change is over.
func EndWatch(k v1alpha1.KarpenterStatus, now time.Time) v1alpha1.KarpenterStatus {
	if k.NodeDrift == nil || k.NodeDrift.Until != nil {
		return k
	}
	ending, until := *k.NodeDrift, metav1.NewTime(now.Add(watched)).Rfc3339Copy()
	ending.Until = &until
	k.NodeDrift = &ending
	return k
}

// Expect notes pools whose nodes drift because a commit changes them.
func Expect(k v1alpha1.KarpenterStatus, pools []string) v1alpha1.KarpenterStatus {
	if k.NodeDrift == nil || len(pools) == 0 {
		return k
	}
	noted := *k.NodeDrift
	noted.ExpectedPools = union(noted.ExpectedPools, pools)
	k.NodeDrift = &noted
	return k
}

// union is sorted.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Drifted finds those of the drifted NodeClaims of pools where none was expected,
// by name, and notes what was touched of all that were there before. The watch ends
// with its time, or once the last that it has found is gone or drifted no more.
func Drifted(k v1alpha1.KarpenterStatus, claims []observe.Claim, pools []string, now time.Time) (v1alpha1.KarpenterStatus, []observe.Claim) {
	if k.NodeDrift == nil {
		return k, nil
	}
	k = note(k, claims)
	w := k.NodeDrift
	var found []observe.Claim
	for _, c := range claims {
		if !c.Ending && drifts(w, c) && slices.Contains(pools, c.Pool) && !slices.Contains(w.ExpectedPools, c.Pool) {
			found = append(found, c)
		}
	}
	if len(found) == 0 && w.Until != nil && now.After(w.Until.Time) {
		k.NodeDrift = nil
	}
	slices.SortFunc(found, func(a, b observe.Claim) int { return cmp.Compare(a.NodeClaim, b.NodeClaim) })
	return k, found
}

// drifts says whether a NodeClaim has come to be drifted while it was watched.
func drifts(w *v1alpha1.NodeDriftWatch, c observe.Claim) bool {
	within := w.Until == nil || !c.Since.After(w.Until.Time)
	return c.Drifted != "" && within && !c.Since.Time.Before(w.Since.Time)
}

// maxTouched is how many NodeClaims a watch names.
const maxTouched = 5

// note adds to a watch which of the NodeClaims that were there before are drifted or
// being deleted since it began, by name up to maxTouched. Those that are gone have been one of these
// in a pass before, or are known by their number.
func note(k v1alpha1.KarpenterStatus, claims []observe.Claim) v1alpha1.KarpenterStatus {
	w := *k.NodeDrift
	if w.Until != nil {
		return k // the change is over, and its outcome was reported
	}
	var names []string
	left := int32(0)
	for _, c := range claims {
		switch {
		case !before(&w, c), c.Ending && !c.EndingSince.IsZero() && c.EndingSince.Time.Before(w.Since.Time):
		case c.Ending || drifts(&w, c):
			names = append(names, c.NodeClaim)
		default:
			left++
		}
	}
	names = union(w.Touched, names)
	w.TouchedClaims = max(w.TouchedClaims, w.Claims-left, int32(len(names)))
	w.Touched = names[:min(len(names), maxTouched)]
	if len(w.Touched) == 0 {
		w.Touched = nil
	}
	k.NodeDrift = &w
	return k
}

// before says whether a NodeClaim was there when a watch began.
func before(w *v1alpha1.NodeDriftWatch, c observe.Claim) bool {
	return w.Newest != nil && !w.Newest.Before(&c.Created)
}

// Outcome says what became of the nodes since a change began; empty where nobody has
// watched.
func Outcome(k v1alpha1.KarpenterStatus, claims []observe.Claim) string {
	if k.NodeDrift == nil || k.NodeDrift.Until != nil {
		return ""
	}
	w := note(k, claims).NodeDrift
	if w.TouchedClaims == 0 {
		return ", and no NodeClaim has drifted or been deleted since the change began"
	}
	words := fmt.Sprintf(", and of %d NodeClaims %d drifted or were deleted since the change began", w.Claims, w.TouchedClaims)
	if len(w.Touched) > 0 {
		words += ": " + strings.Join(w.Touched, ", ")
	}
	if more := int(w.TouchedClaims) - len(w.Touched); more > 0 && len(w.Touched) > 0 {
		words += fmt.Sprintf(" and %d more", more)
	}
	return words
}
