package rollout_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestStaticPoolsWithoutTheirGate shows that a commit that turns it off is reported with the pools that therefore get
// no nodes.
func TestStaticPoolsWithoutTheirGate(t *testing.T) {
	pool := func(name string, spec map[string]any) render.Object {
		return render.Object{Ref: render.Ref{Kind: render.NodePool, Name: name}, Defaulted: &unstructured.Unstructured{Object: map[string]any{"spec": spec}}}
	}
	set := &render.Set{Objects: []render.Object{
		pool("dynamic", map[string]any{}), pool("fixed", map[string]any{"replicas": int64(2)}), pool("none", map[string]any{"replicas": int64(0)}),
	}}
	for name, c := range map[string]struct {
		gates map[string]any
		warns bool
	}{
		"off":          {map[string]any{"staticCapacity": false}, true},
		"off, a text":  {map[string]any{"staticCapacity": "false"}, true},
		"on":           {map[string]any{"staticCapacity": true}, false},
		"another gate": {map[string]any{"nodeRepair": false}, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := rollout.SwitchedOff(rollout.Pools(set, nil), map[string]any{"settings": map[string]any{"featureGates": c.gates}})
			if (len(found) == 1) != c.warns || c.warns && !strings.HasPrefix(found[0], "NodePool/fixed is static") {
				t.Errorf("warns %q, want of one pool: %t", found, c.warns)
			}
		})
	}
}
