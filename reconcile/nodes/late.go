package nodes

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// lateBy is how long after a write Karpenter may still launch by what was there before: its cache lags.
const lateBy = time.Minute

// bare are definitions that a pass has written while no NodeClaim was of them. One may have been made
// meanwhile, by what was there before, and then the commit has outdated it like any other.
type bare struct {
	revision, from string
	at             time.Time
	refs           map[render.Ref]bool
}

// noteBare notes what this pass writes of that.
func (r *Rollouts) noteBare() {
	of := map[render.Ref]bool{}
	for i := range r.Live.NodeClaims {
		c := &r.Live.NodeClaims[i]
		of[render.Ref{Kind: render.NodePool, Name: c.Pool}], of[render.Ref{Kind: render.EC2NodeClass, Name: c.Class}] = true, true
	}
	refs := map[render.Ref]bool{}
	for i := range r.Changes {
		if c := &r.Changes[i]; c.Action.Writes() && c.Action != plan.Create && !c.Drift && !of[c.Ref] {
			refs[c.Ref] = true
		}
	}
	if len(refs) > 0 {
		r.Memory.bare = bare{revision: r.Revision, from: r.Applied, at: r.Now, refs: refs}
	}
}

// fresh says that NodeClaims that came too early may show.
func (b bare) fresh(now time.Time) bool { return len(b.refs) > 0 && now.Before(b.at.Add(Settles)) }

// outdates is the revision by which NodeClaims are all outdated, and the one before it; empty where some are
// not, or there are none.
func (b bare) outdates(found []plan.Outdated, now time.Time) (revision, from string) {
	for _, o := range found {
		of := b.refs[render.Ref{Kind: render.NodePool, Name: o.Claim.Pool}] || b.refs[render.Ref{Kind: render.EC2NodeClass, Name: o.Claim.Class}]
		if !of || !o.Claim.Created.Before(b.at.Add(lateBy)) {
			return "", ""
		}
	}
	if len(found) == 0 || !b.fresh(now) {
		return "", ""
	}
	return b.revision, b.from
}

// late is the revision by which nodes are outdated that came as their definitions were written, and the one
// before it; empty where no commit is known to have outdated them.
func (r *Rollouts) late(ctx context.Context, found []plan.Outdated) (revision, from string) {
	if r.Memory.began.IsZero() {
		r.Memory.began = r.Now
	}
	if revision, from = r.Memory.bare.outdates(found, r.Now); revision != "" || r.Before != nil || len(found) == 0 {
		return revision, from
	}
	written := map[render.Ref]time.Time{}
	for _, o := range found {
		if !r.wrote(ctx, o.Claim, written) {
			return "", ""
		}
	}
	return r.Revision, r.Applied
}

// wrote says whether a daemon that ran before this one wrote a definition of a NodeClaim at about the time when
// that came. What it noted of that died with it, and the API server has the time.
func (r *Rollouts) wrote(ctx context.Context, c *plan.NodeClaim, written map[render.Ref]time.Time) bool {
	if began := r.Memory.began; c.Created.Before(began.Add(-Settles)) || c.Created.After(began.Add(lateBy)) {
		return false
	}
	for _, ref := range []render.Ref{{Kind: render.NodePool, Name: c.Pool}, {Kind: render.EC2NodeClass, Name: c.Class}} {
		at, known := written[ref]
		if !known {
			at = r.writtenAt(ctx, ref)
			written[ref] = at
		}
		if !at.IsZero() && at.Before(r.Memory.began) && c.Created.Sub(at).Abs() < lateBy {
			return true
		}
	}
	return false
}

// writtenAt is when plumbline changed a definition last; zero where that cannot be read. The cache leaves it out.
func (r *Rollouts) writtenAt(ctx context.Context, ref render.Ref) time.Time {
	kind, _ := render.KindOf(ref.Kind)
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind.GVK)
	if r.Events.Get(ctx, client.ObjectKey{Name: ref.Name}, object) != nil {
		return time.Time{} // then no commit is named as the cause
	}
	for _, entry := range object.ManagedFields {
		if entry.Manager == v1alpha1.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Time != nil {
			return entry.Time.Time
		}
	}
	return time.Time{}
}
