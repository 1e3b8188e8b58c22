package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestNodesOfARolloutThatIsTakenBack: each look names a revision and whether it writes, only sees, or finds an edit by
// another client; then the definition of the NodePool, and its nodes, each with its definition, and an x if it is being
// deleted, or a d if it has drifted.
func TestNodesOfARolloutThatIsTakenBack(t *testing.T) {
	const restart = "restart"
	for name, c := range map[string]struct {
		looks []string
		want  string
	}{
		"by a later commit":              {looks: []string{"A writes two 1=one 2=one", "B sees two 1=one 2=one", "C sees one 1=one 2=one"}, want: "2 of 2 of A by C"},
		"and said until another comes":   {looks: []string{"A writes two 1=one 2=one", "C sees one 1=one 2=one", "C sees one 1=one 2=one"}, want: "2 of 2 of A by C"},
		"of which nodes end later":       {looks: []string{"A writes two 1=one 2=one", "C sees one 1=one 2=one", "D sees one 1=one 3=one"}, want: "2 of 2 of A by C"},
		"after some were replaced":       {looks: []string{"A writes two 1=one 2=one 3=one", "B sees two 2=one 3=one 4=two", "C sees one 2=one 3=one 4=two"}, want: "2 of 3 of A by C"},
		"where others matched before":    {looks: []string{"A writes two 1=one 2=two 3=two", "B sees two 1=one 2=two 3=two", "C sees one 1=one 2=two 3=two"}, want: "1 of 1 of A by C"},
		"and others came since":          {looks: []string{"A writes two 1=one", "B sees two 1=one 2=two 3=two", "C sees one 1=one 2=two 3=two"}, want: "1 of 1 of A by C"},
		"some before a restart":          {looks: []string{"A writes two 1=one 2=one", "B sees two 2=one 3=two", restart, "B sees two 2=one 3=two", "C sees one 2=one 3=two"}, want: "1 of 2 of A by C"},
		"as one drains":                  {looks: []string{"A writes two 1=one 2=one", "B sees two 1=onex 2=one", "C sees one 1=onex 2=one"}, want: "1 of 2 of A by C"},
		"after a restart":                {looks: []string{"A writes two 1=one 2=one", restart, "B sees two 1=one 2=one", "C sees one 1=one 2=one"}, want: "2 of 2 of A by C"},
		"by the first after a restart":   {looks: []string{"A writes two 1=one 2=one", "B sees two 1=one 2=one", restart, "C begins two 1=one 2=one", "C sees one 1=one 2=one"}, want: "2 of 2 of A by C"},
		"a restart amid it tells no one": {looks: []string{"A writes two 1=one 2=one", restart, "C sees one 1=one 2=one"}},
		"changed further":                {looks: []string{"A writes two 1=one 2=one", "C writes three 1=one 2=one"}},
		"and then taken back":            {looks: []string{"A writes two 1=one 2=one", "C writes three 1=one 2=one", "D sees one 1=one 2=one"}, want: "2 of 2 of C by D"},
		"all were replaced":              {looks: []string{"A writes two 1=one 2=one", "B sees two 3=two 4=two", "C sees one 3=two 4=two"}},
		"between two looks":              {looks: []string{"A writes two 1=one 2=one", "C sees one 3=two 4=two"}},
		"edited by hand":                 {looks: []string{"A writes two 1=one 2=one", "B edited one 1=one 2=one"}},
		"and that is corrected":          {looks: []string{"A writes two 1=one 2=one", "B edited one 1=one 2=one", "B sees two 1=one 2=one"}},
		"its own commit":                 {looks: []string{"A writes two 1=one 2=one", "A sees one 1=one 2=one"}},
		"by no commit":                   {looks: []string{"A writes two 1=twod 2=two", "B sees two 1=twod 2=two", "C sees two 1=two 2=two"}},
		"and applied again":              {looks: []string{"A writes two 1=one 2=one", "C sees one 1=one 2=one", "C sees two 1=one 2=one"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := rolledWorld{t: t, memory: &rollout.Memory{}, now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)}
			for _, look := range c.looks {
				if look == restart {
					w.memory = &rollout.Memory{}
					continue
				}
				w.look(look)
			}
			got := ""
			if r := w.restored; r.Nodes > 0 {
				got = fmt.Sprintf("%d of %d of %s by %s", r.Nodes, r.All, r.Revision, r.By)
			}
			if got != c.want || w.restored.Left != 0 {
				t.Errorf("%q, want %q, and %d left", got, c.want, w.restored.Left)
			}
		})
	}
}

// TestAPartOfARolloutThatIsTakenBack shows that the nodes of the other pool are still replaced.
func TestAPartOfARolloutThatIsTakenBack(t *testing.T) {
	w := rolledWorld{t: t, memory: &rollout.Memory{}, now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), other: "two"}
	w.look("A writes two 1=one other-2=one")
	w.look("C sees one 1=one other-2=one")
	if want := (rollout.Restored{Revision: "A", By: "C", All: 2, Nodes: 1, Left: 1}); w.restored != want {
		t.Errorf("%+v, want %+v", w.restored, want)
	}
	w.look("D sees one 1=one other-3=two")
	if want := (rollout.Restored{Revision: "A", By: "C", All: 2, Nodes: 1}); w.restored != want {
		t.Errorf("%+v, want %+v", w.restored, want)
	}
}

// TestARolloutOfAPoolThatLeaves continues while the removal is held, and again when the pool is restored in Git after
// the removal had started, as the rollout of the commit that has outdated the nodes.
func TestARolloutOfAPoolThatLeaves(t *testing.T) {
	w := rolledWorld{t: t, memory: &rollout.Memory{}, now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)}
	says := func() string {
		if w.rollout == nil {
			return "none"
		}
		return fmt.Sprintf("%d outdated by %q", w.rollout.Outdated, w.rollout.Revision)
	}
	const rolls = `2 outdated by "A"`
	for _, step := range []struct {
		look, want string
		after      time.Duration
	}{
		{look: "A writes two 1=oned 2=oned", want: rolls},
		{look: "A sees two 1=oned 2=oned", want: rolls, after: time.Hour},
		{look: "B leaves two 1=oned 2=oned", want: rolls},
		{look: "B removes two 1=oned 2=oned", want: "none"},
		{look: "C sees two 1=oned 2=oned", want: rolls},
		{look: "C sees two 3=two 4=two", want: "none"},
		{look: "C sees two 3=twod 4=two", want: `1 outdated by ""`}, // another node, by no commit
	} {
		w.now = w.now.Add(step.after)
		if w.look(step.look); says() != step.want {
			t.Errorf("%s: %s, want %s", step.look, says(), step.want)
		}
	}
}

// rolledWorld is a NodePool, and another one if it has a definition, with a series of looks.
type rolledWorld struct {
	t        *testing.T
	memory   *rollout.Memory
	now      time.Time
	other    string
	rollout  *v1alpha1.Rollout
	restored rollout.Restored
}

func (w *rolledWorld) look(line string) {
	words := strings.Fields(line)
	revision, does, definition := words[0], words[1], words[2]
	w.now = w.now.Add(time.Second)
	live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
	var pools []rollout.Pool
	for name, generation := range map[string]string{"a": definition, "other": w.other} {
		if generation == "" {
			continue
		}
		object := plan.NewObject(&unstructured.Unstructured{Object: made(w.t, name, generation)})
		pools = append(pools, rollout.Pool{Name: name, Live: object})
		live.Objects[render.Ref{Kind: render.NodePool, Name: name}] = object
	}
	for _, word := range words[3:] {
		live.NodeClaims = append(live.NodeClaims, madeBy(w.t, word))
	}
	change := plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: "a"}, Action: plan.Update}
	r := rollout.Rollouts{Live: live, Pools: pools, Events: &spoken{}, Before: w.rollout, Reported: w.rollout, Revision: revision, Now: w.now, Memory: w.memory}
	switch does {
	case "begins":
		r.Changes = []plan.Change{change}
		r.Begin(&v1alpha1.NodeSyncStatus{})
		return
	case "leaves": // Git no longer has it, and its removal is held
		r.Pools, r.Leaving = nil, []*plan.Object{live.Objects[change.Ref]}
	case "removes":
		r.Pools = nil
	case "edited":
		change.Drift, change.Edited = true, []plan.Field{{Path: "spec.template.metadata.labels.generation"}}
		r.Changes = []plan.Change{change}
	case "writes":
		change.Effect, change.Nodes, change.UpTo, change.DriftReasons = plan.EffectReplace, 1, true, []string{"SubnetDrift"}
		r.Changes = []plan.Change{change}
	}
	looked := r.Look(w.t.Context())
	w.rollout, w.restored = looked.Rollout, looked.Restored
}

// made returns a NodePool of a generation.
func made(t *testing.T, name, generation string) map[string]any {
	t.Helper()
	return map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": render.NodePool,
		"metadata": map[string]any{"name": name, "uid": name, "resourceVersion": generation},
		"spec":     map[string]any{"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"generation": generation}}}},
	}
}

// madeBy returns a NodeClaim, of the other NodePool if its name says so.
func madeBy(t *testing.T, word string) plan.NodeClaim {
	t.Helper()
	name, generation, _ := strings.Cut(word, "=")
	generation, deleting := strings.CutSuffix(generation, "x")
	generation, drifted := strings.CutSuffix(generation, "d")
	pool := "a"
	if strings.HasPrefix(name, "other-") {
		pool = "other"
	}
	var typed karpv1.NodePool
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(made(t, pool, generation), &typed); err != nil {
		t.Fatal(err)
	}
	claim := plan.NodeClaim{Name: name, UID: types.UID(name), Pool: pool, Class: "c", ProviderID: "aws:///a/" + name, Deleting: deleting, Hashes: plan.HashesOf(map[string]string{
		karpv1.NodePoolHashAnnotationKey: typed.Hash(), karpv1.NodePoolHashVersionAnnotationKey: karpv1.NodePoolHashVersion,
	})}
	if drifted {
		claim.Drifted, claim.DriftReason = true, "AMIDrift"
	}
	return claim
}
