package apply_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/render"
)

// mutating changes what it receives, as a mutating webhook or policy does.
type mutating struct {
	*cluster
	change map[string]any
}

func (m mutating) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if err := m.cluster.Patch(ctx, object, patch, options...); err != nil {
		return err
	}
	answer := object.(*unstructured.Unstructured)
	if answer.GetKind() != render.NodePool {
		return nil
	}
	for path, value := range m.change {
		if err := unstructured.SetNestedField(answer.Object, value, strings.Split(path, ".")...); err != nil {
			return err
		}
	}
	return nil
}

// TestWhatComesBackOtherwise: a field that a webhook or policy of the cluster changes is not applied; a field that it
// adds is allowed.
func TestWhatComesBackOtherwise(t *testing.T) {
	cases := map[string]struct {
		change map[string]any
		says   string
	}{
		"nothing":          {},
		"a field is added": {change: map[string]any{"spec.weight": int64(7)}},
		"a taint is added": {change: map[string]any{"spec.template.spec.taints": []any{map[string]any{"key": "x", "effect": "NoSchedule"}}}},
		"a field is changed": {
			change: map[string]any{"spec.limits.cpu": "77"},
			says:   `apply NodePool/general: spec.limits.cpu is "200" in Git and "77" after the apply: a mutating webhook or policy of this cluster changes it`,
		},
		"the label is taken off": {
			change: map[string]any{"metadata.labels": map[string]any{}},
			says:   "metadata.labels[plumbline.dev/nodesync]",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			changes := c.plan(t, class, poolWithoutLimits+"  limits: {cpu: \"200\"}\n").Changes
			result := apply.Apply(t.Context(), mutating{cluster: c, change: tc.change}, changes, apply.Options{Uncached: c, Arrivals: &apply.Arrivals{}, Owner: owner, Concurrency: 8})
			var mutated *apply.MutatedError
			if tc.says == "" {
				if result.Err() != nil || len(result.Written) != 2 {
					t.Fatalf("written %d, %v", len(result.Written), result.Err())
				}
				return
			}
			if !errors.As(result.Err(), &mutated) || !strings.Contains(mutated.Error(), tc.says) || len(result.Written) != 1 {
				t.Errorf("written %d, %v", len(result.Written), result.Err())
			}
		})
	}
}
