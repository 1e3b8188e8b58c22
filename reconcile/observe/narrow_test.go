package observe_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// TestNarrow: what is in Karpenter's namespace is watched only there, and what has no namespace everywhere.
func TestNarrow(t *testing.T) {
	for name, c := range map[string]struct {
		namespaces []string
		want       map[string][]string
	}{
		"none": {nil, map[string][]string{}},
		"one": {[]string{"karpenter"}, map[string][]string{
			"Deployment": {"karpenter"}, "Service": {"karpenter"}, "ServiceAccount": {"karpenter"}, "PodDisruptionBudget": {"karpenter"},
			"Role": {"karpenter", "kube-system"}, "RoleBinding": {"karpenter", "kube-system"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := observe.CacheOptions(&observe.Refusals{}, &render.Values{}).ByObject
			observe.Narrow(objects, c.namespaces)
			got := map[string][]string{}
			for object, rule := range objects {
				kind := object.GetObjectKind().GroupVersionKind().Kind
				if kind == "" {
					kind = fmt.Sprintf("%T", object)[len("*v1."):]
				}
				if len(rule.Namespaces) > 0 && kind != "Event" {
					got[kind] = slices.Sorted(maps.Keys(rule.Namespaces))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
		})
	}
}
