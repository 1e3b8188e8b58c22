package plan

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// disruption is which nodes are disrupted at a time: those that end already, and
// those that the Plan would have end or be replaced.
type disruption struct {
	claims map[types.UID]bool
	// more are nodes that end, nobody can say which, by the name of their NodePool.
	more map[string]int
}

func newDisruption(ending map[types.UID]bool) disruption {
	return disruption{claims: ending, more: map[string]int{}}
}

func (d disruption) nodes() int {
	n := len(d.claims)
	for _, more := range d.more {
		n += more
	}
	return n
}

// add counts nodes of a Change or a removal. Only a NodePool has some of which nobody can say which they are.
func (d disruption) add(ref render.Ref, claims []types.UID, more int) {
	for _, uid := range claims {
		d.claims[uid] = true
	}
	if more > 0 {
		d.more[ref.Name] += more
	}
}

// with is the same with the nodes of some shares more.
func (d disruption) with(group []share) disruption {
	sum := disruption{claims: maps.Clone(d.claims), more: maps.Clone(d.more)}
	for _, s := range group {
		sum.add(s.ref, s.claims, s.more)
	}
	return sum
}

// share is what one object of the Plan does to nodes.
type share struct {
	ref    render.Ref
	claims []types.UID
	more   int
	// hold holds the object; nil where it was approved.
	hold func(reason, message string)
}

func (s share) nodes() int { return len(s.claims) + s.more }

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
		s := share{ref: c.Ref, claims: uids(claims), hold: c.holdUnlessApproved}
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
		s := share{ref: change.Ref, claims: change.touched, more: change.unnamed, hold: m.holdUnlessApproved(change)}
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
