package plan

import (
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// ReasonIntolerantDaemonSets is the reason of what would end nodes while a DaemonSet that they need
// to the end does not tolerate that.
const ReasonIntolerantDaemonSets = "IntolerantDaemonSets"

// holdIntolerant holds what would end nodes, where guard.intolerantDaemonSets says so, while a
// DaemonSet of a CSI driver or a CNI plugin lacks its toleration, or nobody knows whether one does.
func (m *maker) holdIntolerant(p *Plan) {
	if m.policy.Guard.IntolerantDaemonSets != v1alpha1.IntolerantDaemonSetsHold || m.policy.Deleting {
		return
	}
	words := m.policy.DaemonSets.Trouble()
	if words == "" {
		return
	}
	words = "guard.intolerantDaemonSets is Hold: " + words
	for i := range p.Removals {
		c := &p.Removals[i]
		if c.Ref.Kind == render.NodePool && c.Nodes > 0 && !c.Terminating {
			c.holdUnlessApproved(ReasonIntolerantDaemonSets, words)
		}
	}
	for i := range p.Changes {
		if c := &p.Changes[i]; disrupts(c) {
			m.holdUnlessApproved(c)(ReasonIntolerantDaemonSets, words)
		}
	}
}

// Disrupts says whether nodes end, or are replaced, by what the Plan does now.
func (p *Plan) Disrupts() bool {
	for i := range p.Changes {
		if weighs(&p.Changes[i]) {
			return true
		}
	}
	for _, c := range p.Removals {
		if !c.Held && c.Nodes > 0 {
			return true
		}
	}
	return false
}
