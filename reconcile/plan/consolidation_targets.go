package plan

import (
	"fmt"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/render"
)

// maxNoted limits how many new NodePools of one Plan get a note about the nodes of others: nobody reads more, and each
// is compared with all other NodePools.
const maxNoted = 20

// target is a NodePool that may take the pods of nodes that Karpenter consolidates.
type target struct {
	change *Change
	// why is what is new about the NodePool.
	why          string
	taints       []corev1.Taint
	requirements scheduling.Requirements
}

// source is a NodePool whose nodes Karpenter may consolidate.
type source struct {
	name         string
	nodes        int
	taints       []corev1.Taint
	requirements scheduling.Requirements
}

// noteTargets adds a note to each NodePool that is new, or has a higher weight: how many nodes of other NodePools
// Karpenter may consolidate onto it if their pods fit and it is cheaper, which a Plan cannot tell. They do not count
// for the guard.
func (m *maker) noteTargets(p *Plan) {
	var targets []target
	for i := range p.Changes {
		if t, is := targetOf(&p.Changes[i]); is && len(targets) < maxNoted {
			targets = append(targets, t)
		}
	}
	if len(targets) == 0 {
		return
	}
	sources := m.consolidationSources(p)
	for _, t := range targets {
		nodes, names := 0, []string{}
		for _, s := range sources {
			if t.change.Ref.Name != s.name && t.fits(s) {
				nodes, names = nodes+s.nodes, append(names, render.NodePool+"/"+s.name)
			}
		}
		if nodes > 0 {
			t.change.Notes = append(t.change.Notes, fmt.Sprintf("%s %s: Karpenter may consolidate up to %s of %s onto it within their disruption budgets, if their pods fit and the new nodes are cheaper; the guard does not count these nodes",
				t.change.Ref, t.why, english.Plural(nodes, "node", ""), someOf(names)))
		}
	}
}

// targetOf reads a Change that creates a NodePool or raises its weight. Karpenter launches no node of a static pool for
// a pod.
func targetOf(c *Change) (target, bool) {
	if c.Ref.Kind != render.NodePool || c.Err != nil || c.Drift || c.Rescue || !c.Action.Writes() && c.Action != Hold {
		return target{}, false
	}
	pool, err := typed[karpv1.NodePool](c.Object.Defaulted)
	if err != nil || pool.Spec.Replicas != nil {
		return target{}, false
	}
	why := "is new"
	if c.Live != nil {
		before, err := typed[karpv1.NodePool](c.Live)
		if err != nil || ptr.Deref(before.Spec.Weight, 0) >= ptr.Deref(pool.Spec.Weight, 0) {
			return target{}, false
		}
		why = "has a higher weight"
	}
	return target{change: c, why: why, taints: pool.Spec.Template.Spec.Taints, requirements: requirementsOf(pool)}, true
}

// requirementsOf returns the requirements of a NodePool's nodes, including its labels.
func requirementsOf(pool *karpv1.NodePool) scheduling.Requirements {
	all := scheduling.NewNodeSelectorRequirementsWithMinValues(pool.Spec.Template.Spec.Requirements...)
	all.Add(scheduling.NewLabelRequirements(pool.Spec.Template.Labels).Values()...)
	return all
}

// fits reports whether pods of a NodePool may fit on nodes of the target: their requirements overlap, and the target
// has no taint that these pods do not tolerate already.
func (t target) fits(s source) bool {
	return onlyTaintsOf(t.taints, s.taints) && s.requirements.Intersects(t.requirements) == nil
}

// consolidationSources returns the NodePools of the cluster, of any owner, with underutilized nodes that Karpenter may
// consolidate. The nodes of removed NodePools count with the removal.
func (m *maker) consolidationSources(p *Plan) []source {
	removed := map[types.UID]bool{}
	for i := range p.Removals {
		removed[p.Removals[i].UID] = true
	}
	var found []source
	for _, object := range m.live.OfKind(render.NodePool) {
		if removed[object.GetUID()] || m.removalStarted(object) || terminating(object) {
			continue
		}
		claims := notTerminating(m.claims()[poolRefOf(object.GetName())])
		if s, is := sourceOf(object, len(claims), m.policy); is {
			found = append(found, s)
		}
	}
	return found
}

func sourceOf(object *unstructured.Unstructured, nodes int, policy Policy) (source, bool) {
	if nodes == 0 {
		return source{}, false
	}
	pool, err := typed[karpv1.NodePool](unbraked(object))
	if err != nil || !consolidationOf(pool, nodes, policy.Now).underused {
		return source{}, false
	}
	return source{name: pool.Name, nodes: nodes, taints: pool.Spec.Template.Spec.Taints, requirements: requirementsOf(pool)}, true
}
