package nodes

import (
	"time"

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
