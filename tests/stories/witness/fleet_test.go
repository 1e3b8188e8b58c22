package witness

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestContradicted finds each kind of contradiction, and none if there is none.
func TestContradicted(t *testing.T) {
	with := func(kind, name string, labels map[string]any, status map[string]any) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{"kind": kind, "metadata": map[string]any{"name": name, "labels": labels}, "status": status}}
	}
	is := func(condition, status string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": condition, "status": status, "reason": "Because"}}}
	}
	ours := map[string]any{ownerLabel: "plumbline-system.prod"}
	of := map[string]any{"karpenter.sh/nodepool": "general"}
	drained := with("NodeSync", "prod", nil, map[string]any{"openRemovals": int64(1)})
	drained.Object["spec"] = map[string]any{"drain": true}
	well := with("NodeSync", "prod", nil, is("Ready", "True"))
	tests := map[string]struct {
		sync unstructured.Unstructured
		seen Fleet
		want []string
	}{
		"all is well": {sync: well, seen: Fleet{
			Pools: []unstructured.Unstructured{with("NodePool", "general", ours, is("Ready", "True"))}, Billed: map[string]int{"general": 2, "": 2},
			Claims: []unstructured.Unstructured{with("NodeClaim", "general-1", of, is("Drifted", "False"))},
		}},
		"another NodeSync's": {sync: well, seen: Fleet{
			Pools:  []unstructured.Unstructured{with("NodePool", "general", map[string]any{ownerLabel: "x.y"}, is("Ready", "False"))},
			Claims: []unstructured.Unstructured{with("NodeClaim", "general-1", of, is("Drifted", "True"))},
		}},
		"an open removal":   {sync: with("NodeSync", "prod", nil, map[string]any{"openRemovals": int64(1)}), want: []string{"status.openRemovals is 1"}},
		"a drain":           {sync: drained},
		"not Ready":         {sync: with("NodeSync", "prod", nil, is("Ready", "False")), want: []string{"Ready is False, Because"}},
		"a pool not Ready":  {sync: well, seen: Fleet{Pools: []unstructured.Unstructured{with("NodePool", "general", ours, is("Ready", "False"))}}, want: []string{"NodePool/general is not Ready"}},
		"a class not Ready": {sync: well, seen: Fleet{Classes: []unstructured.Unstructured{with("EC2NodeClass", "default", ours, is("Ready", "False"))}}, want: []string{"EC2NodeClass/default is not Ready"}},
		"a drifted node": {sync: well, seen: Fleet{
			Pools:  []unstructured.Unstructured{with("NodePool", "general", ours, nil)},
			Claims: []unstructured.Unstructured{with("NodeClaim", "general-1", of, is("Drifted", "True"))},
		}, want: []string{"NodeClaim/general-1 is Drifted"}},
		"an instance without a pool": {sync: well, seen: Fleet{Billed: map[string]int{"batch": 2}}, want: []string{"EC2 bills 2 instances of NodePool/batch, which is gone"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.seen.contradicts(&Told{Sync: &test.sync, Owner: "plumbline-system.prod"}); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
