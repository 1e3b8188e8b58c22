package simulate_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/render"
)

func poolOf(name, weight string) map[string]any {
	return map[string]any{"kind": "NodePool", "metadata": map[string]any{"name": name}, "spec": map[string]any{"weight": weight}, "status": map[string]any{"seen": name}}
}

// TestCommitOfAPlan checks that the result contains what the guard holds, but not what is refused.
func TestCommitOfAPlan(t *testing.T) {
	change := func(name string, action plan.Action, err error) plan.Change {
		desired := &unstructured.Unstructured{Object: poolOf(name, "after")}
		return plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: name}, Action: action, Err: err, Object: render.Object{Desired: desired}}
	}
	uncertain := change("uncertain", plan.Update, nil)
	uncertain.Effect, uncertain.Nodes, uncertain.UpTo = plan.EffectReplace, 3, true
	scaled := change("scaled", plan.Update, nil)
	scaled.Effect, scaled.Nodes = plan.EffectDrain, 2
	made := &plan.Plan{
		Changes:  []plan.Change{change("held", plan.Hold, nil), change("refused", plan.Refuse, errors.New("no")), change("new", plan.Create, nil), uncertain, scaled},
		Removals: []plan.Candidate{{Ref: render.Ref{Kind: render.NodePool, Name: "gone"}, Held: true}},
	}
	made.Removals = append(made.Removals, plan.Candidate{Ref: render.Ref{Kind: render.NodePool, Name: "other"}, Orphan: true})
	live := plan.Live{NodeClaims: []plan.NodeClaim{{UID: "1", Pool: "gone"}, {UID: "2", Pool: "held"}, {UID: "3", Pool: "other"}}}
	commit, notes := simulate.CommitOf(made, live, []map[string]any{poolOf("held", "before"), poolOf("refused", "before"), poolOf("gone", "before"), poolOf("uncertain", "before"), poolOf("other", "before")})
	want := []string{"held after held", "refused before refused", "uncertain after uncertain", "other before other", "new after ", "scaled after "}
	if got := said(commit); !slices.Equal(got, want) {
		t.Errorf("definitions: %q", got)
	}
	if len(commit.Touched) != 1 || !commit.Touched["1"] {
		t.Errorf("touched: %v", commit.Touched)
	}
	if len(notes) != 2 || !strings.Contains(notes[0], "NodePool/uncertain: up to 3 more nodes") ||
		notes[1] != "NodePool/scaled: 2 nodes are terminated because of fewer replicas, but it is unknown which, so their pods are not simulated" {
		t.Errorf("notes: %q", notes)
	}
}

func said(commit simulate.Commit) (definitions []string) {
	for _, definition := range commit.Definitions {
		object := unstructured.Unstructured{Object: definition}
		weight, _, _ := unstructured.NestedString(object.Object, "spec", "weight")
		seen, _, _ := unstructured.NestedString(object.Object, "status", "seen")
		definitions = append(definitions, object.GetName()+" "+weight+" "+seen)
	}
	return definitions
}

// TestWhatEnds checks which nodes a Plan terminates now: held changes terminate none, and a removal that has started
// terminates its own.
func TestWhatEnds(t *testing.T) {
	pool := func(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }
	made := &plan.Plan{
		Changes: []plan.Change{
			{Ref: pool("held"), Action: plan.Hold, Object: render.Object{Desired: &unstructured.Unstructured{Object: poolOf("held", "after")}}},
			{Ref: pool("changed"), Action: plan.Update, Effect: plan.EffectReplace, Nodes: 1, Object: render.Object{Desired: &unstructured.Unstructured{Object: poolOf("changed", "after")}}},
		},
		Removals: []plan.Candidate{{Ref: pool("gone"), Nodes: 1}, {Ref: pool("kept"), Nodes: 1, Held: true}, {Ref: pool("orphan"), Orphan: true, Leaves: 1}},
	}
	live := plan.Live{
		NodeClaims: []plan.NodeClaim{{UID: "1", Pool: "gone"}, {UID: "2", Pool: "kept"}, {UID: "3", Pool: "orphan"}, {UID: "4", Pool: "begun"}, {UID: "5", Pool: "changed"}},
		Removals:   []v1alpha1.Removal{{Kind: render.NodePool, Name: "begun", Phase: v1alpha1.RemovalDraining}},
	}
	var before []map[string]any
	for _, name := range []string{"held", "changed", "gone", "kept", "orphan", "begun"} {
		before = append(before, poolOf(name, "before"))
	}
	commit := simulate.Ending(made, live, before)
	if got, want := said(commit), []string{"held before held", "changed after changed", "kept before kept", "orphan before orphan"}; !slices.Equal(got, want) {
		t.Errorf("definitions: %q", got)
	}
	if len(commit.Touched) != 2 || !commit.Touched["1"] || !commit.Touched["4"] {
		t.Errorf("touched: %v", commit.Touched)
	}
}
