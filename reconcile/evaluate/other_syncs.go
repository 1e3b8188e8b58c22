package evaluate

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// otherSyncs returns, for each other NodeSync, what is known of its Git. After a restart, nothing is known before its
// first reconcile.
func (s *PlanStep) otherSyncs(all []v1alpha1.NodeSync) []plan.OtherSync {
	others := make([]plan.OtherSync, 0, len(all))
	for i := range all {
		if all[i].UID == s.Sync.UID {
			continue
		}
		others = append(others, s.otherSync(&all[i]))
	}
	return others
}

// otherSync returns what is known of one other NodeSync. One that is being deleted has nothing in Git any more.
func (s *PlanStep) otherSync(sync *v1alpha1.NodeSync) plan.OtherSync {
	other := plan.OtherSync{Owner: plan.OwnerOf(sync.Namespace, sync.Name)}
	switch {
	case !sync.DeletionTimestamp.IsZero():
		other.Known = true
		return other
	case sync.Namespace != s.Namespace:
		return other // its namespace is not served
	}
	other.Awaited, other.Suspended = true, sync.IsPaused()
	known := s.Registry.latest(client.ObjectKeyFromObject(sync), sync.UID)
	other.Entries, other.Known = known.refs, s.isUpToDate(sync, known)
	other.Since = s.waitedSince(sync)
	other.Failure = s.failureOf(sync, known)
	return other
}

// onlyListsOnRequest reports whether no reconcile of another NodeSync renders it: it only lists what it has in Git on
// request.
func (s *PlanStep) onlyListsOnRequest(sync *v1alpha1.NodeSync) bool {
	return sync.IsPaused() || !s.Reconciles(sync)
}

// failureOf returns why another NodeSync fails; empty if it does not.
func (s *PlanStep) failureOf(sync *v1alpha1.NodeSync, known latest) string {
	if s.onlyListsOnRequest(sync) {
		return known.failure
	}
	if ready := conditions.Get(sync, meta.ReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse {
		return ready.Reason
	}
	return ""
}

// waitedSince returns since when another NodeSync is waited for; zero if the wait starts now. If it fails, the status
// also has that time: a restart must not reset it. If it does not fail, it only needs its first reconcile after the
// restart.
func (s *PlanStep) waitedSince(sync *v1alpha1.NodeSync) time.Time {
	since, written := s.Memory.awaitedSince[sync.UID], s.Before.Waiting
	known := s.Registry.latest(client.ObjectKeyFromObject(sync), sync.UID)
	if written == nil || s.failureOf(sync, known) == "" || !names(written.For, sync) {
		return since
	}
	if since.IsZero() || written.Since.Time.Before(since) {
		return written.Since.Time
	}
	return since
}

// names reports whether a wait is for a NodeSync.
func names(on string, sync *v1alpha1.NodeSync) bool {
	return on == "NodeSync/"+sync.Name || on == "NodeSync/"+sync.Namespace+"/"+sync.Name
}

// isUpToDate reports whether what is known of another NodeSync is up to date.
func (s *PlanStep) isUpToDate(sync *v1alpha1.NodeSync, known latest) bool {
	return known.refs != nil && known.generation == sync.Generation && !s.newerThan(known)
}

// newerThan reports whether our commit is newer than the last fetch of another NodeSync: an entry may have moved
// between the two, even from one repository to another. If it has rendered the same commit, it is up to date, unless we
// are being deleted and no longer look for a newer one.
func (s *PlanStep) newerThan(other latest) bool {
	if !s.lastRemovalAt().After(other.at) {
		return false
	}
	ours := s.Snapshot
	return !s.Sync.DeletionTimestamp.IsZero() || ours == nil || other.commit == "" || ours.Commit != other.commit
}

// lastRemovalAt returns when entries may last have been removed from this NodeSync: with its commit, or with its
// deletion.
func (s *PlanStep) lastRemovalAt() time.Time {
	at := &s.Memory.commitAt
	if !s.Sync.DeletionTimestamp.IsZero() {
		if at = &s.Memory.deletedAt; at.IsZero() {
			*at = s.Now
		}
	}
	if at.After(s.Now) {
		*at = s.Now // the clock was set back
	}
	return *at
}

// awaitOthers notes whether this NodeSync waits for what others have in Git, and makes those that are behind fetch. A
// suspended one lists its entries on request.
func (s *PlanStep) awaitOthers(made *plan.Plan, all []v1alpha1.NodeSync, holds bool) {
	awaits, named := len(made.Kept) > 0, map[string]bool{}
	for i := range made.Changes {
		if change := &made.Changes[i]; change.Reason == plan.ReasonOtherSync {
			awaits, named[change.WaitsFor] = true, true
		}
	}
	s.Registry.note(s.name(), s.Sync.UID, awaits, holds)
	since := map[types.UID]time.Time{}
	for i := range all {
		since[all[i].UID] = s.waitedSince(&all[i])
	}
	s.Memory.awaitedSince = map[types.UID]time.Time{}
	if !awaits {
		return
	}
	for i := range all {
		other := &all[i]
		if other.UID == s.Sync.UID || other.Namespace != s.Namespace || !other.DeletionTimestamp.IsZero() {
			continue
		}
		known := s.Registry.latest(client.ObjectKeyFromObject(other), other.UID)
		if !s.isUpToDate(other, known) || named["NodeSync/"+other.Name] {
			s.waitSince(other.UID, since[other.UID])
		}
		s.requestOther(other, known)
	}
}

// waitSince records since when a NodeSync is waited for; a long wait counts as stalled.
func (s *PlanStep) waitSince(uid types.UID, since time.Time) {
	if since.IsZero() || since.After(s.Now) {
		since = s.Now
	}
	s.Memory.awaitedSince[uid] = since
	if stalls := since.Add(s.Sync.GetStallAfter()); s.Now.Before(stalls) {
		s.WakeBy(stalls)
	}
}

// requestOther makes another NodeSync that is behind fetch. A suspended one lists its entries on request, once in its
// interval while something waits, because it has no reconciles of its own.
func (s *PlanStep) requestOther(other *v1alpha1.NodeSync, known latest) {
	name, heard, notBefore := client.ObjectKeyFromObject(other), s.isUpToDate(other, known), s.lastRemovalAt()
	if !s.onlyListsOnRequest(other) {
		if !heard {
			s.Fetch(name, notBefore)
		}
		return
	}
	last, pause := known.at, other.Spec.Interval.Duration
	if known.failure != "" {
		last, pause = known.failedAt, s.Retry
	} else if !heard {
		pause = 0
	}
	if due := last.Add(pause); s.Now.Before(due) && !last.After(s.Now) {
		s.WakeBy(due)
		return
	}
	if heard {
		notBefore = s.Now
	}
	s.WakeBy(s.Now.Add(s.Retry)) // no event follows if that fails as before
	s.Registry.requestEntries(name, other.UID, notBefore)
	s.Fetch(name, notBefore)
}

// NewOwner returns a function that names the NodeSync that will manage an object, given the current state of all:
// another one may have rendered, and applied, since the Plan was made. It returns "" if there is none.
func (s *PlanStep) NewOwner(ctx context.Context) (func(*unstructured.Unstructured) string, error) {
	all, err := s.nodeSyncs(ctx)
	if err != nil {
		return nil, err
	}
	return func(object *unstructured.Unstructured) string {
		if to, ok := plan.NewOwner(object, s.otherSyncs(all)); ok {
			return to.String()
		}
		return ""
	}, nil
}
