package rollout

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Restored is the number of a rollout's nodes that no longer have to be replaced, because a later revision has reverted
// what outdated them; the zero value if there are none.
type Restored struct {
	// Revision is the rollout's, and By the one that reverted it.
	Revision, By string `redact:"-"`
	// All is how many nodes the rollout had outdated. Nodes is how many of them match again, and Left how many do not
	// yet.
	All, Nodes, Left int
}

// remembered contains the nodes that a revision has outdated. After a restart it is rebuilt before the next write: only
// if the daemon is killed between that write and the look after it, a reverted rollout ends like one that was
// superseded.
type remembered struct {
	revision string
	// from is the revision that was applied before it.
	from   string
	all    int
	claims map[types.UID]*rememberedClaim
	// restored is the result for this rollout, or for the last one that was restored.
	restored Restored
}

// rememberedClaim is a NodeClaim that was outdated.
type rememberedClaim struct {
	// by is a hash of what defined the nodes of its pool when it was found outdated, and reason is Karpenter's.
	by, reason string
	// committed reports whether the revision has outdated it, and not AWS beside the revision.
	committed bool
	// restored reports whether it matches again, as that was taken back.
	restored bool
	// uncounted is true while it is not one of the rollout's nodes, because it matches without having been replaced.
	uncounted bool
}

// recount corrects the number of a rollout's nodes: a node that matches and still exists was not outdated, or no longer
// is. Karpenter's condition of a NodeClaim, which lasts for a moment after a revert, therefore does not count
// permanently.
func (m *remembered) recount(of *v1alpha1.Rollout, outdated []plan.Outdated, there map[types.UID]*plan.NodeClaim) {
	if of.Revision == "" || of.Revision != m.revision {
		return
	}
	is := map[types.UID]bool{}
	for _, o := range outdated {
		is[o.Claim.UID] = true
	}
	for uid, c := range m.claims {
		switch {
		case is[uid] && c.uncounted:
			c.uncounted = false // Roll has counted it again
		case !is[uid] && there[uid] != nil && !c.uncounted:
			c.uncounted, of.Nodes = true, of.Nodes-1
		}
	}
	of.Nodes = max(of.Nodes, of.Outdated)
}

// follow finds which of the nodes match again, and records those of the current rollout.
func (m *remembered) follow(r *Rollouts, next *v1alpha1.Rollout, outdated []plan.Outdated) Restored {
	made := r.definitionHashes()
	m.restore(r, outdated, made)
	restarted := next != nil && r.Before != nil && r.Before.Revision == next.Revision
	m.remember(next, outdated, made, restarted)
	return m.restored
}

// remember records the nodes that a rollout has outdated. If it started before a restart, those that match by then are
// recorded, too.
func (m *remembered) remember(of *v1alpha1.Rollout, outdated []plan.Outdated, made definitionHashes, restarted bool) {
	if of == nil || of.Revision == "" {
		return
	}
	if m.revision != of.Revision {
		m.revision, m.from, m.all, m.claims = of.Revision, of.From, 0, map[types.UID]*rememberedClaim{}
		if restarted {
			m.all = int(of.Nodes - of.Outdated)
		}
	}
	for _, o := range outdated {
		c := m.claims[o.Claim.UID]
		if c == nil {
			c = &rememberedClaim{reason: o.Reason}
			m.claims[o.Claim.UID] = c
		}
		if !c.committed && !uncommitted(of, o) {
			c.committed, m.all = true, m.all+1
		}
		if c.by == "" {
			c.by = made.of(o.Claim.Pool)
		}
	}
}

// outdates returns the revision that has outdated all of the given nodes, with the current definitions, and the one
// before it; empty if none is remembered. The removal of a NodePool, which ends a rollout there, may be reverted.
func (m *remembered) outdates(found []plan.Outdated, made definitionHashes) (revision, from string) {
	for _, o := range found {
		c := m.claims[o.Claim.UID]
		if c == nil || !c.committed || c.reason != o.Reason || c.by == "" || c.by != made.of(o.Claim.Pool) {
			return "", ""
		}
	}
	return m.revision, m.from
}

// restore finds which of them match again because of another revision.
func (m *remembered) restore(r *Rollouts, outdated []plan.Outdated, made definitionHashes) {
	if m.revision == "" {
		return
	}
	there, still := r.notDeleting(), map[types.UID]bool{}
	for _, o := range outdated {
		still[o.Claim.UID] = true
	}
	found := Restored{Revision: m.revision, All: m.all}
	if m.restored.Revision == m.revision {
		found.By = m.restored.By
	}
	for uid, c := range m.claims {
		claim := there[uid]
		switch {
		case still[uid]:
			c.restored = false
		case claim != nil && c.committed:
			if c.restores(made.differs(claim.Pool, c.by), r.Revision != m.revision) {
				found.By = r.Revision
			}
		case claim == nil && !c.restored:
			delete(m.claims, uid) // it was replaced, or has ended by itself
		}
		switch {
		case c.restored:
			found.Nodes++
		case claim != nil && c.committed:
			found.Left++
		}
	}
	m.keep(found)
}

// keep replaces what was found before; nothing is known of another revision than the remembered one.
func (m *remembered) keep(found Restored) {
	switch {
	case found.Nodes > 0:
		m.restored = found
	case m.restored.Revision == m.revision:
		m.restored = Restored{}
	}
}

// restores records whether a NodeClaim that matches is restored, and reports whether that is new: its definition
// differs from when it was outdated, and another revision is applied.
func (c *rememberedClaim) restores(otherwise, another bool) bool {
	before := c.restored
	c.restored = otherwise && (before || another)
	return c.restored && !before
}

// notDeleting returns the NodeClaims that are not being deleted.
func (r *Rollouts) notDeleting() map[types.UID]*plan.NodeClaim {
	there := map[types.UID]*plan.NodeClaim{}
	for i := range r.Live.NodeClaims {
		if c := &r.Live.NodeClaims[i]; !c.Deleting {
			there[c.UID] = c
		}
	}
	return there
}

// definitionHashes are the hashes of what defines the nodes of pools, each computed once.
type definitionHashes struct {
	live    plan.Live
	changes []plan.Change
	known   map[string]string
}

func (r *Rollouts) definitionHashes() definitionHashes {
	return definitionHashes{live: r.Live, changes: r.Changes, known: map[string]string{}}
}

// of returns the hash of a pool; empty if it does not exist, or another client has changed it.
func (m definitionHashes) of(pool string) string {
	if hash, known := m.known[pool]; known {
		return hash
	}
	hash := ""
	if object := m.live.Objects[render.Ref{Kind: render.NodePool, Name: pool}]; object != nil && !plan.MadeByEdited(object, m.changes) {
		hash = plan.MadeBy(object, m.live.Objects)
	}
	m.known[pool] = hash
	return hash
}

// differs reports whether the nodes of a pool have another definition, which no other client has changed.
func (m definitionHashes) differs(pool, by string) bool {
	is := m.of(pool)
	return is != "" && by != "" && is != by
}
