package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// ordered is when a host was asked last how two commits stand to each other.
type ordered struct {
	head, other string
	at          time.Time
}

// withhold says whether, and why, it is in doubt that what HEAD lacks was taken out of
// Git: nothing is known to have been applied, or HEAD is older than what was, or may be.
// known is what was in doubt before.
func withhold(known *v1alpha1.Withheld, head, applied string, order func(commit string) source.Order) *v1alpha1.Withheld {
	if applied == "" || known != nil && known.Reason == v1alpha1.ReasonStatusLost {
		return &v1alpha1.Withheld{Reason: v1alpha1.ReasonStatusLost, Revision: head}
	}
	if known != nil {
		same := commitOf(known.Revision) == commitOf(head)
		if same && known.Reason == v1alpha1.ReasonOlderRevision {
			return &v1alpha1.Withheld{Reason: known.Reason, Revision: head, From: known.From}
		}
		// One that is newer than the last, and still older than what was applied before that,
		// lacks the same: a mirror catches up.
		switch stands := order(commitOf(known.From)); {
		case stands == source.OrderOlder:
			return &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: head, From: known.From}
		case stands == source.OrderUnknown && same:
			return &v1alpha1.Withheld{Reason: v1alpha1.ReasonHistoryUnknown, Revision: head, From: known.From}
		}
	}
	if commitOf(head) == commitOf(applied) {
		return nil
	}
	switch order(commitOf(applied)) {
	case source.OrderOlder:
		return &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: head, From: applied}
	case source.OrderUnknown:
		return &v1alpha1.Withheld{Reason: v1alpha1.ReasonHistoryUnknown, Revision: head, From: applied}
	case source.OrderNewer, source.OrderParted:
	}
	return nil
}

// seeWithheld finds out whether what HEAD lacks is in doubt, by what is at hand.
func (p *pass) seeWithheld() {
	status := p.before.Status
	if last := p.sync.Status.LastVerified; last != nil && last.Newer != nil && commitOf(last.Revision) == p.snapshot.Commit && status.LastAppliedRevision != "" {
		// Older by what its signature covers.
		p.doubt = &v1alpha1.Withheld{Reason: v1alpha1.ReasonOlderRevision, Revision: p.snapshot.Revision, From: last.Newer.Revision}
		return
	}
	p.doubt = withhold(status.Withheld, p.snapshot.Revision, status.LastAppliedRevision, func(commit string) source.Order {
		return p.Source.Order(p.name().String(), commit)
	})
}

// askWithheld asks the Git host for the history that is not at hand, where something
// hangs on it, and says whether it has told.
func (p *pass) askWithheld(ctx context.Context) bool {
	if !p.inDoubt(v1alpha1.ReasonHistoryUnknown) || len(p.unrecorded(v1alpha1.ReasonHistoryUnknown)) == 0 {
		return false
	}
	head, other := p.snapshot.Commit, commitOf(p.doubt.From)
	if asked := p.memory.ordered; asked.head == head && asked.other == other && p.now.Before(asked.at.Add(p.retryInterval())) {
		p.WakeBy(asked.at.Add(p.retryInterval()))
		return false
	}
	found, err := p.findOrder(ctx, other)
	p.memory.ordered = ordered{head: head, other: other, at: p.now}
	if err != nil {
		p.Warn("HistoryUnknown", fmt.Sprintf("removals are held, as %s may be older than what was applied: %v", render.ShortRevision(p.snapshot.Revision), err))
		p.WakeBy(p.now.Add(p.retryInterval()))
		return false
	}
	status := p.before.Status
	p.doubt = withhold(status.Withheld, p.snapshot.Revision, status.LastAppliedRevision, func(commit string) source.Order {
		if commit == other {
			return found
		}
		return p.Source.Order(p.name().String(), commit)
	})
	return true
}

func (p *pass) findOrder(ctx context.Context, commit string) (source.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, min(p.timeout(), historyTimeout))
	defer cancel()
	request, err := p.request(ctx)
	if err != nil {
		return source.OrderUnknown, err
	}
	return p.Source.FindOrder(ctx, request, commit)
}

// inDoubt says whether what HEAD lacks is in doubt for a reason.
func (p *pass) inDoubt(reason string) bool { return p.doubt != nil && p.doubt.Reason == reason }

// unrecorded are the entries that HEAD lacks and that no removal is recorded of, and
// those that are held for a reason. What another NodeSync keeps, or may keep, is among
// them: it may leave under the same revision later.
func (p *pass) unrecorded(held string) []types.UID {
	recorded := map[types.UID]bool{}
	for _, r := range p.sync.Status.Removals {
		recorded[r.UID] = r.Reason != held || held == ""
	}
	var left []types.UID
	for _, c := range p.plan.Removals {
		if !recorded[c.UID] {
			left = append(left, c.UID)
		}
	}
	for _, k := range p.plan.Kept {
		if !recorded[k.UID] {
			left = append(left, k.UID)
		}
	}
	return left
}

// noteWithheld keeps the doubt in the status that is written with the revision as applied:
// else nobody would know of it any more, and what is recorded later would leave.
func (p *pass) noteWithheld() {
	if p.plan == nil || p.snapshot == nil {
		return
	}
	keep := p.doubt
	switch {
	case keep == nil:
	case keep.Reason == v1alpha1.ReasonStatusLost && (p.sync.Status.LastAppliedRevision == "" || len(p.unrecorded("")) == 0),
		keep.Reason == v1alpha1.ReasonHistoryUnknown && len(p.unrecorded(keep.Reason)) == 0:
		keep = nil // what is missing says it by itself, and what is recorded keeps its reason
	}
	p.sync.Status.Withheld = keep
}

// heldAsOlder says whether a candidate is held since HEAD is, or may be, older.
func heldAsOlder(c plan.Candidate) bool {
	return slices.Contains([]string{v1alpha1.ReasonOlderRevision, v1alpha1.ReasonHistoryUnknown}, c.Reason)
}
