package plan

import (
	"fmt"
	"slices"
	"sync"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/render"
)

// warnOfOverlay adds warnings about a Change of a NodeOverlay. An overlay makes no node drift: Karpenter uses it when it
// launches and consolidates nodes.
func (m *maker) warnOfOverlay(change *Change) {
	for _, pool := range render.PoolsSelected(change.Ref, change.Wanted()) {
		if !m.inSet[pool] && m.live.object(pool) == nil && !m.policy.Offline {
			change.Warnings = append(change.Warnings,
				fmt.Sprintf("%s names %s, which is neither in this NodeSync's Git nor in the cluster: it has no effect there", change.Ref, pool))
		}
	}
}

// noteOverlays adds a note to each NodeOverlay that changes prices: how many nodes Karpenter may consolidate because
// another instance type is now cheaper, which a Plan cannot tell. They do not count for the guard. It returns the same
// for overlays that are removed.
func (m *maker) noteOverlays(p *Plan) (removed []string) {
	if m.policy.Ignored[render.NodeOverlay] {
		return nil
	}
	sources := sync.OnceValue(func() []source { return m.consolidationSources(p) })
	note := func(ref render.Ref, before, after *unstructured.Unstructured) string {
		if !pricesDiffer(before, after) {
			return ""
		}
		nodes, names := selectedBy(before, after, sources())
		if nodes == 0 {
			return ""
		}
		return fmt.Sprintf("%s changes the prices that Karpenter compares: it may consolidate up to %s of %s within their disruption budgets, if other instance types are now cheaper; the guard does not count these nodes",
			ref, english.Plural(nodes, "node", ""), someOf(names))
	}
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Ref.Kind == render.NodeOverlay && c.Err == nil && (c.Action.Writes() || c.Action == Hold) {
			if words := note(c.Ref, c.Live, c.Wanted()); words != "" {
				c.Notes = append(c.Notes, words)
			}
		}
	}
	for i := range p.Removals {
		if c := &p.Removals[i]; c.Ref.Kind == render.NodeOverlay && !c.Recorded && !c.Orphan {
			removed = append(removed, note(c.Ref, m.live.object(c.Ref).content(), nil))
		}
	}
	return slices.DeleteFunc(removed, func(words string) bool { return words == "" })
}

// selectedBy returns the number of nodes and the NodePools that either version of a NodeOverlay may apply to.
func selectedBy(before, after *unstructured.Unstructured, sources []source) (nodes int, pools []string) {
	for _, s := range sources {
		if selects(before, s) || selects(after, s) {
			nodes, pools = nodes+s.nodes, append(pools, poolRefOf(s.name).String())
		}
	}
	return nodes, pools
}

// pricesDiffer reports whether two versions of a NodeOverlay, of which one may be nil, result in different prices.
func pricesDiffer(before, after *unstructured.Unstructured) bool {
	prices := func(overlay *unstructured.Unstructured) map[string]any {
		found := map[string]any{}
		for _, field := range []string{"price", "priceAdjustment", "requirements", "weight"} {
			if overlay != nil {
				found[field] = specField(overlay, field)
			}
		}
		if found["price"] == nil && found["priceAdjustment"] == nil {
			return nil
		}
		return found
	}
	return !equal(prices(before), prices(after))
}

// selects reports whether a NodeOverlay, which may be nil, may apply to the nodes of a NodePool (getOverlaidOfferings
// in karpenter pkg/controllers/nodeoverlay/controller.go, 1.14.1).
func selects(object *unstructured.Unstructured, s source) bool {
	if object == nil {
		return false
	}
	overlay, err := typed[v1alpha1.NodeOverlay](object)
	if err != nil {
		return false
	}
	var wanted []corev1.NodeSelectorRequirement
	for _, r := range overlay.Spec.Requirements {
		wanted = append(wanted, r.AsNodeSelectorRequirement())
	}
	has := scheduling.NewRequirements(s.requirements.Values()...)
	has.Add(scheduling.NewRequirement(karpv1.NodePoolLabelKey, corev1.NodeSelectorOpIn, s.name))
	return has.Intersects(scheduling.NewNodeSelectorRequirements(wanted...)) == nil
}
