package recorder

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// InstanceTermination is an instance that a client has terminated through EC2's API while its NodeClaim existed and was
// not being deleted. That client is not this cluster's Karpenter.
type InstanceTermination struct {
	Instance, Pool string
	At             time.Time
}

const (
	// userInitiated is EC2's code for an instance that a client has terminated or stopped through the API. Spot
	// interruptions, failures and a shutdown from within the instance have other codes:
	// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_StateReason.html
	userInitiated = "Client.UserInitiatedShutdown"
	// keepForeign is how long they are remembered, and maxForeign how many.
	keepForeign = time.Hour
	maxForeign  = 10_000
	// deletedWithin is how long after the termination the NodeClaim is deleted: if it takes longer, for example because it
	// was restored from a backup, something else may have terminated the instance.
	deletedWithin = 10 * time.Minute
)

// byAnotherClient returns when another client terminated the instance; false if it is not known to have done so. Both
// times are in whole seconds.
func (f Facts) byAnotherClient(watchedSince time.Time) (at time.Time, is bool) {
	began := f.EC2.Began
	cause, detail := Judge(f)
	switch {
	case cause != InstanceGone || detail == instanceStopping, f.Missed || f.Late || f.Instance == "":
	case f.EC2.Code != userInitiated || began.IsZero():
	case began.After(f.Deleted.Time) || f.Deleted.Sub(began) > deletedWithin || began.Before(watchedSince):
	default:
		return began, true
	}
	return time.Time{}, false
}

// noteForeign remembers the instances that another client has terminated since the daemon began to watch.
func (r *Recorder) noteForeign(all map[types.UID]termination, now time.Time) {
	syncs := map[types.NamespacedName]bool{}
	r.mu.Lock()
	maps.DeleteFunc(r.foreign, func(_ string, t InstanceTermination) bool { return now.Sub(t.At) > keepForeign })
	for _, e := range all {
		at, is := e.facts.byAnotherClient(r.began)
		_, known := r.foreign[e.facts.Instance]
		if !is || known || now.Sub(at) > keepForeign || len(r.foreign) >= maxForeign || e.of == (owner{}) {
			continue
		}
		if r.foreign == nil {
			r.foreign = map[string]InstanceTermination{}
		}
		r.foreign[e.facts.Instance] = InstanceTermination{Instance: e.facts.Instance, Pool: e.facts.Pool, At: at}
		syncs[e.of.NamespacedName] = true
	}
	r.mu.Unlock()
	for name := range syncs {
		if r.Terminated != nil {
			r.Terminated(name)
		}
	}
}

// TerminatedByOthers returns the instances of the cluster that another client has terminated within the last hour.
func (r *Recorder) TerminatedByOthers() []InstanceTermination {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.foreign), func(a, b InstanceTermination) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Instance, b.Instance))
	})
}
