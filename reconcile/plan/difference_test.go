package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestFieldsThatGitDoesNotWrite: a field that makes nodes drift is drift, whichever manager added it; any other field
// is listed in Extra.
func TestFieldsThatGitDoesNotWrite(t *testing.T) {
	limited := pool("general", "default", `limits: {cpu: "100"}`)
	tests := map[string]struct {
		given func(*testing.T, *drawnCluster)
		git   []string
		want  []string
	}{
		"a field that a controller adds, and by which nodes are outdated": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.edit(t, poolRef("general"), "karpenter", []any{map[string]any{"key": "x", "effect": "NoSchedule"}}, "spec", "template", "spec", "taints")
				c.edit(t, poolRef("general"), "karpenter", int64(7), "spec", "weight")
				c.edit(t, classRef("default"), "some-operator", "Bottlerocket", "spec", "amiFamily")
				c.edit(t, classRef("default"), "some-operator", map[string]any{"team": "data"}, "spec", "tags")
			},
			git: []string{class("default"), limited},
			want: []string{
				"Update EC2NodeClass/default Differs spec.amiFamily:Bottlerocket→ spec.tags.team:data→ by some-operator takeover",
				`Update NodePool/general Differs spec.template.spec.taints:[{"effect":"NoSchedule","key":"x"}]→ by karpenter takeover`,
				"Extra NodePool/general: spec.weight (karpenter)",
			},
		},
		"a field that nobody owns, as a webhook adds it on the way": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.Edit(t, poolRef("general"), "nobody", func(o *unstructured.Unstructured) {
					if err := unstructured.SetNestedField(o.Object, int64(7), "spec", "weight"); err != nil {
						t.Fatal(err)
					}
				})
				c.disown(t, poolRef("general"), "nobody")
			},
			git:  []string{class("default"), limited},
			want: []string{"Extra NodePool/general: spec.weight (a webhook or policy)"},
		},
		"a field of an object whose managedFields were emptied": {
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("default"), limited)
				c.edit(t, poolRef("general"), "someone", int64(7), "spec", "weight")
				c.Edit(t, poolRef("general"), "someone", func(o *unstructured.Unstructured) { o.SetManagedFields([]metav1.ManagedFieldsEntry{}) })
			},
			git: []string{class("default"), limited},
			want: []string{
				"Adopt NodePool/general Unowned",
				"Extra NodePool/general: spec.weight (unknown (managedFields is empty))",
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			test.given(t, c)
			if diff := cmp.Diff(test.want, script(c.plan(t, test.git...))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestExtraFieldsOfWhatIsNotComparedAgain are still listed.
func TestExtraFieldsOfWhatIsNotComparedAgain(t *testing.T) {
	c := newCluster(t)
	texts := []string{class("default"), pool("general", "default")}
	c.have(t, owner, texts...)
	c.edit(t, poolRef("general"), "some-webhook", int64(7), "spec", "weight")
	set, live := c.set(t, texts...), plan.Live{Objects: plan.NewObjects(c.Objects())}
	for range 3 {
		made, err := plan.Make(t.Context(), set, live, c.policy, c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"Extra NodePool/general: spec.weight (some-webhook)"}, script(made)); diff != "" {
			t.Errorf("plan (-want +got):\n%s", diff)
		}
		live.Memo = made.Memo
	}
}
