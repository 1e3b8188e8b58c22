package plan_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// writesOf formats everything that would be done, and the rules that apply, from the Plan and its inputs.
func writesOf(t rapid.TB, w world, p *plan.Plan) string {
	t.Helper()
	nodes := func(of render.Ref) []types.UID {
		var found []types.UID
		for _, c := range w.live.NodeClaims {
			if of == poolRef(c.Pool) || of == classRef(c.Class) {
				found = append(found, c.UID)
			}
		}
		slices.Sort(found)
		return found
	}
	var all []any
	for i := range p.Changes {
		c := &p.Changes[i]
		touched := slices.Clone(c.Touched())
		slices.Sort(touched)
		write := []any{c.Ref, c.Action, c.Force, c.Takeover, c.Taken, c.Fields, c.Effect, c.Nodes, c.UpTo, touched}
		if c.Live != nil {
			write = append(write, c.Live.GetUID())
		}
		if c.Action.Writes() {
			write = append(write, c.Object.Desired.Object)
		}
		all = append(all, write)
	}
	for _, r := range p.Removals {
		all = append(all, []any{"removes", r.Ref, r.UID, r.Held, r.Reason, r.MovesTo, nodes(r.Ref)})
	}
	for _, r := range p.Returned {
		all = append(all, []any{"returns", r.Kind, r.Name, r.UID})
	}
	raw, err := json.Marshal(append(all, w.policy.Guard, w.policy.Policies, w.policy.Released, w.policy.Karpenter))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// mutations change a world: the content of Git, the cluster, the nodes, or the rules; some of them do not change the
// writes.
func mutations(server *applytest.Server) map[string]func(*rapid.T, *world) {
	redefined := func(ref render.Ref, text string) func(*rapid.T, *world) {
		return func(t *rapid.T, w *world) {
			w.set.Objects = slices.DeleteFunc(slices.Clone(w.set.Objects), func(o render.Object) bool { return o.Ref == ref })
			if text != "" {
				w.set.Objects = append(w.set.Objects, server.Definition(t, text))
			}
		}
	}
	drawn := func(t *rapid.T) string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "of pool") }
	return map[string]func(*rapid.T, *world){
		"nothing":         func(*rapid.T, *world) {},
		"another order":   func(t *rapid.T, w *world) { w.live.NodeClaims = rapid.Permutation(w.live.NodeClaims).Draw(t, "nodes") },
		"no pool a":       redefined(poolRef("a"), ""),
		"limits of a":     redefined(poolRef("a"), pool("a", "default", "limits: {cpu: 1}")),
		"taints of a":     redefined(poolRef("a"), pool("a", "default", "weight: 10")),
		"tags of a class": redefined(classRef("default"), class("default", "tags: {team: b}")),
		"a node more": func(t *rapid.T, w *world) {
			of := drawn(t)
			w.live.NodeClaims = append(slices.Clone(w.live.NodeClaims), plan.NodeClaim{Name: of + "-new", UID: types.UID(of + "-new"), Pool: of, Class: "default"})
		},
		"a node of no pool": func(_ *rapid.T, w *world) {
			w.live.NodeClaims = append(slices.Clone(w.live.NodeClaims), plan.NodeClaim{Name: "x", UID: "x", Pool: "x", Class: "x"})
		},
		"a node less": func(_ *rapid.T, w *world) { w.live.NodeClaims = w.live.NodeClaims[:max(0, len(w.live.NodeClaims)-1)] },
		"another guard": func(t *rapid.T, w *world) {
			limit := rapid.Int32Range(0, 4).Draw(t, "another limit")
			w.policy.Guard.MaxRemovedPools = &limit
		},
		"a policy": func(t *rapid.T, w *world) {
			w.policy.Policies = []v1alpha1.Policy{{Name: "p", Expression: rapid.SampledFrom([]string{"plan.nodeSync == ''", "removal.name == 'a'", "change.nodes == 0"}).Draw(t, "policy"), Action: v1alpha1.PolicyHold}}
		},
		"a word":            func(_ *rapid.T, w *world) { w.policy.Released = map[types.UID]bool{"uid-1": true} },
		"a lost status":     func(_ *rapid.T, w *world) { w.policy.StatusLost = !w.policy.StatusLost },
		"another adoption":  func(_ *rapid.T, w *world) { w.policy.Adopt = v1alpha1.AdoptAlways },
		"reported drift":    func(_ *rapid.T, w *world) { w.policy.Drift, w.policy.NewRevision = v1alpha1.DriftReport, false },
		"another Karpenter": func(_ *rapid.T, w *world) { w.policy.Karpenter = &render.Karpenter{Version: "1.14.1"} },
		"a label by hand": func(t *rapid.T, w *world) {
			ref := poolRef(drawn(t))
			if w.live.Objects[ref] == nil {
				return
			}
			server.Edit(t, ref, "kubectl-annotate", func(o *unstructured.Unstructured) { o.SetAnnotations(map[string]string{"note": "nothing to us"}) })
			w.live.Objects = plan.NewObjects(server.Objects())
		},
		"an edit by hand": func(t *rapid.T, w *world) {
			ref := poolRef(drawn(t))
			if w.live.Objects[ref] == nil {
				return
			}
			server.Edit(t, ref, rapid.SampledFrom([]string{"kubectl-edit", "some-webhook"}).Draw(t, "by"), func(o *unstructured.Unstructured) {
				if err := unstructured.SetNestedField(o.Object, "5", "spec", "limits", "cpu"); err != nil {
					t.Fatal(err)
				}
			})
			w.live.Objects = plan.NewObjects(server.Objects())
		},
	}
}

// TestEqualDigestsEqualWrites: two Plans have the same Digest if and only if they do the same to the same nodes, under
// the same guard and with the same Karpenter.
func TestEqualDigestsEqualWrites(t *testing.T) {
	server := applytest.New(t)
	var same, differ int
	property.Check(t, func(t *rapid.T) {
		w := newWorld(t, server)
		for _, pool := range []string{"a", "b", "c"} {
			w.live.NodeClaims = append(w.live.NodeClaims, claims(pool, rapid.IntRange(0, 3).Draw(t, "nodes of "+pool))...)
		}
		first := w.plan(t, server)
		writes := writesOf(t, w, first)
		change := mutations(server)
		var changes []string
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			name := rapid.SampledFrom(sortedNames(change)).Draw(t, "change")
			changes = append(changes, name)
			change[name](t, &w)
		}
		second := w.plan(t, server)
		equalWrites := writesOf(t, w, second) == writes
		if equal := first.Digest == second.Digest; equal != equalWrites {
			t.Fatalf("after %q the digests are equal: %t, and the writes: %t\n%s\n%s", changes, equal, equalWrites, writes, writesOf(t, w, second))
		}
		if equalWrites {
			same++
		} else {
			differ++
		}
	})
	if same == 0 || differ == 0 {
		t.Errorf("%d pairs of Plans do the same, and %d do not", same, differ)
	}
}

func sortedNames(of map[string]func(*rapid.T, *world)) []string {
	var names []string
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestTheDigestHasEachInput: every field of the guard and of Karpenter's configuration in Git, including future ones,
// except the digests that a commit approves and settings that only affect rendering.
func TestTheDigestHasEachInput(t *testing.T) {
	server := applytest.New(t)
	digest := func(policy plan.Policy) string {
		policy.Offline = true
		p, err := plan.Make(t.Context(), &render.Set{Objects: []render.Object{server.Definition(t, class("default"))}}, plan.Live{}, policy, server)
		if err != nil {
			t.Fatal(err)
		}
		return p.Digest
	}
	seen := map[string]string{}
	look := func(name string, policy plan.Policy) {
		t.Helper()
		d := digest(policy)
		if twin, taken := seen[d]; taken {
			t.Errorf("%s and %s have one digest", twin, name)
		}
		seen[d] = name
	}
	look("an empty policy", plan.Policy{Karpenter: &render.Karpenter{}})
	for path, set := range leaves("Guard", reflect.TypeFor[v1alpha1.Guard]()) {
		policy := plan.Policy{Karpenter: &render.Karpenter{}}
		set(reflect.ValueOf(&policy.Guard).Elem())
		look(path, policy)
	}
	// Settings that only affect rendering count by their result.
	read := map[string]bool{"Karpenter.Approve[0]": true, "Karpenter.Nodes[0]": true, "Karpenter.IgnoreKinds[0]": true, "Karpenter.Substitute": true, "Karpenter.ValuesFiles[0]": true}
	empty := digest(plan.Policy{Karpenter: &render.Karpenter{}})
	for path, set := range leaves("Karpenter", reflect.TypeFor[render.Karpenter]()) {
		policy := plan.Policy{Karpenter: &render.Karpenter{}}
		set(reflect.ValueOf(policy.Karpenter).Elem())
		if read[path] {
			if digest(policy) != empty {
				t.Errorf("%s is part of the digest", path)
			}
			continue
		}
		look(path, policy)
	}
	if len(seen) < 20 {
		t.Errorf("only %d fields were set: %v", len(seen), seen)
	}
}

// leaves returns all nested fields of a type, each with a function that sets it.
func leaves(path string, of reflect.Type) map[string]func(reflect.Value) {
	found := map[string]func(reflect.Value){}
	add := func(at string, below reflect.Type, enter func(reflect.Value) reflect.Value) {
		for name, set := range leaves(at, below) {
			found[name] = func(v reflect.Value) { set(enter(v)) }
		}
	}
	switch {
	case of == reflect.TypeFor[intstr.IntOrString]():
		found[path] = func(v reflect.Value) { v.Set(reflect.ValueOf(intstr.FromInt32(7))) }
	case of.Kind() == reflect.Struct:
		for i := range of.NumField() {
			add(path+"."+of.Field(i).Name, of.Field(i).Type, func(v reflect.Value) reflect.Value { return v.Field(i) })
		}
	case of.Kind() == reflect.Pointer:
		add(path, of.Elem(), func(v reflect.Value) reflect.Value {
			v.Set(reflect.New(of.Elem()))
			return v.Elem()
		})
	case of.Kind() == reflect.Slice:
		add(path+"[0]", of.Elem(), func(v reflect.Value) reflect.Value {
			v.Set(reflect.MakeSlice(of, 1, 1))
			return v.Index(0)
		})
	case of.Kind() == reflect.Map:
		found[path] = func(v reflect.Value) {
			v.Set(reflect.MakeMap(of))
			value := reflect.New(of.Elem()).Elem()
			if of.Elem().Kind() == reflect.String {
				value.SetString("x")
			}
			v.SetMapIndex(reflect.ValueOf("x").Convert(of.Key()), value)
		}
	case of.Kind() == reflect.String:
		found[path] = func(v reflect.Value) { v.SetString("x") }
	case of.Kind() == reflect.Bool:
		found[path] = func(v reflect.Value) { v.SetBool(true) }
	case of.Kind() >= reflect.Int && of.Kind() <= reflect.Int64:
		found[path] = func(v reflect.Value) { v.SetInt(7) }
	default:
		panic(fmt.Sprintf("%s: a %s", path, of))
	}
	return found
}
