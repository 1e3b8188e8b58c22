package policy

import (
	"context"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// otherSyncs says of each other NodeSync what is known of its Git. A daemon that
// was restarted knows of none until each has had a pass.
func (s *Step) otherSyncs(all []v1alpha1.NodeSync) []plan.OtherSync {
	others := make([]plan.OtherSync, 0, len(all))
	for i := range all {
		if all[i].UID == s.Sync.UID {
			continue
		}
		others = append(others, s.otherSync(&all[i]))
	}
	return others
}

// otherSync is what is known of one other NodeSync. One that is being deleted has
// nothing in Git any more.
func (s *Step) otherSync(sync *v1alpha1.NodeSync) plan.OtherSync {
	other := plan.OtherSync{Owner: plan.OwnerOf(sync.Namespace, sync.Name)}
	switch {
	case !sync.DeletionTimestamp.IsZero():
		other.Known = true
		return other
	case sync.Namespace != s.Namespace:
		return other // nobody serves it
	}
	if other.Suspended = sync.Spec.Suspend; other.Suspended {
		return s.suspendedSync(sync, other)
	}
	other.Awaited = true
	if ready := conditions.Get(sync, meta.ReadyCondition); ready != nil && ready.Status == metav1.ConditionFalse {
		other.Failure = ready.Reason
	}
	known := s.Registry.latest(client.ObjectKeyFromObject(sync), sync.UID)
	other.Entries = known.refs
	other.Known = known.refs != nil && known.generation == sync.Generation && !s.newerThan(known)
	return other
}

// newerThan says whether our commit is news since another NodeSync has fetched what
// it has rendered: an entry may have moved between the two, from one repository to
// another, too. One that has rendered the very commit has it all, unless we are
// deleted, and do not look for a newer one any more.
func (s *Step) newerThan(other latest) bool {
	if !s.newsAt().After(other.at) {
		return false
	}
	ours := s.Snapshot
	return !s.Sync.DeletionTimestamp.IsZero() || ours == nil || other.commit == "" || ours.Commit != other.commit
}

// newsAt is when entries may have left this NodeSync last: with its commit, or with its
// deletion.
func (s *Step) newsAt() time.Time {
	at := &s.Memory.commitAt
	if !s.Sync.DeletionTimestamp.IsZero() {
		if at = &s.Memory.deletedAt; at.IsZero() {
			*at = s.Now
		}
	}
	if at.After(s.Now) {
		*at = s.Now // the clock was put back
	}
	return *at
}

// awaitOthers notes whether this NodeSync waits for what others have in Git, and
// has those fetched that are behind.
func (s *Step) awaitOthers(made *plan.Plan, all []v1alpha1.NodeSync, holds bool) {
	awaits := len(made.Kept) > 0
	for i := range made.Changes {
		awaits = awaits || made.Changes[i].Reason == plan.ReasonOtherSync
	}
	s.Registry.note(s.name(), s.Sync.UID, awaits, holds)
	if !awaits {
		return
	}
	for i := range all {
		other := &all[i]
		name := client.ObjectKeyFromObject(other)
		if other.UID == s.Sync.UID || other.Spec.Suspend || other.Namespace != s.Namespace {
			continue
		}
		if known := s.Registry.latest(name, other.UID); s.newerThan(known) {
			s.Fetch(name, s.newsAt())
		}
	}
}

// GoesTo returns what names the NodeSync that an object goes to, by what is known of all
// at the moment at which it is asked: another one may have rendered, and applied, since
// the Plan was made. It names none for an object that goes to nobody.
func (s *Step) GoesTo(ctx context.Context) (func(*unstructured.Unstructured) string, error) {
	all, err := s.nodeSyncs(ctx)
	if err != nil {
		return nil, err
	}
	return func(object *unstructured.Unstructured) string {
		if to, ok := plan.GoesTo(object, s.otherSyncs(all)); ok {
			return to.String()
		}
		return ""
	}, nil
}
