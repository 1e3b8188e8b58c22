package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// InForce is what a NodeSync has in the cluster, as a Set, and a Plan that changes nothing of it: what
// goes by these goes on where nobody knows what Git wants, or where that is refused. What leaves is not
// in the Set, and the disruption budgets of its NodePools are without the brake.
func InForce(live Live, policy Policy, now time.Time) (*render.Set, *Plan, error) {
	policy.Now = now
	frozen, err := policy.frozen()
	if err != nil {
		return nil, nil, err
	}
	set := &render.Set{}
	for ref, object := range live.Objects {
		leaves := slices.ContainsFunc(live.Removals, func(r v1alpha1.Removal) bool { return r.Kind == ref.Kind && r.Name == ref.Name })
		if leaves || !policy.Owner.Owns(object) {
			continue
		}
		is, err := withoutBrake(object.Unstructured)
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", ref, err)
		}
		set.Objects = append(set.Objects, render.Object{Ref: ref, Desired: is, Defaulted: is})
	}
	slices.SortFunc(set.Objects, func(a, b render.Object) int { return cmp.Compare(a.Ref.String(), b.Ref.String()) })
	return set, &Plan{Frozen: frozen}, nil
}

// withoutBrake is an object as it lives, but for the brake.
func withoutBrake(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	entries, err := managed(live)
	if err != nil || !brakes(entries) {
		return live, err
	}
	object := live.DeepCopy()
	return object, unstructured.SetNestedSlice(object.Object, WithoutBrake(live), budgetsPath...)
}
