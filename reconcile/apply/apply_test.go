package apply_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

func TestArrivalsComeClassesFirstWithTheirOwner(t *testing.T) {
	c := newCluster(t)
	result := c.sync(t, pool, class)
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]applytest.Write{applied(defaultRef, false), applied(general, false)}, c.Writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	for _, written := range result.Written {
		live := c.Object(written.Ref)
		if !owner.Owns(live) || !plan.Applied(live) {
			t.Errorf("%s has no owner", written.Ref)
		}
		if written.Object.GetResourceVersion() != live.GetResourceVersion() || written.Object.GetUID() != live.GetUID() {
			t.Errorf("%s: the Result is not what the cluster has", written.Ref)
		}
	}
	c.settled(t, pool, class)
}

func TestOneChangeIsOneWrite(t *testing.T) {
	c := newCluster(t, class, pool)
	changed := poolWithoutLimits + "  limits: {cpu: \"200\"}\n"
	if err := c.sync(t, class, changed).Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]applytest.Write{applied(general, true)}, c.Writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := spec(t, c.Object(general), "limits", "cpu"); got != "200" {
		t.Errorf("limits.cpu is %v", got)
	}
	c.settled(t, class, changed)
}

func TestALongNameIsKeptInAnAnnotation(t *testing.T) {
	c := newCluster(t)
	c.policy.Owner = plan.OwnerOf("plumbline-system", "a-name-that-nobody-would-call-short-and-yet-somebody-will-use")
	if err := c.sync(t, class).Err(); err != nil {
		t.Fatal(err)
	}
	live := c.Object(defaultRef)
	want := "plumbline-system.a-name-that-nobody-would-call-short-and-yet-somebody-will-use"
	if got := live.GetAnnotations()[v1alpha1.OwnerLabel]; got != want {
		t.Errorf("annotation is %q", got)
	}
	if !c.policy.Owner.Owns(live) {
		t.Errorf("not owned: %v", live.GetLabels())
	}
	c.settled(t, class)
}

func TestTheWholeSpecIsGits(t *testing.T) {
	tests := map[string]struct {
		// before is what Git said first; git where it is empty.
		before, git string
		edit        func(*testing.T, *cluster)
		writes      int
		check       func(*testing.T, *unstructured.Unstructured)
	}{
		"a value edited by hand is put right by one write": {
			git: pool,
			edit: func(t *testing.T, c *cluster) {
				c.Edit(t, general, "kubectl-edit", set(t, "1", "spec", "limits", "cpu"))
			},
			writes: 1,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				if got := spec(t, live, "limits", "cpu"); got != "100" {
					t.Errorf("limits.cpu is %v", got)
				}
			},
		},
		"a field added by hand goes, a label stays": {
			git: pool,
			edit: func(t *testing.T, c *cluster) {
				c.Edit(t, general, "kubectl-edit", func(o *unstructured.Unstructured) {
					set(t, "10Gi", "spec", "limits", "memory")(o)
					labels := o.GetLabels()
					labels["team"] = "data"
					o.SetLabels(labels)
				})
			},
			writes: 2,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				if got := spec(t, live, "limits", "memory"); got != nil {
					t.Errorf("limits.memory is still %v", got)
				}
				if live.GetLabels()["team"] != "data" {
					t.Error("someone's label is gone")
				}
			},
		},
		"a default that was changed by hand is the default again": {
			git: pool,
			edit: func(t *testing.T, c *cluster) {
				c.Edit(t, general, "k9s", set(t, "99h", "spec", "template", "spec", "expireAfter"))
			},
			writes: 1,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				if got := spec(t, live, "template", "spec", "expireAfter"); got != "720h" {
					t.Errorf("expireAfter is %v", got)
				}
			},
		},
		"a block that leaves Git leaves with all of its fields": {
			git:    pool,
			before: pool + "  disruption: {consolidateAfter: 5m, budgets: [{nodes: 5%}]}\n",
			writes: 1,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				want := map[string]any{"consolidateAfter": "0s", "consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": []any{map[string]any{"nodes": "10%"}}}
				if diff := cmp.Diff(want, spec(t, live, "disruption")); diff != "" {
					t.Errorf("disruption (-want +got):\n%s", diff)
				}
			},
		},
		"a field removed by hand comes back": {
			git: pool,
			edit: func(t *testing.T, c *cluster) {
				c.Edit(t, general, "kubectl-edit", func(o *unstructured.Unstructured) {
					unstructured.RemoveNestedField(o.Object, "spec", "limits")
				})
			},
			writes: 1,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				if got := spec(t, live, "limits", "cpu"); got != "100" {
					t.Errorf("limits.cpu is %v", got)
				}
			},
		},
		"a label of ours taken off comes back": {
			git: pool,
			edit: func(t *testing.T, c *cluster) {
				c.Edit(t, general, "kubectl-label", func(o *unstructured.Unstructured) { o.SetLabels(nil) })
			},
			writes: 1,
			check: func(t *testing.T, live *unstructured.Unstructured) {
				if !owner.Owns(live) {
					t.Error("no owner")
				}
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.before == "" {
				test.before = test.git
			}
			c := newCluster(t, class, test.before)
			if test.edit != nil {
				test.edit(t, c)
			}
			if err := c.sync(t, class, test.git).Err(); err != nil {
				t.Fatal(err)
			}
			if writes := c.Writes(); len(writes) != test.writes {
				t.Errorf("%d writes, want %d: %v", len(writes), test.writes, writes)
			}
			test.check(t, c.Object(general))
			c.settled(t, class, test.git)
		})
	}
}

func TestARunningPoolIsAdoptedAndThenGitsAlone(t *testing.T) {
	c := newCluster(t)
	for ref, text := range map[render.Ref]string{defaultRef: class, general: pool} {
		c.Edit(t, ref, "kubectl-client-side-apply", func(o *unstructured.Unstructured) {
			o.Object["spec"] = c.Definition(t, text).Desired.Object["spec"]
		})
	}
	before := c.Object(general)
	if err := c.sync(t, class, pool).Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]applytest.Write{applied(defaultRef, false), applied(general, false)}, c.Writes()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.Object["spec"], c.Object(general).Object["spec"]); diff != "" {
		t.Errorf("adoption changed the spec:\n%s", diff)
	}
	c.settled(t, class, pool)

	if err := c.sync(t, class, poolWithoutLimits).Err(); err != nil {
		t.Fatal(err)
	}
	if limits, ok := spec(t, c.Object(general), "limits").(map[string]any); ok && len(limits) > 0 {
		t.Errorf("limits are still %v: what Git no longer has is kept alive by kubectl's entry", limits)
	}
	c.settled(t, class, poolWithoutLimits)
}
