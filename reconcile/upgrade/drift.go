package upgrade

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// watched is for how long after a controller came into force node drift is laid to
// it: two rounds of Karpenter's, which looks at each NodeClaim every five minutes
// (sigs.k8s.io/karpenter pkg/controllers/nodeclaim/disruption/drift.go).
const watched = 10 * time.Minute

// watch begins the watch for node drift under a controller that took the place of
// another one. began is when its rollout did: the first of its pods to lead may
// have looked at every node before the rollout was complete.
func watch(k v1alpha1.KarpenterStatus, from string, began metav1.Time, now time.Time) v1alpha1.KarpenterStatus {
	k.NodeDrift = &v1alpha1.NodeDriftWatch{
		From: from, Since: began, Until: metav1.NewTime(now.Add(watched)).Rfc3339Copy(),
		Foretold: k.Target.Foretold,
	}
	return k
}

// Foretell notes pools whose nodes drift by somebody's will.
func Foretell(k v1alpha1.KarpenterStatus, pools []string) v1alpha1.KarpenterStatus {
	if k.NodeDrift == nil || len(pools) == 0 {
		return k
	}
	noted := *k.NodeDrift
	noted.Foretold = union(noted.Foretold, pools)
	k.NodeDrift = &noted
	return k
}

// union is sorted.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// NodeDrift finds those of the drifted NodeClaims that nothing has foretold, by
// name. The watch ends with its time, or once the last that it has found is gone
// or drifted no more.
func NodeDrift(k v1alpha1.KarpenterStatus, drifted []observe.DriftedClaim, now time.Time) (v1alpha1.KarpenterStatus, []observe.DriftedClaim) {
	w := k.NodeDrift
	if w == nil {
		return k, nil
	}
	var found []observe.DriftedClaim
	for _, d := range drifted {
		within := !d.Since.Time.Before(w.Since.Time) && !d.Since.After(w.Until.Time)
		if within && !slices.Contains(w.Foretold, d.Pool) {
			found = append(found, d)
		}
	}
	if len(found) == 0 && now.After(w.Until.Time) {
		k.NodeDrift = nil
	}
	slices.SortFunc(found, func(a, b observe.DriftedClaim) int { return cmp.Compare(a.NodeClaim, b.NodeClaim) })
	return k, found
}
