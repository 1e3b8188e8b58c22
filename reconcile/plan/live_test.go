package plan_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// comparing is a schema that counts the compared objects.
type comparing struct {
	*applytest.Server
	compared, validated atomic.Int64
}

func (c *comparing) FieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error) {
	c.compared.Add(1)
	return c.Server.FieldSet(object)
}

func (c *comparing) ValidateTransition(ctx context.Context, object, old *unstructured.Unstructured) field.ErrorList {
	c.validated.Add(1)
	return c.Server.ValidateTransition(ctx, object, old)
}

// TestWhatIsHeldIsComparedOnce: while the guard holds a change, NodeClaims trigger one reconcile after another.
func TestWhatIsHeldIsComparedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change              func(t *testing.T, c *drawnCluster, set *render.Set)
		compared, validated int64
	}{
		"nothing": {func(*testing.T, *drawnCluster, *render.Set) {}, 0, 0},
		"one is edited": {func(t *testing.T, c *drawnCluster, _ *render.Set) {
			c.edit(t, poolRef("b"), "kubectl-edit", "7", "spec", "limits", "cpu")
		}, 1, 1},
		"one is another object": {func(t *testing.T, c *drawnCluster, set *render.Set) {
			set.Objects[1] = c.Definition(t, pool("a", "default", "weight: 5"))
		}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
			set, schema := c.set(t, class("default"), pool("a", "default", "weight: 3"), pool("b", "default", "weight: 3")), &comparing{Server: c.Server}
			first, err := plan.Make(t.Context(), set, plan.Live{Objects: plan.NewObjects(c.Objects())}, c.policy, schema)
			if err != nil || len(first.Changes) != 2 {
				t.Fatalf("%d changes, want 2: %v", len(first.Changes), err)
			}
			tc.change(t, c, set)
			schema.compared.Store(0)
			schema.validated.Store(0)
			second, err := plan.Make(t.Context(), set, plan.Live{Objects: plan.NewObjects(c.Objects()), Memo: first.Memo}, c.policy, schema)
			if err != nil || len(second.Changes) != 2 {
				t.Fatalf("%d changes, want 2: %v", len(second.Changes), err)
			}
			if compared, validated := schema.compared.Load(), schema.validated.Load(); compared != tc.compared || validated != tc.validated {
				t.Errorf("%d objects were compared and %d validated, want %d and %d", compared, validated, tc.compared, tc.validated)
			}
		})
	}
}

func TestWhatIsCleanIsComparedOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(t *testing.T, c *drawnCluster, set *render.Set, live *plan.Live)
		want   int64
	}{
		"nothing": {func(*testing.T, *drawnCluster, *render.Set, *plan.Live) {}, 0},
		"one is another object, and equal": {func(t *testing.T, c *drawnCluster, set *render.Set, _ *plan.Live) {
			set.Objects[1] = c.Definition(t, pool("a", "default"))
		}, 1},
		"one is edited": {func(t *testing.T, c *drawnCluster, _ *render.Set, _ *plan.Live) {
			c.edit(t, poolRef("b"), "kubectl-edit", "7", "spec", "limits", "cpu")
		}, 1},
		"the status of one": {func(t *testing.T, c *drawnCluster, _ *render.Set, _ *plan.Live) {
			c.edit(t, poolRef("b"), "karpenter", map[string]any{"cpu": "1"}, "status", "resources")
		}, 1},
		"one is made again": {func(t *testing.T, c *drawnCluster, _ *render.Set, _ *plan.Live) {
			c.Delete(poolRef("b"))
			c.have(t, owner, pool("b", "default"))
		}, 1},
		"a removal of one": {func(_ *testing.T, c *drawnCluster, _ *render.Set, live *plan.Live) {
			c.removal(poolRef("b"), v1alpha1.RemovalPacing, "r1")
			live.Removals = c.live.Removals
		}, 1},
		"another NodeSync": {func(_ *testing.T, c *drawnCluster, _ *render.Set, _ *plan.Live) { c.policy.Owner = other }, 3},
		"no memo":          {func(_ *testing.T, _ *drawnCluster, _ *render.Set, live *plan.Live) { live.Memo = plan.Memo{} }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			texts := []string{class("default"), pool("a", "default"), pool("b", "default")}
			c.have(t, owner, texts...)
			set, schema := c.set(t, texts...), &comparing{Server: c.Server}
			first, err := plan.Make(t.Context(), set, plan.Live{Objects: plan.NewObjects(c.Objects())}, c.policy, schema)
			if err != nil {
				t.Fatal(err)
			}
			live := plan.Live{Memo: first.Memo}
			tc.change(t, c, set, &live)
			live.Objects = plan.NewObjects(c.Objects())
			schema.compared.Store(0)
			if _, err := plan.Make(t.Context(), set, live, c.policy, schema); err != nil {
				t.Fatal(err)
			}
			if got := schema.compared.Load(); got != tc.want {
				t.Errorf("%d objects were compared, want %d", got, tc.want)
			}
		})
	}
}

// TestAMemoIsOfOneSchema: with another schema an object has other fields.
func TestAMemoIsOfOneSchema(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"))
	set, another := c.set(t, class("default")), &comparing{Server: c.Server}
	first, err := plan.Make(t.Context(), set, plan.Live{Objects: plan.NewObjects(c.Objects())}, c.policy, c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plan.Make(t.Context(), set, plan.Live{Objects: plan.NewObjects(c.Objects()), Memo: first.Memo}, c.policy, another); err != nil {
		t.Fatal(err)
	}
	if got := another.compared.Load(); got != 1 {
		t.Errorf("%d objects were compared by the other schema, want 1", got)
	}
}

// happens makes random changes to the world of one Plan.
func (w *world) happens(t *rapid.T, server *applytest.Server) {
	for range rapid.IntRange(0, 4).Draw(t, "events") {
		i := rapid.IntRange(0, len(w.set.Objects)-1).Draw(t, "object")
		switch rapid.SampledFrom([]string{"render", "edit", "terminate", "release", "record", "policy"}).Draw(t, "event") {
		case "render":
			text := class("default", "userData: "+rapid.SampledFrom([]string{"one", "two"}).Draw(t, "text"))
			if name := w.set.Objects[i].Ref; name.Kind == render.NodePool {
				text = pool(name.Name, "default", rapid.SampledFrom([]string{"", "weight: 3"}).Draw(t, "text"))
			}
			w.set.Objects[i] = server.Definition(t, text)
		case "edit":
			if ref := w.set.Objects[i].Ref; server.Object(ref) != nil {
				server.Edit(t, ref, "kubectl-edit", func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{v1alpha1.OwnerLabel: "nobody"}) })
			}
		case "terminate":
			if ref := w.set.Objects[i].Ref; server.Object(ref) != nil {
				server.Terminate(ref)
			}
		case "release":
			w.live.Removals = nil
		case "record":
			if object := server.Object(w.set.Objects[i].Ref); object != nil {
				w.live.Removals = append(w.live.Removals, v1alpha1.Removal{Kind: object.GetKind(), Name: object.GetName(), UID: object.GetUID(), Phase: v1alpha1.RemovalPacing})
			}
		case "policy":
			w.policy.Owner, w.policy.OtherSyncs = other, []plan.OtherSync{{Owner: owner}}
		}
	}
	w.live.Objects = plan.NewObjects(server.Objects())
}

// sameWords compares errors by their message.
var sameWords = cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })

// TestAMemoChangesNoPlan: whatever happens between two Plans, the results of the first only save work.
func TestAMemoChangesNoPlan(t *testing.T) {
	server := applytest.New(t)
	property.Check(t, func(t *rapid.T) {
		w := newWorld(t, server)
		memo := w.plan(t, server).Memo
		for range 2 {
			w.happens(t, server)
			w.live.Memo = plan.Memo{}
			without := w.plan(t, server)
			w.live.Memo = memo
			with := w.plan(t, server)
			if diff := cmp.Diff(without, with, cmpopts.IgnoreFields(plan.Plan{}, "Memo"), cmpopts.IgnoreUnexported(plan.Candidate{}, plan.Change{}), sameWords); diff != "" {
				t.Fatalf("another Plan (-without +with):\n%s", diff)
			}
			memo = with.Memo
		}
	})
}

// TestTheSetAgainstItselfIsEmpty: a fully applied Set needs no change.
func TestTheSetAgainstItselfIsEmpty(t *testing.T) {
	server := applytest.New(t)
	property.Check(t, func(t *rapid.T) {
		w := newWorld(t, server)
		server.Reset()
		for _, object := range w.set.Objects {
			if err := server.ApplyAs(t.Context(), plan.Desired(object, owner), v1alpha1.FieldManager, true); err != nil {
				t.Fatal(err)
			}
		}
		w.live = plan.Live{Objects: plan.NewObjects(server.Objects())}
		if p := w.plan(t, server); !p.Empty() {
			t.Fatalf("still to do: %v", script(p))
		}
	})
}
