package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// ReasonMaxDisruptedNodes is the reason of what would disrupt more nodes than the
// guard allows.
const ReasonMaxDisruptedNodes = "MaxDisruptedNodes"

const (
	// defaultDisrupted is guard.maxDisruptedNodes where it is not set.
	defaultDisrupted = "25%"
	// leastDisrupted is what a percentage allows at the least: of a few nodes it would
	// allow none.
	leastDisrupted = 3
)

// weighNodes holds what would disrupt more nodes than guard.maxDisruptedNodes
// allows, together with what ends already. What came with one revision is weighed
// together, and goes or is held as a whole; what is held for another reason
// disrupts nothing. What goes is weighed by NodePool as well.
func (m *maker) weighNodes(p *Plan) {
	groups := m.shares(p)
	if m.policy.Deleting {
		return
	}
	d := newDisruption(m.ending())
	for _, s := range slices.Concat(groups...) {
		if s.hold == nil {
			d.add(s.ref, s.claims, s.more)
		}
	}
	for _, group := range groups {
		group = slices.DeleteFunc(group, func(s share) bool { return s.hold == nil })
		if len(group) == 0 || m.holdDisrupting(group, d) {
			continue
		}
		for _, s := range m.weighPools(group, d) {
			d.add(s.ref, s.claims, s.more)
		}
	}
	m.weighHeld(p, d)
}

// holdDisrupting holds a group that would disrupt more nodes than guard.maxDisruptedNodes allows.
func (m *maker) holdDisrupting(group []share, already disruption) (held bool) {
	limit := atMost(m.policy.disruptedNodes(), m.ourNodes())
	nodes := already.with(group).nodes()
	if nodes <= limit {
		return false
	}
	message := m.tooMany(group, already.nodes(), nodes, limit)
	for _, s := range group {
		s.hold(ReasonMaxDisruptedNodes, message)
	}
	return true
}

// tooMany says what releases what is held, and then its names: a commit status cuts off the end. already is how many nodes end without it.
func (m *maker) tooMany(group []share, already, total, limit int) string {
	return fmt.Sprintf("%s would be disrupted, and guard.maxDisruptedNodes allows %d: set it to %d (it is %s%s), or change less in one commit: %s",
		english.Plural(total, "node", ""), limit, total, shareOf(m.policy.disruptedNodes(), m.ourNodes()), endAlready(already), namesOf(group))
}

// namesOf are the objects of shares, each with its nodes.
func namesOf(group []share) string {
	names := make([]string, 0, len(group))
	for _, s := range group {
		names = append(names, fmt.Sprintf("%s (%d)", s.ref, s.nodes()))
	}
	return someOf(names)
}

func endAlready(nodes int) string {
	if nodes == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of the nodes end already", nodes)
}

// holdsByItself says whether a Change is held for itself, whatever else the Plan does to nodes.
func (m *maker) holdsByItself(change *Change) (reason, message string, held bool) {
	if disrupts(change) {
		if message, hosts := m.hostsController(change); hosts {
			return ReasonHostsController, message, true
		}
	}
	return m.endsForOlder(change)
}

// hostsController says whether a Change ends nodes that run Karpenter's controller
// or plumbline: it would end what carries it out.
func (m *maker) hostsController(change *Change) (message string, hosts bool) {
	pools := map[string]bool{}
	for _, c := range m.claims()[change.Ref] {
		pools[c.Pool] = true
	}
	var names []string
	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		for _, h := range m.policy.HostsOf(pool) {
			names = append(names, fmt.Sprintf("%s (pod %s on node %s of NodePool/%s)", h.Workload, h.Pod, h.Node, pool))
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return fmt.Sprintf("it would disrupt nodes that run %s: move it to nodes that Karpenter does not manage first", someOf(names)), true
}

// endsForOlder says whether a Change ends nodes, or has them replaced, for a HEAD that is, or may be,
// older than what was applied: with a mirror that lags behind this would go to and fro. Where the
// host cannot tell, only nodes without a replacement count: of a repository that was moved nothing
// else could be changed any more.
func (m *maker) endsForOlder(change *Change) (reason, message string, ends bool) {
	replaces := change.Effect == EffectReplace
	switch {
	case change.Nodes == 0 || change.intended() != Update && change.intended() != Adopt || change.Effect != EffectDrain && !replaces:
		return "", "", false
	case m.policy.SetBack:
		return v1alpha1.ReasonOlderRevision, fmt.Sprintf("HEAD is older than what was applied (the branch was set back, or a mirror lags behind), and %s would end with %s: push a newer commit", english.Plural(change.Nodes, "node", ""), change.Ref), true
	case change.Drift:
		return "", "", false
	case m.policy.HistoryUnknown && (!replaces || m.policy.Unasked):
		return v1alpha1.ReasonHistoryUnknown, fmt.Sprintf("HEAD may be older than what was applied, as the Git host does not serve the history in between, and %s would end with %s: push a newer commit", english.Plural(change.Nodes, "node", ""), change.Ref), true
	}
	return "", "", false
}

// weighs reports whether a Change goes ahead and counts for the guard.
func weighs(change *Change) bool { return change.Action != Hold && disrupts(change) }

// disrupts reports whether a Change, held or not, counts for the guard. What only makes an object
// again what Git had before does not, nor does what Git takes back from a removal:
// to hold that would let the nodes go.
func disrupts(change *Change) bool {
	action := change.intended()
	weighed := action == Update || action == Adopt || action == TakeBack && !change.Restores
	return change.Nodes > 0 && weighed && !change.Drift
}

// ending are the NodeClaims of our pools that end already, and those of removals
// that have begun.
func (m *maker) ending() map[types.UID]bool {
	found := map[types.UID]bool{}
	for ref, object := range m.live.Objects {
		if ref.Kind != render.NodePool || !m.owns(object) {
			continue
		}
		for _, c := range m.claims()[ref] {
			if c.Deleting {
				found[c.UID] = true
			}
		}
	}
	for _, r := range m.live.Removals {
		if r.Kind == render.NodePool && m.begun(r) && !m.back(r) && !m.passedOn(r) {
			for _, c := range m.claims()[refOf(r)] {
				found[c.UID] = true
			}
		}
	}
	return found
}

// begun says that a removal has ended NodeClaims, or may have.
func begun(r v1alpha1.Removal) bool {
	return r.Phase != v1alpha1.RemovalHeld && r.Phase != v1alpha1.RemovalPacing && r.Phase != v1alpha1.RemovalGone
}

// ourNodes counts the NodeClaims of the pools that are ours, also where the mark of that was
// taken off them.
func (m *maker) ourNodes() int {
	n := 0
	for ref, object := range m.live.Objects {
		if ref.Kind == render.NodePool && (m.owns(object) || m.live.recorded(object.Unstructured)) {
			n += len(m.claims()[ref])
		}
	}
	return n
}

// disruptedNodes is guard.maxDisruptedNodes, as written or by default.
func (p Policy) disruptedNodes() *intstr.IntOrString {
	fallback := intstr.FromString(defaultDisrupted)
	return cmp.Or(p.Guard.MaxDisruptedNodes, &fallback)
}

// shareOf says what a limit comes to with so many nodes.
func shareOf(limit *intstr.IntOrString, nodes int) string {
	if limit.Type == intstr.Int {
		return limit.String()
	}
	return fmt.Sprintf("%s of %s, at least %d", limit, english.Plural(nodes, "node", ""), leastDisrupted)
}

// atMost is how many of so many nodes a limit lets be disrupted at a time.
func atMost(limit *intstr.IntOrString, of int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, of, true)
	if err != nil {
		n = 0 // the CRD's schema lets nothing else through
	}
	if limit.Type == intstr.String {
		n = max(n, leastDisrupted)
	}
	return n
}
