package plan_test

import (
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

func TestForkOf(t *testing.T) {
	const fork = "1.14.0+acme.3"
	target := func(step v1alpha1.ChartStep) *v1alpha1.KarpenterStatus {
		return &v1alpha1.KarpenterStatus{Version: "1.14.0", Target: &v1alpha1.ChartTarget{Version: fork, Step: step}}
	}
	for name, c := range map[string]struct {
		k    *v1alpha1.KarpenterStatus
		want string
	}{
		"nothing":        {},
		"a release":      {k: &v1alpha1.KarpenterStatus{Version: "1.14.0"}},
		"a fork":         {k: &v1alpha1.KarpenterStatus{Version: fork}, want: fork},
		"one held":       {k: target(v1alpha1.ChartChecking)},
		"its CRDs":       {k: target(v1alpha1.ChartCRDs)},
		"its controller": {k: target(v1alpha1.ChartController), want: fork},
		"its rollout":    {k: target(v1alpha1.ChartRollingOut), want: fork},
		"rolled back":    {k: target(v1alpha1.ChartRolledBack)},
	} {
		if got := plan.ForkOf(c.k); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
		status := &v1alpha1.NodeSyncStatus{Karpenter: c.k}
		if got := (plan.Live{}).With(status).Fork; got != c.want {
			t.Errorf("%s: live state has %q", name, got)
		}
	}
}

// TestUnderAFork: which nodes a change replaces is unknown, although the fork annotates the hash version of the library.
// Without a change of what may be hashed, none is replaced.
func TestUnderAFork(t *testing.T) {
	const why = ": Karpenter 1.14.0+acme.3 is not a release of upstream, and what it hashes is unknown"
	for name, test := range map[string]struct {
		git     []string
		release string // the effect under a release
		fork    string
	}{
		"a class":        {[]string{class("default", "userData: hello"), pool("general", "default")}, "Replace [general-0 general-1] exact NodeClassDrift", "Replace [general-0 general-1] up to" + why},
		"a template":     {[]string{class("default"), tainted("general")}, "Replace [general-0 general-1] exact NodePoolDrifted", "Replace [general-0 general-1] up to NodePoolDrifted" + why},
		"a pool's limit": {[]string{class("default"), pool("general", "default", "limits: {cpu: 10}")}, "None [] exact", "None [] exact"},
	} {
		for fork, want := range map[string]string{"": test.release, "1.14.0+acme.3": test.fork} {
			t.Run(strings.TrimSpace(name+" "+fork), func(t *testing.T) {
				c := newCluster(t)
				c.policy.CABundle = bundle
				lives := []string{class("default"), pool("general", "default")}
				c.have(t, owner, lives...)
				for _, text := range lives {
					c.Edit(t, c.Definition(t, text).Ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(c.notes(t, text)) })
				}
				c.live.NodeClaims = claims("general", 2)
				c.live.Fork = fork
				changes := c.plan(t, test.git...).Changes
				if len(changes) != 1 {
					t.Fatalf("%+v", changes)
				}
				if got := nodesOf(&changes[0]); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			})
		}
	}
}

// TestMatchUnderAFork: nodes are compared with the hash that the fork annotates, and not with that of the library.
func TestMatchUnderAFork(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), tainted("general"))
	made := map[string]string{}
	for _, text := range []string{class("default"), pool("general", "default")} {
		notes := c.notes(t, text)
		maps.Copy(made, notes)
		c.Edit(t, c.Definition(t, text).Ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(notes) })
	}
	c.resolve(t, "default", "ami-1")
	live := plan.Live{Objects: plan.NewObjects(c.Objects()), NodeClaims: []plan.NodeClaim{{
		Name: "1", UID: "1", Pool: "general", Class: "default", ProviderID: "aws:///a/i-1", Image: "ami-1", Hashes: plan.HashesOf(made),
		Labels: plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "amd64"}),
	}}}
	for fork, want := range map[string]string{"": "NodePoolDrifted", "1.14.0+acme.3": "unsure"} {
		live.Fork = fork
		m := plan.Match{Live: live, Exact: true, CABundle: bundle, Memory: &plan.MatchMemory{}}
		if got := strings.Join(matched(m.Outdated([]*plan.Object{live.Objects[poolRef("general")]})), " "); got != want {
			t.Errorf("%q: %q, want %q", fork, got, want)
		}
	}
}
