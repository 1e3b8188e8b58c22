package policy

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// suspended is what a suspended NodeSync has in its folder at a commit of ours.
type suspended struct {
	commit, path string
	refs         map[render.Ref]bool
	// failure is why its folder could not be rendered.
	failure string
}

// suspendedSync is what is known of a suspended NodeSync: what it has in the commit of
// our Snapshot where that was looked at, and otherwise what it had last.
func (s *Step) suspendedSync(sync *v1alpha1.NodeSync, other plan.OtherSync) plan.OtherSync {
	if seen, ok := s.seenSuspended(sync); ok {
		other.Entries, other.Failure = seen.refs, seen.failure
		other.Known, other.Awaited = seen.failure == "", seen.failure != ""
		return other
	}
	known := s.Registry.latest(client.ObjectKeyFromObject(sync), sync.UID)
	other.Entries, other.Known = known.refs, known.refs != nil
	return other
}

// seeSuspended looks into the folders of suspended NodeSyncs that follow the same branch
// as this one: one commit may have moved an entry from here to there, and nobody else
// would notice. It returns whether something new was seen; each commit is looked at once.
func (s *Step) seeSuspended(ctx context.Context, all []v1alpha1.NodeSync) (news bool) {
	ours := s.Snapshot
	if ours == nil {
		return false
	}
	for i := range all {
		other := &all[i]
		if !other.Spec.Suspend || other.UID == s.Sync.UID || !sameBranch(other, s.Sync) {
			continue
		}
		if _, seen := s.seenSuspended(other); seen {
			continue
		}
		if s.Memory.suspended == nil {
			s.Memory.suspended = map[types.UID]suspended{}
		}
		s.Memory.suspended[other.UID], news = s.lookInto(ctx, ours, other.Spec.Path), true
	}
	return news
}

// seenSuspended is what was seen of a suspended NodeSync in the commit of our Snapshot.
func (s *Step) seenSuspended(sync *v1alpha1.NodeSync) (suspended, bool) {
	ours, seen := s.Snapshot, s.Memory.suspended[sync.UID]
	return seen, ours != nil && seen.refs != nil && seen.commit == ours.Commit && seen.path == sync.Spec.Path
}

// sameBranch says whether two NodeSyncs follow the same thing in one repository.
func sameBranch(a, b *v1alpha1.NodeSync) bool {
	from, of := a.Spec.Source.Git, b.Spec.Source.Git
	return from != nil && of != nil && from.URL == of.URL && equality.Semantic.DeepEqual(from.Ref, of.Ref)
}

// lookInto lists the entries of another folder of our Snapshot. Their schema does not
// matter: only their names do.
func (s *Step) lookInto(ctx context.Context, ours *render.Snapshot, path string) suspended {
	seen := suspended{commit: ours.Commit, path: path, refs: map[render.Ref]bool{}}
	karpenter, err := render.ReadKarpenter(*ours, path)
	if err == nil {
		var set *render.Set
		if set, err = render.Render(ctx, *ours, path, karpenter, nil, render.WithConfinement(s.Confine)); err == nil {
			seen.refs = entriesOf(set)
			return seen
		}
	}
	if !errors.As(err, new(*render.EmptyError)) && !errors.As(err, new(*render.MissingError)) {
		seen.failure = fault.Classify(err).Reason
	}
	return seen
}
