package evaluate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// ordered is when a host was last queried for the order of two commits. answeredUnknown reports that it has answered,
// without knowing.
type ordered struct {
	head, other     string
	at              time.Time
	answeredUnknown bool
}

// doubtOf returns why it is in doubt that what HEAD does not contain was removed from Git; nil if it is not in doubt.
// It is in doubt if nothing is known to have been applied, or if HEAD is, or may be, older than what was applied, even
// partly. known is the previous doubt.
func doubtOf(known *v1alpha1.Withheld, head, applied string, order func(commit string) source.Order) *v1alpha1.Withheld {
	if applied == "" || known != nil && known.Reason == v1alpha1.ReasonStatusLost {
		return &v1alpha1.Withheld{Reason: v1alpha1.ReasonStatusLost, Revision: head}
	}
	if known != nil {
		same := render.CommitOf(known.Revision) == render.CommitOf(head)
		if same && known.Reason == v1alpha1.ReasonOlderRevision {
			return &v1alpha1.Withheld{Reason: known.Reason, Revision: head, From: known.From}
		}
		// A commit that is newer than the last one, and still older than what was applied before that, is missing the
		// same entries: a mirror catches up.
		switch order(render.CommitOf(known.From)) {
		case source.OrderOlder:
			return &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: head, From: known.From}
		case source.OrderUnknown:
			// A commit that follows the last one may also be older than that revision.
			return &v1alpha1.Withheld{Reason: v1alpha1.ReasonHistoryUnknown, Revision: head, From: known.From}
		case source.OrderNewer, source.OrderDiverged:
		}
	}
	if render.CommitOf(head) == render.CommitOf(applied) {
		return nil
	}
	switch order(render.CommitOf(applied)) {
	case source.OrderOlder:
		return &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: head, From: applied}
	case source.OrderUnknown:
		return &v1alpha1.Withheld{Reason: v1alpha1.ReasonHistoryUnknown, Revision: head, From: applied}
	case source.OrderNewer, source.OrderDiverged:
	}
	return nil
}

// Doubt returns why what HEAD does not contain may not have been removed from Git, according to the cached history; nil
// if it was removed.
func (s *PlanStep) Doubt() *v1alpha1.Withheld {
	if s.reviews() {
		return s.inStatus()
	}
	if last := s.Sync.Status.LastVerified; last != nil && last.Newer != nil && render.CommitOf(last.Revision) == s.Snapshot.Commit &&
		s.Before.LastAppliedRevision != "" {
		// Its signed date is older.
		return &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: s.Snapshot.Revision, From: last.Newer.Revision}
	}
	return s.findDoubt(s.Order)
}

// inStatus returns the doubt that the status has about the same commit.
func (s *PlanStep) inStatus() *v1alpha1.Withheld {
	if known := s.Before.Withheld; known != nil && render.CommitOf(known.Revision) == s.Snapshot.Commit {
		return known
	}
	return nil
}

// findDoubt uses the status and the record of what was applied, which is not restored together with the status: the
// newer of the two revisions counts. If that record is lost, it is unknown which of HEAD's ancestors were applied.
func (s *PlanStep) findDoubt(order func(commit string) source.Order) *v1alpha1.Withheld {
	head, applied := s.Snapshot.Revision, s.Before.NewestAppliedRevision()
	doubt := doubtOf(s.Before.Withheld, head, applied, order)
	if doubt == nil && s.Recorded != "" && render.CommitOf(s.Recorded) != render.CommitOf(applied) {
		doubt = doubtOf(&v1alpha1.Withheld{From: s.Recorded}, head, applied, order)
	}
	if doubt == nil && s.RecordLost {
		doubt = &v1alpha1.Withheld{Reason: v1alpha1.ReasonStatusLost, Revision: head}
	}
	return doubt
}

// statusIsOlder reports whether only the record has the revision that causes the doubt: an older status was restored.
func (s *PlanStep) statusIsOlder(doubt *v1alpha1.Withheld) bool {
	return doubt != nil && s.Recorded != "" && s.Before.Withheld == nil &&
		doubt.From == s.Recorded && render.CommitOf(s.Recorded) != render.CommitOf(s.Before.NewestAppliedRevision())
}

// requestOrder queries the Git host for history that is not cached, if something depends on it, and returns the
// resulting doubt.
func (s *PlanStep) requestOrder(ctx context.Context, planned Planned) (doubt *v1alpha1.Withheld, found bool) {
	if !is(planned.Doubt, v1alpha1.ReasonHistoryUnknown) {
		return nil, false
	}
	if len(planned.unrecorded(s.Sync, v1alpha1.ReasonHistoryUnknown)) == 0 && !planned.terminatesNodes() && !s.ChangesCharts() {
		return nil, false
	}
	head, other := s.Snapshot.Commit, render.CommitOf(planned.Doubt.From)
	if asked := s.Memory.ordered; asked.head == head && asked.other == other && s.Now.Before(asked.at.Add(s.Retry)) {
		s.WakeBy(asked.at.Add(s.Retry))
		return nil, false
	}
	order, err := s.FindOrder(ctx, other)
	s.Memory.ordered = ordered{head: head, other: other, at: s.Now}
	if err != nil {
		var unknown *source.HistoryError
		s.Memory.ordered.answeredUnknown = errors.As(err, &unknown)
		s.Warn(v1alpha1.ReasonHistoryUnknown, fmt.Sprintf("changes that would terminate nodes are held, because %s may be older than the applied revision: %v", render.ShortRevision(s.Snapshot.Revision), err))
		s.WakeBy(s.Now.Add(s.Retry))
		return nil, false
	}
	return s.findDoubt(func(commit string) source.Order {
		if commit == other {
			return order
		}
		return s.Order(commit)
	}), true
}

// orderPending reports whether the order of HEAD and of what was applied is unknown, and the Git host has not answered
// yet.
func (s *PlanStep) orderPending(doubt *v1alpha1.Withheld) bool {
	if s.reviews() || !is(doubt, v1alpha1.ReasonHistoryUnknown) {
		return false
	}
	asked := s.Memory.ordered
	return !asked.answeredUnknown || asked.head != s.Snapshot.Commit || asked.other != render.CommitOf(doubt.From)
}

// terminatesNodes reports whether a change of the Plan that terminates nodes is held because the order of HEAD and of
// what was applied is unknown.
func (p Planned) terminatesNodes() bool {
	return slices.ContainsFunc(p.Changes,
		func(c plan.Change) bool { return c.Action == plan.Hold && c.Reason == v1alpha1.ReasonHistoryUnknown })
}

// is reports whether there is doubt, with this reason.
func is(doubt *v1alpha1.Withheld, reason string) bool { return doubt != nil && doubt.Reason == reason }

// unrecorded returns the entries that HEAD does not contain and for which no removal is recorded, or that are held for
// a reason. They include what another NodeSync keeps, or may keep: it may be removed under the same revision later.
func (p Planned) unrecorded(sync *v1alpha1.NodeSync, held string) []types.UID {
	recorded := map[types.UID]bool{}
	for _, r := range sync.Status.Removals {
		recorded[r.UID] = !r.Returned() && (r.Reason != held || held == "")
	}
	var left []types.UID
	for _, c := range p.Removals {
		if !recorded[c.UID] || c.Held && c.Reason == held {
			left = append(left, c.UID)
		}
	}
	for _, k := range p.Kept {
		if !recorded[k.UID] {
			left = append(left, k.UID)
		}
	}
	return left
}

// Withheld returns the doubt as the status keeps it. It is written together with the applied revision: otherwise it
// would be lost, and what is recorded later would be removed. relabelled reports whether further entries were removed
// from Git whose label was changed by hand, and may be restored.
func (p Planned) Withheld(ctx context.Context, sync *v1alpha1.NodeSync, relabelled func(context.Context) (bool, error)) *v1alpha1.Withheld {
	if p.Doubt == nil {
		return nil
	}
	if more, err := relabelled(ctx); more || err != nil {
		return p.Doubt
	}
	switch {
	case p.Doubt.Reason == v1alpha1.ReasonStatusLost && (sync.Status.LastAppliedRevision == "" || len(p.unrecorded(sync, "")) == 0),
		p.Doubt.Reason == v1alpha1.ReasonHistoryUnknown && len(p.unrecorded(sync, p.Doubt.Reason)) == 0:
		return nil // what is missing is reported by itself, and what is recorded keeps its reason
	}
	return p.Doubt
}
