package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// NodeLimit is a static NodePool whose limits.nodes leave no room for a replacement: they are not higher than its
// replicas. Karpenter replaces none of its drifted nodes, unless the feature gate TerminateFirst is on (ComputeCommands
// in sigs.k8s.io/karpenter pkg/controllers/disruption/staticdrift.go, 1.14.3 and 1.15.0).
type NodeLimit struct {
	Pool string
	// Limit is limits.nodes, and Replicas is spec.replicas, at least 1.
	Limit, Replicas int64
	// Nodes is how many of its nodes a Plan makes drift, and AtATime how many of them its disruption budgets allow at a
	// time; 0 if it makes none drift.
	Nodes, AtATime int
}

// NodeLimitOf returns the NodeLimit of a NodePool, without its nodes; false if it has room for a replacement.
func NodeLimitOf(pool *unstructured.Unstructured) (found NodeLimit, at bool) {
	replicas, static, err := unstructured.NestedInt64(pool.Object, "spec", "replicas")
	limit, limited := quantities(pool, "spec", "limits")["nodes"]
	if err != nil || !static || replicas == 0 || !limited || limit.CmpInt64(replicas) > 0 {
		return NodeLimit{}, false
	}
	return NodeLimit{Pool: pool.GetName(), Limit: limit.Value(), Replicas: replicas}, true
}

// NodeLimits returns those of the NodePools that some Changes write or whose nodes they make drift, by name.
func NodeLimits(changes []Change, live Live, now time.Time) []NodeLimit {
	after := map[string]*unstructured.Unstructured{}
	for i := range changes {
		if c := &changes[i]; c.Ref.Kind == render.NodePool && c.Wanted() != nil && c.Err == nil {
			after[c.Ref.Name] = c.Wanted()
		}
	}
	paces := map[string]PoolPace{}
	for _, pace := range Paces(changes, live, nil, now) {
		paces[pace.Pool] = pace
		if object := live.object(poolRefOf(pace.Pool)); after[pace.Pool] == nil && object != nil {
			after[pace.Pool] = object.Unstructured
		}
	}
	var found []NodeLimit
	for name, pool := range after {
		if limit, at := NodeLimitOf(pool); at {
			limit.Nodes, limit.AtATime = paces[name].Nodes, max(paces[name].Allowed.Now, paces[name].Allowed.Next)
			found = append(found, limit)
		}
	}
	slices.SortFunc(found, func(a, b NodeLimit) int { return cmp.Compare(a.Pool, b.Pool) })
	return found
}

// Words describes what follows. terminatesFirst reports whether the feature gate TerminateFirst is on.
func (l NodeLimit) Words(terminatesFirst bool) string {
	words := fmt.Sprintf("NodePool/%s: limits.nodes %d leaves no room to replace one of its %s: ", l.Pool, l.Limit, english.Plural(int(l.Replicas), "replica", ""))
	switch {
	case terminatesFirst && l.Nodes > 0:
		return words + fmt.Sprintf("Karpenter terminates up to %d of %s at a time before it launches their replacements (feature gate %s), so the pool has fewer nodes than replicas until then",
			l.AtATime, english.Plural(l.Nodes, "outdated node", ""), TerminateFirst)
	case terminatesFirst:
		return words + fmt.Sprintf("Karpenter terminates an outdated node before it launches the replacement (feature gate %s)", TerminateFirst)
	case l.Nodes > 0:
		return words + fmt.Sprintf("Karpenter replaces none of %s: %s", english.Plural(l.Nodes, "outdated node", ""), l.correct())
	}
	return words + "Karpenter replaces no outdated node: " + l.correct()
}

// correct is what a person does about it.
func (l NodeLimit) correct() string {
	return fmt.Sprintf("set it to at least %d, or enable feature gate %s (Karpenter 1.15)", l.Replicas+1, TerminateFirst)
}

// Stuck returns why no node is replaced in a pool, for Paces.
func (l NodeLimit) Stuck() string {
	return fmt.Sprintf("limits.nodes %d leaves no room for one more", l.Limit)
}
