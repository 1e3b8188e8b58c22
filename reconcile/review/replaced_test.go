package review

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

func poolYAML(name, more, budgets string) string {
	return `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: ` + name + `, uid: ` + name + `, labels: {plumbline.dev/nodesync: fleet.prod}}
spec:
  template:
    ` + more + `
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
  disruption: {consolidateAfter: 0s, budgets: [{nodes: "` + budgets + `"}]}
`
}

// replacingPools is a Preview of a commit that makes all nodes of some pools outdated, ten in each.
func replacingPools(t *testing.T, guard v1alpha1.Guard, names ...string) *Preview {
	t.Helper()
	return previewOf(t, guard, func(name string) (before, after string) {
		return poolYAML(name, "metadata: {labels: {a: b}}", "20%"), poolYAML(name, "metadata: {labels: {a: c}}", "20%")
	}, names...)
}

// previewOf is a Preview of a commit that changes some pools of ten nodes each.
func previewOf(t *testing.T, guard v1alpha1.Guard, text func(name string) (before, after string), names ...string) *Preview {
	t.Helper()
	crds, _, err := schema.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	known, err := schema.New(crds)
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
			t.Fatal(err)
		}
		return object
	}
	live, set := map[render.Ref]*unstructured.Unstructured{}, &render.Set{Revision: "main@sha1:0123"}
	live[render.Ref{Kind: render.EC2NodeClass, Name: "default"}] = read("{apiVersion: karpenter.k8s.aws/v1, kind: EC2NodeClass, metadata: {name: default, uid: default}, spec: {}}")
	seen := &Preview{Rollout: v1alpha1.RolloutPolicy{Waves: &v1alpha1.RolloutWaves{Disabled: true}}}
	for _, name := range names {
		ref := render.Ref{Kind: render.NodePool, Name: name}
		before, after := text(name)
		live[ref] = read(before)
		known.Default(live[ref])
		desired := read(after)
		defaulted := desired.DeepCopy()
		known.Default(defaulted)
		set.Objects = append(set.Objects, render.Object{Ref: ref, Desired: desired, Defaulted: defaulted})
		for i := range 10 {
			id := fmt.Sprintf("%s-%d", name, i)
			seen.Live.NodeClaims = append(seen.Live.NodeClaims, plan.NodeClaim{Name: id, UID: types.UID(id), Pool: name, PoolUID: types.UID(name), Class: "default", Initialized: true})
		}
	}
	seen.Live.Objects, seen.Live.Served = plan.NewObjects(live), true
	policy := plan.Policy{Owner: plan.OwnerOf("fleet", "prod"), Adopt: v1alpha1.AdoptAlways, NewRevision: true, Now: time.Now(), Guard: guard}
	if seen.Plan, err = plan.Make(t.Context(), set, seen.Live, policy, known); err != nil {
		t.Fatal(err)
	}
	return seen
}

// TestNodesThatAreReplaced: how many of how many, why, in how many rounds at least, and what the guard holds.
func TestNodesThatAreReplaced(t *testing.T) {
	many, few := intstr.FromInt32(100), intstr.FromInt32(5)
	wide, narrow := v1alpha1.Guard{MaxDisruptedNodes: &many}, v1alpha1.Guard{MaxDisruptedNodes: &few}
	frozen := wide
	frozen.Freeze = []v1alpha1.GuardFreeze{{From: "2020-01-01", To: "2999-12-31", Reason: "audit"}}
	for name, c := range map[string]struct {
		allowed v1alpha1.Guard
		pools   []string
		state   report.State
		line    string
		row     string
		// launches are the launch durations of each pool's nodes, if known.
		launches map[string]time.Duration
	}{
		"one pool":    {wide, []string{"a"}, report.Success, "replaces 10 of 10 nodes in a (NodePoolDrifted), 5 rounds at least; no hold", "| `a` | 10 of 10 | Replace | `NodePoolDrifted` | `5 rounds at least` |", nil},
		"in minutes":  {wide, []string{"a"}, report.Success, "replaces 10 of 10 nodes in a (NodePoolDrifted), 5 rounds, ~12m at least; no hold", "| `a` | 10 of 10 | Replace | `NodePoolDrifted` | `5 rounds, ~12m at least` |", map[string]time.Duration{"a": 150 * time.Second}},
		"the slowest": {wide, []string{"a", "b"}, report.Success, "replaces 20 of 20 nodes in 2 pools (NodePoolDrifted), 5 rounds, ~50s at least; no hold", "| `b` | 10 of 10 | Replace | `NodePoolDrifted` | `5 rounds, ~50s at least` |", map[string]time.Duration{"a": time.Second, "b": 10 * time.Second}},
		"two pools":   {wide, []string{"a", "b"}, report.Success, "replaces 20 of 20 nodes in 2 pools (NodePoolDrifted), 5 rounds at least; no hold", "| `b` | 10 of 10 | Replace | `NodePoolDrifted` | `5 rounds at least` |", nil},
		"held":        {narrow, []string{"a"}, report.Failure, "held: NodePool/a (10 nodes)", "| `a` | 10 of 10 | held: Replace | `NodePoolDrifted` | `5 rounds at least` |", nil},
		"frozen":      {frozen, []string{"a"}, report.Success, "waits: NodePool/a (10 nodes): no node is removed or replaced within a year (spec.guard.freeze: audit)", "| `a` | 10 of 10 | waits: Replace | `NodePoolDrifted` | `5 rounds at least` |", nil},
	} {
		t.Run(name, func(t *testing.T) {
			seen := replacingPools(t, c.allowed, c.pools...)
			for i := range seen.Live.NodeClaims {
				seen.Live.NodeClaims[i].Launch = c.launches[seen.Live.NodeClaims[i].Pool]
			}
			r := Of(Input{Preview: seen, Now: time.Now()})
			if r.State != c.state || r.Line != c.line {
				t.Errorf("%s: %s, want %s: %s", r.State, r.Line, c.state, c.line)
			}
			text := r.Markdown(Title{NodeSync: "prod", Namespace: "fleet", Path: "clusters/eu/", Cluster: "eu", Commit: "c0ffee"}, report.MarkupOf("github"))
			for _, want := range []string{c.row, "in a checkout of `c0ffee`: `plumbline plan ./clusters/eu --against prod -n fleet --what-if --aws`\n", "```diff\n--- cluster/NodePool/a\n", "\n-        a: b\n+        a: c\n"} {
				if !strings.Contains(text, want) {
					t.Errorf("the comment lacks %q:\n%s", want, text)
				}
			}
			plain := r.Markdown(Title{NodeSync: "prod", Cluster: "eu", Commit: "c0ffee"}, report.MarkupOf("bitbucket"))
			if strings.Contains(plain, "<") || !strings.Contains(plain, "Objects that differ: ") || !strings.Contains(plain, "\n+        a: c\n") || !strings.Contains(text, "<details>") {
				t.Errorf("the comment where tags are shown as text:\n%s", plain)
			}
		})
	}
}

// TestReplacedInWaves: the line and the table show the waves, and how much longer they take.
func TestReplacedInWaves(t *testing.T) {
	many := intstr.FromInt32(100)
	seen := replacingPools(t, v1alpha1.Guard{MaxDisruptedNodes: &many}, "a")
	seen.Rollout = v1alpha1.RolloutPolicy{}
	r := Of(Input{Preview: seen, Now: time.Now()})
	if want := "replaces 10 of 10 nodes in a (NodePoolDrifted), 5 rounds at least; 4 waves, 40m more; no hold"; r.Line != want {
		t.Errorf("%s, want %s", r.Line, want)
	}
	text := r.Markdown(Title{NodeSync: "prod", Namespace: "fleet", Path: "clusters/eu/", Cluster: "eu", Commit: "c0ffee"}, report.MarkupOf("github"))
	if want := "| `5 rounds at least; 4 waves, 40m more` |"; !strings.Contains(text, want) {
		t.Errorf("the comment does not contain %q:\n%s", want, text)
	}
}

// TestAPoolThatNoInstanceTypeMeets replaces no node: neither the line nor the table nor the document counts rounds for
// it.
func TestAPoolThatNoInstanceTypeMeets(t *testing.T) {
	many := intstr.FromInt32(100)
	for name, c := range map[string]struct {
		unlaunchable []string
		line         string
		row          string
		rounds       []int
	}{
		"one of two": {[]string{"a"}, "no instance type meets a: no node is launched or replaced there; replaces 10 of 10 nodes in b (NodePoolDrifted), 5 rounds at least; no hold", "| `a` | 10 of 10 | Replace | `NodePoolDrifted` | `no instance type meets it` |", []int{0, 5}},
		"both":       {[]string{"a", "b"}, "no instance type meets a, b: no node is launched or replaced there; no hold", "| `b` | 10 of 10 | Replace | `NodePoolDrifted` | `no instance type meets it` |", []int{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			seen := replacingPools(t, v1alpha1.Guard{MaxDisruptedNodes: &many}, "a", "b")
			seen.Unlaunchable = c.unlaunchable
			r := Of(Input{Preview: seen, Now: time.Now()})
			if r.Line != c.line {
				t.Errorf("%q, want %q", r.Line, c.line)
			}
			text := r.Markdown(Title{NodeSync: "prod", Namespace: "fleet", Path: "clusters/eu/", Cluster: "eu", Commit: "c0ffee"}, report.MarkupOf("github"))
			if !strings.Contains(text, c.row) {
				t.Errorf("the comment does not contain %q:\n%s", c.row, text)
			}
			var rounds []int
			for _, pace := range Paces(seen.Plan, seen.Live, v1alpha1.RemovalPolicy{}, plan.Unlaunchable(seen.Unlaunchable, nil), time.Now()) {
				if rounds = append(rounds, pace.Rounds); pace.Unlaunchable != (pace.Rounds == 0) || pace.Unlaunchable && pace.AtLeast != 0 {
					t.Errorf("%+v", pace)
				}
			}
			if !slices.Equal(rounds, c.rounds) {
				t.Errorf("rounds %v, want %v", rounds, c.rounds)
			}
		})
	}
}

// TestNodesThatKarpenterMayConsolidate are in the line, in the table and in the notes: the comment includes what
// plumbline plan prints about a change.
func TestNodesThatKarpenterMayConsolidate(t *testing.T) {
	many, few := intstr.FromInt32(100), intstr.FromInt32(5)
	never := func(name string) (before, after string) {
		after = poolYAML(name, "metadata: {labels: {a: b}}", "20%")
		return strings.Replace(after, "consolidateAfter: 0s", "consolidateAfter: Never", 1), after
	}
	for name, c := range map[string]struct {
		limit *intstr.IntOrString
		pools []string
		state report.State
		line  string
		row   string
	}{
		"one pool":  {&many, []string{"a"}, report.Success, "lets Karpenter consolidate up to 10 of 10 nodes of a; no hold", "| `a` | up to 10 of 10 | Consolidate | `empty or underused` |"},
		"two pools": {&many, []string{"a", "b"}, report.Success, "lets Karpenter consolidate up to 20 nodes of 2 pools; no hold", "| `b` | up to 10 of 10 | Consolidate | `empty or underused` |"},
		"held":      {&few, []string{"a"}, report.Failure, "held: NodePool/a (up to 10 nodes)", "| `a` | up to 10 of 10 | held: Consolidate | `empty or underused` |"},
	} {
		t.Run(name, func(t *testing.T) {
			r := Of(Input{Preview: previewOf(t, v1alpha1.Guard{MaxDisruptedNodes: c.limit}, never, c.pools...), Now: time.Now()})
			if r.State != c.state || r.Line != c.line {
				t.Errorf("%s: %s, want %s: %s", r.State, r.Line, c.state, c.line)
			}
			text := r.Markdown(Title{NodeSync: "prod", Namespace: "fleet", Path: "clusters/eu/", Cluster: "eu", Commit: "c0ffee"}, report.MarkupOf("github"))
			for _, want := range []string{
				c.row,
				"- `NodePool/a: consolidateAfter Never to 0s: the time that Karpenter waits",
				"- `NodePool/a: Karpenter may consolidate up to 10 nodes more than before",
			} {
				if !strings.Contains(text, want) {
					t.Errorf("the comment has no %q:\n%s", want, text)
				}
			}
		})
	}
}
