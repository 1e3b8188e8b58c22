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

// ordered is when a host was asked last how two commits stand to each other. untold reports that it
// has answered, and does not know.
type ordered struct {
	head, other string
	at          time.Time
	untold      bool
}

// withhold reports whether, and why, it is in doubt that what HEAD lacks was taken out of
// Git: nothing is known to have been applied, or HEAD is older than what was applied, if
// only in part, or may be. known is what was in doubt before.
func withhold(known *v1alpha1.Withheld, head, applied string, order func(commit string) source.Order) *v1alpha1.Withheld {
	if applied == "" || known != nil && known.Reason == v1alpha1.ReasonStatusLost {
		return &v1alpha1.Withheld{Reason: v1alpha1.ReasonStatusLost, Revision: head}
	}
	if known != nil {
		same := render.CommitOf(known.Revision) == render.CommitOf(head)
		if same && known.Reason == v1alpha1.ReasonOlderRevision {
			return &v1alpha1.Withheld{Reason: known.Reason, Revision: head, From: known.From}
		}
		// One that is newer than the last, and still older than what was applied before that,
		// lacks the same: a mirror catches up.
		switch order(render.CommitOf(known.From)) {
		case source.OrderOlder:
			return &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: head, From: known.From}
		case source.OrderUnknown:
			// A commit that follows the last one may come before that as well.
			return &v1alpha1.Withheld{Reason: v1alpha1.ReasonHistoryUnknown, Revision: head, From: known.From}
		case source.OrderNewer, source.OrderParted:
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
	case source.OrderNewer, source.OrderParted:
	}
	return nil
}

// Doubt says why what HEAD lacks may not have been taken out of Git, by what is available;
// nil if it was.
func (s *PlanStep) Doubt() *v1alpha1.Withheld {
	if s.reviews() {
		return s.inStatus()
	}
	if last := s.Sync.Status.LastVerified; last != nil && last.Newer != nil && render.CommitOf(last.Revision) == s.Snapshot.Commit && s.Before.LastAppliedRevision != "" {
		// Older by what its signature covers.
		return &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: s.Snapshot.Revision, From: last.Newer.Revision}
	}
	return s.withhold(s.Order)
}

// inStatus is what the status has in doubt of the same commit.
func (s *PlanStep) inStatus() *v1alpha1.Withheld {
	if known := s.Before.Withheld; known != nil && render.CommitOf(known.Revision) == s.Snapshot.Commit {
		return known
	}
	return nil
}

// withhold goes by the status and by the record of what was applied, which is not restored
// with the status: the newer of the two revisions counts. Where that record is lost, nobody
// knows what of HEAD's past was applied.
func (s *PlanStep) withhold(order func(commit string) source.Order) *v1alpha1.Withheld {
	head, applied := s.Snapshot.Revision, s.Before.NewestAppliedRevision()
	doubt := withhold(s.Before.Withheld, head, applied, order)
	if doubt == nil && s.Recorded != "" && render.CommitOf(s.Recorded) != render.CommitOf(applied) {
		doubt = withhold(&v1alpha1.Withheld{From: s.Recorded}, head, applied, order)
	}
	if doubt == nil && s.RecordLost {
		doubt = &v1alpha1.Withheld{Reason: v1alpha1.ReasonStatusLost, Revision: head}
	}
	return doubt
}

// statusIsOlder reports whether only the record knows of the revision for which something is in
// doubt: the status is as it was before.
func (s *PlanStep) statusIsOlder(doubt *v1alpha1.Withheld) bool {
	return doubt != nil && s.Recorded != "" && s.Before.Withheld == nil &&
		doubt.From == s.Recorded && render.CommitOf(s.Recorded) != render.CommitOf(s.Before.NewestAppliedRevision())
}

// askForOrder asks the Git host for the history that is not at hand, where something
// hangs on it, and returns what is in doubt by its answer.
func (s *PlanStep) askForOrder(ctx context.Context, planned Planned) (doubt *v1alpha1.Withheld, found bool) {
	if !is(planned.Doubt, v1alpha1.ReasonHistoryUnknown) {
		return nil, false
	}
	if len(planned.unrecorded(s.Sync, v1alpha1.ReasonHistoryUnknown)) == 0 && !planned.endsNodes() && !s.ChangesCharts() {
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
		s.Memory.ordered.untold = errors.As(err, &unknown)
		s.Warn(v1alpha1.ReasonHistoryUnknown, fmt.Sprintf("changes that would terminate nodes are held, because %s may be older than the applied revision: %v", render.ShortRevision(s.Snapshot.Revision), err))
		s.WakeBy(s.Now.Add(s.Retry))
		return nil, false
	}
	return s.withhold(func(commit string) source.Order {
		if commit == other {
			return order
		}
		return s.Order(commit)
	}), true
}

// unasked reports whether the order of HEAD and of what was applied is unknown, and the Git host has
// not answered yet.
func (s *PlanStep) unasked(doubt *v1alpha1.Withheld) bool {
	if s.reviews() || !is(doubt, v1alpha1.ReasonHistoryUnknown) {
		return false
	}
	asked := s.Memory.ordered
	return !asked.untold || asked.head != s.Snapshot.Commit || asked.other != render.CommitOf(doubt.From)
}

// endsNodes reports whether a change of the Plan that terminates nodes is held, as it is unknown how HEAD
// stands to what was applied.
func (p Planned) endsNodes() bool {
	return slices.ContainsFunc(p.Changes, func(c plan.Change) bool { return c.Action == plan.Hold && c.Reason == v1alpha1.ReasonHistoryUnknown })
}

// is reports whether what HEAD lacks is in doubt for a reason.
func is(doubt *v1alpha1.Withheld, reason string) bool { return doubt != nil && doubt.Reason == reason }

// unrecorded are the entries that HEAD lacks and that no removal is recorded of, and
// those that are held for a reason. What another NodeSync keeps, or may keep, is among
// them: it may leave under the same revision later.
func (p Planned) unrecorded(sync *v1alpha1.NodeSync, held string) []types.UID {
	recorded := map[types.UID]bool{}
	for _, r := range sync.Status.Removals {
		recorded[r.UID] = r.Reason != held || held == ""
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

// Withheld is the doubt as the status keeps it, which is written with the revision as
// applied: else nobody would know of it any more, and what is recorded later would leave.
// relabelled reports whether more has left Git, whose label was changed by hand, and may be set
// again.
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
		return nil // what is missing says it by itself, and what is recorded keeps its reason
	}
	return p.Doubt
}
