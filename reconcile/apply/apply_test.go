package apply_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
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
		// before is the content of Git at first; git if it is empty.
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

var otherOwner = plan.OwnerOf("plumbline-system", "another")

// plannedByAnother returns what another NodeSync plans at the same time.
func (c *cluster) plannedByAnother(t *testing.T, definitions ...string) *plan.Plan {
	t.Helper()
	another := *c
	another.policy.Owner = otherOwner
	return another.plan(t, definitions...)
}

func TestOfTwoNodeSyncsTheFirstKeepsAnObject(t *testing.T) {
	tests := map[string]struct {
		// before changes the cluster before both plan.
		before func(t *testing.T, c *cluster)
	}{
		"that both make": {func(*testing.T, *cluster) {}},
		"that both adopt": {func(t *testing.T, c *cluster) {
			c.Edit(t, general, "loader", func(o *unstructured.Unstructured) {
				o.Object["spec"] = c.Definition(t, pool).Desired.Object["spec"]
			})
		}},
		"that both adopt from a person": {func(t *testing.T, c *cluster) {
			c.Edit(t, general, "kubectl-create", func(o *unstructured.Unstructured) {
				o.Object["spec"] = c.Definition(t, pool).Desired.Object["spec"]
			})
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, class)
			test.before(t, c)
			first, second := c.plan(t, class, pool), c.plannedByAnother(t, pool)
			var arrivals apply.Arrivals
			options := apply.Options{Uncached: c, Arrivals: &arrivals, Owner: owner}
			if err := apply.Apply(t.Context(), c, first.Changes, options).Err(); err != nil {
				t.Fatal(err)
			}
			options.Owner = otherOwner
			var stale *apply.StaleError
			if err := apply.Apply(t.Context(), c, second.Changes, options).Err(); !errors.As(err, &stale) {
				t.Errorf("got %v, want a StaleError", err)
			}
			if !owner.Owns(c.Object(general)) {
				t.Errorf("taken by the second: %v", c.Object(general).GetLabels())
			}
		})
	}
}

// elsewhere is an API server as another NodeSync sees it: empty, and it accepts no write.
type elsewhere struct{}

func (elsewhere) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "nodepools"}, key.Name)
}

func (elsewhere) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

var errWritten = errors.New("the second wrote, too")

func (elsewhere) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errWritten
}

func TestAnObjectIsMadeByOneAtATime(t *testing.T) {
	c := newCluster(t, class)
	first, second := c.plan(t, class, pool), c.plannedByAnother(t, pool)
	options := apply.Options{Uncached: c, Arrivals: &apply.Arrivals{}, Owner: owner}
	var inside error
	c.Fault = func(applytest.Write) error { // the first has checked, and is about to write
		inside = apply.Apply(t.Context(), elsewhere{}, second.Changes, apply.Options{Uncached: elsewhere{}, Arrivals: options.Arrivals, Owner: otherOwner}).Err()
		return nil
	}
	if err := apply.Apply(t.Context(), c, first.Changes, options).Err(); err != nil {
		t.Fatal(err)
	}
	var stale *apply.StaleError
	if !errors.As(inside, &stale) {
		t.Errorf("the second got %v, want a StaleError", inside)
	}
	after := apply.Apply(t.Context(), elsewhere{}, second.Changes, apply.Options{Uncached: elsewhere{}, Arrivals: options.Arrivals, Owner: otherOwner}).Err()
	if !errors.Is(after, errWritten) {
		t.Errorf("a name is not free again when the first is done: %v", after)
	}
}

// asking counts the reads without a cache.
type asking struct {
	*applytest.Server
	gets, lists int
	unlisted    error
}

func (a *asking) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	a.gets++
	return a.Server.Get(ctx, key, object, options...)
}

func (a *asking) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	a.lists++
	if a.unlisted != nil {
		return a.unlisted
	}
	return a.Server.List(ctx, list, options...)
}

// fleet returns a class and some NodePools.
func fleet(pools int) []string {
	texts := []string{class}
	for i := range pools {
		texts = append(texts, strings.Replace(pool, "general", fmt.Sprintf("general-%d", i), 1))
	}
	return texts
}

func TestNamesAreAskedForOnceWhereManyArrive(t *testing.T) {
	for name, tc := range map[string]struct {
		pools       int
		unlisted    error
		gets, lists int
	}{
		"one":                      {1, nil, 2, 0},
		"some":                     {15, nil, 16, 0},
		"many":                     {16, nil, 1, 1},
		"many, and no right to it": {16, errWritten, 17, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			uncached := &asking{Server: c.Server, unlisted: tc.unlisted}
			options := apply.Options{Uncached: uncached, Arrivals: &apply.Arrivals{}, Owner: owner}
			if err := apply.Apply(t.Context(), c, c.plan(t, fleet(tc.pools)...).Changes, options).Err(); err != nil {
				t.Fatal(err)
			}
			if uncached.gets != tc.gets || uncached.lists != tc.lists {
				t.Errorf("%d gets and %d lists, want %d and %d", uncached.gets, uncached.lists, tc.gets, tc.lists)
			}
		})
	}
}

// TestOfManyArrivalsNoneIsTakenFromAnother: the names are listed once, and each is reserved until its object is
// created.
func TestOfManyArrivalsNoneIsTakenFromAnother(t *testing.T) {
	c := newCluster(t)
	first, second := c.plan(t, fleet(20)...), c.plannedByAnother(t, fleet(20)...)
	var arrivals apply.Arrivals
	var inside []error
	c.Fault = func(applytest.Write) error { // the first has listed, and is about to write
		inside = append(inside, apply.Apply(t.Context(), elsewhere{}, second.Changes[1:2], apply.Options{Uncached: elsewhere{}, Arrivals: &arrivals, Owner: otherOwner}).Err())
		return nil
	}
	options := apply.Options{Uncached: c, Arrivals: &arrivals, Owner: owner}
	if err := apply.Apply(t.Context(), c, first.Changes, options).Err(); err != nil {
		t.Fatal(err)
	}
	// The class is written first: the pools are not being created yet.
	if !errors.Is(inside[0], errWritten) {
		t.Errorf("before its stage the second got %v", inside[0])
	}
	var stale *apply.StaleError
	if !errors.As(inside[1], &stale) {
		t.Errorf("the second got %v, want a StaleError", inside[1])
	}
	options.Owner = otherOwner
	result := apply.Apply(t.Context(), c, second.Changes, options)
	if len(result.Written) > 0 || len(result.Failed) != len(second.Changes) {
		t.Errorf("the second wrote %d of %d", len(result.Written), len(second.Changes))
	}
}

// TestOverlaysAndBuffersAreApplied: overlays before the pools, and buffers after them, each in its namespace. Nothing is
// left to write then.
func TestOverlaysAndBuffersAreApplied(t *testing.T) {
	overlay := "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: prefer}\nspec: {requirements: [], price: \"1\"}\n"
	buffer := "apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {name: headroom, namespace: shop}\nspec: {podTemplateRef: {name: web}, replicas: 2}\n"
	c := newCluster(t)
	result := c.sync(t, buffer, pool, overlay, class)
	if err := result.Err(); err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, w := range result.Written {
		written = append(written, w.Ref.String())
	}
	want := []string{"EC2NodeClass/default", "NodeOverlay/prefer", "NodePool/general", "CapacityBuffer/shop/headroom"}
	if diff := cmp.Diff(want, written); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if live := c.Object(render.Ref{Kind: render.CapacityBuffer, Name: "shop/headroom"}); live == nil || live.GetNamespace() != "shop" || live.GetName() != "headroom" {
		t.Errorf("the buffer is %v", live)
	}
	c.settled(t, buffer, pool, overlay, class)
}
