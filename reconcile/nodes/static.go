package nodes

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// StaticGate is the feature gate without which Karpenter does nothing for static pools
// (sigs.k8s.io/karpenter pkg/operator/options/options.go).
const StaticGate = "StaticCapacity"

// replicas is how many nodes a pool wants that is in the cluster; static where it wants a number.
func (p Pool) replicas() (n int64, static bool) {
	if p.Live == nil {
		return 0, false
	}
	n, found, err := unstructured.NestedInt64(p.Live.Object, "spec", "replicas")
	return n, found && err == nil
}

// emptyStatic are the static pools that want nodes and have no NodeClaim.
func emptyStatic(pools []Pool, claims []plan.NodeClaim) []string {
	var empty []string
	for _, pool := range pools {
		if replicas, static := pool.replicas(); static && replicas > 0 {
			empty = append(empty, pool.Name)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	has := map[string]bool{}
	for i := range claims {
		has[claims[i].Pool] = true
	}
	return slices.DeleteFunc(empty, func(pool string) bool { return has[pool] })
}

// PassedOver adds static pools that Karpenter passes over, as StaticGate is off: such a
// pool is Ready, and no condition says why it is empty. off says whether a feature gate is;
// it is asked only where there is such a pool, and its error is returned.
func PassedOver(ctx context.Context, found []Launchless, pools []Pool, claims []plan.NodeClaim, off func(ctx context.Context, gate string) (bool, error)) ([]Launchless, error) {
	static := emptyStatic(pools, claims)
	if len(static) == 0 {
		return found, nil
	}
	if is, err := off(ctx, StaticGate); err != nil || !is {
		return found, err
	}
	const why = "it is static (spec.replicas), and Karpenter's feature gate " + StaticGate + " is off: set settings.featureGates.staticCapacity: true in the chart's values"
	all := slices.DeleteFunc(slices.Clone(found), func(l Launchless) bool { return slices.Contains(static, l.Pool) })
	for _, pool := range static {
		all = append(all, Launchless{Pool: pool, Why: why})
	}
	slices.SortFunc(all, func(a, b Launchless) int { return strings.Compare(a.Pool, b.Pool) })
	return all, nil
}
