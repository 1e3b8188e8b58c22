package preview_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/preview"
	"github.com/plumbline-dev/plumbline/render"
)

func poolOf(name, weight string) map[string]any {
	return map[string]any{"kind": "NodePool", "metadata": map[string]any{"name": name}, "spec": map[string]any{"weight": weight}, "status": map[string]any{"seen": name}}
}

// TestCommitOfAPlan has what the guard holds be in it, and what is refused not.
func TestCommitOfAPlan(t *testing.T) {
	change := func(name string, action plan.Action, err error) plan.Change {
		desired := &unstructured.Unstructured{Object: poolOf(name, "after")}
		return plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: name}, Action: action, Err: err, Object: render.Object{Desired: desired}}
	}
	uncertain := change("uncertain", plan.Update, nil)
	uncertain.Effect, uncertain.Nodes, uncertain.UpTo = plan.EffectReplace, 3, true
	made := &plan.Plan{
		Changes:  []plan.Change{change("held", plan.Hold, nil), change("refused", plan.Refuse, errors.New("no")), change("new", plan.Create, nil), uncertain},
		Removals: []plan.Candidate{{Ref: render.Ref{Kind: render.NodePool, Name: "gone"}, Held: true}},
	}
	live := plan.Live{NodeClaims: []plan.NodeClaim{{UID: "1", Pool: "gone"}, {UID: "2", Pool: "held"}}}
	commit, notes := preview.CommitOf(made, live, []map[string]any{poolOf("held", "before"), poolOf("refused", "before"), poolOf("gone", "before"), poolOf("uncertain", "before"), poolOf("other", "before")})
	var got []string
	for _, definition := range commit.Definitions {
		object := unstructured.Unstructured{Object: definition}
		weight, _, _ := unstructured.NestedString(object.Object, "spec", "weight")
		seen, _, _ := unstructured.NestedString(object.Object, "status", "seen")
		got = append(got, object.GetName()+" "+weight+" "+seen)
	}
	want := []string{"held after held", "refused before refused", "uncertain after uncertain", "other before other", "new after "}
	if !slices.Equal(got, want) {
		t.Errorf("definitions: %q", got)
	}
	if len(commit.Touched) != 1 || !commit.Touched["1"] {
		t.Errorf("touched: %v", commit.Touched)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "NodePool/uncertain: up to 3 more nodes") {
		t.Errorf("notes: %q", notes)
	}
}
