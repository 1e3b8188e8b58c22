package apply_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/render"
)

// ignoring returns a pool whose weight and node labels others may change.
func ignoring(weight int64, memory string, labels map[string]any) string {
	object := unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": render.NodePool,
		"metadata": map[string]any{"name": general.Name, "annotations": map[string]any{
			render.IgnoreDifferencesAnnotation: "/spec/weight /spec/template/metadata/labels",
		}},
		"spec": map[string]any{
			"weight": weight,
			"limits": map[string]any{"memory": memory},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": render.EC2NodeClass, "name": "default"},
					"requirements": []any{map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []any{"spot"}}},
				},
			},
		},
	}}
	raw, _ := object.MarshalJSON()
	return string(raw)
}

// noted returns the pool without the annotation.
func noted(t *testing.T, text string) string {
	t.Helper()
	object := unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	object.SetAnnotations(nil)
	raw, _ := object.MarshalJSON()
	return string(raw)
}

// state are the compared fields of the pool.
type state struct {
	Weight, Memory any
	Labels         any
}

func (c *cluster) state(t *testing.T) state {
	t.Helper()
	live := c.Object(general)
	return state{spec(t, live, "weight"), spec(t, live, "limits", "memory"), spec(t, live, "template", "metadata", "labels")}
}

// TestFieldsThatOthersMayChange: an ignored field has Git's value in a new object, and afterwards the cluster's,
// whichever client wrote it last and whatever else is written.
func TestFieldsThatOthersMayChange(t *testing.T) {
	type labels = map[string]any
	team := labels{"team": "a", "tier": "b"}
	first := ignoring(50, "10Gi", team)
	weigh := func(by string, weight int64) func(*testing.T, *cluster) {
		return func(t *testing.T, c *cluster) {
			c.Edit(t, general, by, func(o *unstructured.Unstructured) { o.Object["spec"].(map[string]any)["weight"] = weight })
		}
	}
	edits := func(all ...func(*testing.T, *cluster)) func(*testing.T, *cluster) {
		return func(t *testing.T, c *cluster) {
			for _, edit := range all {
				edit(t, c)
			}
		}
	}
	memory := func(by string) func(*testing.T, *cluster) {
		return func(t *testing.T, c *cluster) {
			c.Edit(t, general, by, func(o *unstructured.Unstructured) {
				o.Object["spec"].(map[string]any)["limits"] = map[string]any{"memory": "1Gi"}
			})
		}
	}
	added := func(t *testing.T, c *cluster) {
		c.Edit(t, general, "kubectl-edit", func(o *unstructured.Unstructured) {
			o.Object["spec"].(map[string]any)["limits"] = map[string]any{"memory": "10Gi", "example.com/gpu": "1"}
		})
	}
	oneLabel := func(t *testing.T, c *cluster) {
		c.Edit(t, general, "kubectl-edit", func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, "z", "spec", "template", "metadata", "labels", "tier")
			unstructured.RemoveNestedField(o.Object, "spec", "weight")
		})
	}
	for name, tc := range map[string]struct {
		edit func(*testing.T, *cluster)
		// git is what is pushed after the edit; writes reports whether it is written.
		git    string
		writes bool
		want   state
	}{
		"created, and nothing is edited":       {edits(), first, false, state{int64(50), "10Gi", team}},
		"edited by a person":                   {weigh("kubectl-edit", 7), first, false, state{int64(7), "10Gi", team}},
		"edited by another controller":         {weigh("autotuner", 7), first, false, state{int64(7), "10Gi", team}},
		"edited by another applier":            {weigh("argocd-controller", 7), first, false, state{int64(7), "10Gi", team}},
		"another field is edited, too":         {edits(weigh("kubectl-edit", 7), memory("kubectl-edit")), first, true, state{int64(7), "10Gi", team}},
		"a field that Git lacks is added, too": {edits(weigh("kubectl-edit", 7), added), first, true, state{int64(7), "10Gi", team}},
		"Git changes another field":            {weigh("kubectl-edit", 7), ignoring(50, "20Gi", team), true, state{int64(7), "20Gi", team}},
		"Git changes it, and nobody has":       {edits(), ignoring(60, "10Gi", team), false, state{int64(50), "10Gi", team}},
		"Git changes it and another field":     {edits(), ignoring(60, "20Gi", labels{"team": "c"}), true, state{int64(50), "20Gi", team}},
		"taken away by hand, one of two":       {oneLabel, first, false, state{nil, "10Gi", labels{"team": "a", "tier": "z"}}},
		"taken away, and another is changed":   {oneLabel, ignoring(50, "20Gi", team), true, state{nil, "20Gi", labels{"team": "a", "tier": "z"}}},
		"the annotation goes":                  {weigh("kubectl-edit", 7), noted(t, first), true, state{int64(50), "10Gi", team}},
		"the annotation goes, of what is out":  {oneLabel, noted(t, first), true, state{int64(50), "10Gi", team}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, class, first)
			c.settled(t, class, first)
			tc.edit(t, c)
			if err := c.sync(t, class, tc.git).Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, c.state(t)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if wrote := len(c.Writes()) > 0; wrote != tc.writes {
				t.Errorf("written: %t, want %t", wrote, tc.writes)
			}
			c.settled(t, class, tc.git)
		})
	}
}

// TestAnIgnoredFieldThatChangesMeanwhile is not overwritten, not even with its old value.
func TestAnIgnoredFieldThatChangesMeanwhile(t *testing.T) {
	c := newCluster(t, class, ignoring(50, "10Gi", nil))
	planned := c.plan(t, class, ignoring(50, "20Gi", nil))
	c.Edit(t, general, "autotuner", func(o *unstructured.Unstructured) { o.Object["spec"].(map[string]any)["weight"] = int64(7) })
	result := apply.Apply(t.Context(), c, planned.Changes, apply.Options{Uncached: c, Arrivals: &apply.Arrivals{}, Owner: c.policy.Owner, Concurrency: 1})
	if err := result.Err(); !errors.As(err, new(*apply.StaleError)) {
		t.Errorf("error %v, want a StaleError", err)
	}
	if got := c.state(t); got.Weight != int64(7) {
		t.Errorf("weight %v, want 7", got.Weight)
	}
}

// TestAnIgnoredFieldThatAWebhookChanges does not stop further writes of the object.
func TestAnIgnoredFieldThatAWebhookChanges(t *testing.T) {
	c := newCluster(t)
	changes := c.plan(t, class, ignoring(50, "10Gi", nil)).Changes
	hooked := mutating{c, map[string]any{"spec.weight": int64(7)}}
	result := apply.Apply(t.Context(), hooked, changes, apply.Options{Uncached: c, Arrivals: &apply.Arrivals{}, Owner: c.policy.Owner, Concurrency: 1})
	if err := result.Err(); err != nil {
		t.Error(err)
	}
}
