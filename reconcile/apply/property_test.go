package apply_test

import (
	"context"
	"flag"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

var kubeconfig = flag.String("apiserver", "", "kubeconfig of an API server: hold the properties against it too; it must have no NodePools that anybody needs, and no Karpenter")

// server is what the properties are checked against.
type server interface {
	apply.Client
	apply.Reader
	Reset()
	Objects() map[render.Ref]*unstructured.Unstructured
	Edit(t applytest.TB, ref render.Ref, manager string, change func(*unstructured.Unstructured))
	ApplyAs(ctx context.Context, object *unstructured.Unstructured, manager string, force bool) error
}

// knowledge provides the types of the definitions.
type knowledge interface {
	FieldSet(object *unstructured.Unstructured) (*fieldpath.Set, error)
	ValidateTransition(ctx context.Context, object, old *unstructured.Unstructured) field.ErrorList
	Default(object *unstructured.Unstructured)
}

func stop(t *rapid.T, s server, ref render.Ref) {
	growth := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"limits": map[string]any{"cpu": "0"}}}}
	growth.SetAPIVersion("karpenter.sh/v1")
	growth.SetKind(ref.Kind)
	growth.SetName(ref.Name)
	if err := s.ApplyAs(t.Context(), growth, v1alpha1.RemovalFieldManager, true); err != nil {
		t.Fatal(err)
	}
}

func planned(t *rapid.T, s server, known knowledge, set *render.Set) *plan.Plan {
	policy := plan.Policy{Owner: owner, Adopt: v1alpha1.AdoptIfIdentical, NewRevision: true}
	p, err := plan.Make(t.Context(), set, plan.Live{Objects: plan.NewObjects(s.Objects())}, policy, known)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t *rapid.T, s server, p *plan.Plan) {
	if err := apply.Apply(t.Context(), s, p.Changes, apply.Options{Uncached: s, Arrivals: &apply.Arrivals{}, Owner: owner, Concurrency: 2}).Err(); err != nil {
		t.Fatal(err)
	}
}

// unchangedMeansNoWrite: an apply changes an object if and only if the object has a Change, except for equal values.
func unchangedMeansNoWrite(s server, known knowledge) func(*rapid.T) {
	return func(t *rapid.T) {
		s.Reset()
		before := git(t, known, "before")
		write(t, s, planned(t, s, known, before))
		others(t, s)
		set := before
		switch rapid.SampledFrom([]string{"none", "other fields", "other words"}).Draw(t, "a new commit") {
		case "other fields":
			set = git(t, known, "after")
		case "other words":
			set = rewritten(t, before)
		}
		changes := map[render.Ref]plan.Change{}
		for _, change := range planned(t, s, known, set).Changes {
			changes[change.Ref] = change
		}
		for _, object := range set.Objects {
			live, change := s.Objects()[object.Ref], changes[object.Ref]
			if live == nil || change.Action == plan.Conflict || change.Takeover || change.Action == plan.TakeBack {
				continue
			}
			if err := s.ApplyAs(t.Context(), plan.Desired(object, owner), v1alpha1.FieldManager, true); err != nil {
				t.Fatal(err)
			}
			after := s.Objects()[object.Ref]
			moved := live.GetResourceVersion() != after.GetResourceVersion()
			moved = moved && !onlyRewritten(t, live, after)
			if writes := change.Action.Writes(); writes != moved {
				t.Fatalf("%s: planned a write: %t (%s), written: %t:\n%s", object.Ref, writes, change.Message, moved, cmp.Diff(live.Object, after.Object))
			}
		}
	}
}

// oneApplySettles: one Apply carries out a Plan, and then everything matches Git.
func oneApplySettles(s server, known knowledge) func(*rapid.T) {
	return func(t *rapid.T) {
		s.Reset()
		write(t, s, planned(t, s, known, git(t, known, "before")))
		webhook := others(t, s)
		set := git(t, known, "after")
		p := planned(t, s, known, set)
		write(t, s, p)
		becomesWhatWasSaid(t, s, p)
		conflicts := false
		for _, change := range planned(t, s, known, set).Changes {
			if change.Action != plan.Conflict {
				t.Fatalf("still to do: %s %s: %s", change.Action, change.Ref, change.Message)
			}
			conflicts = true
		}
		if webhook || conflicts {
			return
		}
		for _, object := range set.Objects {
			live := s.Objects()[object.Ref]
			if sameToKarpenter(t, object.Defaulted, live) {
				continue
			}
			if diff := cmp.Diff(bare(object.Defaulted.Object["spec"]), bare(live.Object["spec"])); diff != "" {
				t.Fatalf("%s is not as Git says (-git +live):\n%s", object.Ref, diff)
			}
		}
	}
}

// becomesWhatWasSaid: afterwards, an object matches its Change.
func becomesWhatWasSaid(t *rapid.T, s server, p *plan.Plan) {
	for i := range p.Changes {
		c := &p.Changes[i]
		if !c.Action.Writes() {
			continue
		}
		said, live := c.After(), s.Objects()[c.Ref]
		if diff := cmp.Diff(bare(said.Object["spec"]), bare(live.Object["spec"])); diff != "" && !sameToKarpenter(t, said, live) {
			t.Fatalf("%s %s is not what was said (-said +live):\n%s", c.Action, c.Ref, diff)
		}
		for key, value := range said.GetLabels() {
			if live.GetLabels()[key] != value {
				t.Fatalf("%s: label %s is %q, and %q was said", c.Ref, key, live.GetLabels()[key], value)
			}
		}
	}
}

// bare omits empty maps: a map stays when its last field is removed.
func bare(value any) any {
	fields, ok := value.(map[string]any)
	if !ok {
		return value
	}
	rest := map[string]any{}
	for key, field := range fields {
		if field = bare(field); field != nil {
			rest[key] = field
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return rest
}

func TestProperties(t *testing.T) {
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	known, err := schema.New(crds)
	if err != nil {
		t.Fatal(err)
	}
	servers := map[string]server{"in memory": applytest.New(t)}
	if *kubeconfig != "" {
		servers["API server"] = connect(t, *kubeconfig)
	}
	for name, s := range servers {
		t.Run(fmt.Sprintf("%s: unchanged means no write", name), property.Of(unchangedMeansNoWrite(s, known)))
		t.Run(fmt.Sprintf("%s: one apply settles", name), property.Of(oneApplySettles(s, known)))
	}
}
