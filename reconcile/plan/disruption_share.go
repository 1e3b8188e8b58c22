package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// disruption is which nodes are disrupted, by the Plan, by Plans before it, or by Karpenter.
type disruption struct {
	// drained are terminating, or are removed with their NodePool or by fewer replicas; replaced are those
	// that Karpenter replaces, at the pace of disruption budgets.
	drained, replaced map[types.UID]bool
	// moreDrained and moreReplaced are nodes of which nobody can tell which they are, by the name of their NodePool.
	moreDrained, moreReplaced map[string]int
	// recent reports whether nodes that count for earlier commits within guard.removalPeriod are among moreDrained.
	recent bool
}

func newDisruption(terminating map[types.UID]bool) disruption {
	return disruption{drained: terminating, replaced: map[types.UID]bool{}, moreDrained: map[string]int{}, moreReplaced: map[string]int{}}
}

// add counts the nodes of a share.
func (d disruption) add(s share) {
	claims, more := d.drained, d.moreDrained
	if s.replaces {
		claims, more = d.replaced, d.moreReplaced
	}
	for _, uid := range s.claims {
		claims[uid] = true
	}
	if s.more > 0 { // only a NodePool has such
		more[s.ref.Name] += s.more
	}
	for _, uid := range s.terminated {
		d.drained[uid] = true
	}
}

// with is the same with the nodes of some more shares.
func (d disruption) with(group []share) disruption {
	sum := disruption{
		drained: maps.Clone(d.drained), replaced: maps.Clone(d.replaced),
		moreDrained: maps.Clone(d.moreDrained), moreReplaced: maps.Clone(d.moreReplaced), recent: d.recent,
	}
	for _, s := range group {
		sum.add(s)
	}
	return sum
}

// total counts every node once, whatever budgets allow.
func (d disruption) total() int {
	n := len(d.drained) + d.replacedInTotal()
	for _, more := range d.moreDrained {
		n += more
	}
	return n
}

// replacedInTotal counts the nodes that are replaced sooner or later. One that is terminating is not among them.
func (d disruption) replacedInTotal() int {
	n := 0
	for uid := range d.replaced {
		if !d.drained[uid] {
			n++
		}
	}
	for _, more := range d.moreReplaced {
		n += more
	}
	return n
}

// share is what one object of the Plan does to nodes.
type share struct {
	ref    render.Ref
	claims []types.UID
	more   int
	// terminated are those that are consolidated or expire: Karpenter launches no replacement before.
	terminated []types.UID
	// replaces reports whether Karpenter replaces them at the pace of disruption budgets.
	replaces bool
	// change is the Change, nil for a removal, and removal is the removal, nil for a Change.
	change  *Change
	removal *Candidate
	// hold holds the object; nil where it was approved.
	hold func(reason, message string)
}

// shareOfChange is what a Change does to nodes.
func shareOfChange(c *Change, hold func(reason, message string)) share {
	return share{
		ref: c.Ref, claims: c.touched, more: c.unnamed, terminated: slices.Concat(c.consolidated, c.expiring),
		replaces: c.Effect == EffectReplace, change: c, hold: hold,
	}
}

// shares are what the Plan does to nodes, by revision: removals that were recorded
// before in the order in which they are weighed, and last what is new.
func (m *maker) shares(p *Plan) [][]share {
	var groups [][]share
	last := ""
	var fresh []share
	for i := range p.Removals {
		c := &p.Removals[i]
		claims := m.claims()[c.Ref]
		if !c.drains() || len(claims) == 0 {
			continue
		}
		s := share{ref: c.Ref, claims: uids(claims), hold: c.holdUnlessApproved, removal: c}
		if c.approved.covers(ReasonMaxDisruptedNodes) {
			s.hold = nil
		}
		switch {
		case c.Revision == p.Revision:
			fresh = append(fresh, s)
		case len(groups) > 0 && last == c.Revision:
			groups[len(groups)-1] = append(groups[len(groups)-1], s)
		default:
			groups, last = append(groups, []share{s}), c.Revision
		}
	}
	for i := range p.Changes {
		change := &p.Changes[i]
		if reason, message, held := m.holdsByItself(change); held {
			change.hold(reason, message)
		}
		if !weighs(change) {
			continue
		}
		s := shareOfChange(change, m.holdUnlessApproved(change))
		if m.approved(change, ReasonMaxDisruptedNodes) {
			s.hold = nil
		}
		fresh = append(fresh, s)
	}
	if len(fresh) > 0 {
		groups = append(groups, fresh)
	}
	return groups
}

// drains says that the removal of a candidate begins to end nodes, or goes on with it.
func (c *Candidate) drains() bool {
	return c.Ref.Kind == render.NodePool && !c.Held && !c.Terminating && !c.Orphan
}

func uids(claims []*NodeClaim) []types.UID {
	found := make([]types.UID, 0, len(claims))
	for _, c := range claims {
		found = append(found, c.UID)
	}
	return found
}
