package plan_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// buffer returns a CapacityBuffer of the namespace shop.
func buffer(name string, more ...string) string {
	return "apiVersion: autoscaling.x-k8s.io/v1beta1\nkind: CapacityBuffer\nmetadata: {name: " + name + ", namespace: shop}\nspec:\n  " + strings.Join(more, "\n  ") + "\n"
}

func bufferRef(name string) render.Ref {
	return render.Ref{Kind: render.CapacityBuffer, Name: "shop/" + name}
}

// TestWhatABufferReleases: a CapacityBuffer that is removed or lowered releases at most one node for each placeholder
// pod, of the nodes that Karpenter consolidates at all.
func TestWhatABufferReleases(t *testing.T) {
	const template, scaled = "podTemplateRef: {name: web}", "scalableRef: {kind: Deployment, name: web}"
	for name, test := range map[string]struct {
		before, after []string
		// chunks is status.replicas; 0 if Karpenter has not reported it.
		chunks int64
		given  func(*drawnCluster)
		want   int
	}{
		"it is removed":                      {before: []string{template, "replicas: 3"}, chunks: 3, want: 3},
		"and Karpenter has not seen it":      {before: []string{template, "replicas: 3"}, want: 3},
		"and Karpenter has not counted all":  {before: []string{template, "replicas: 3"}, chunks: 1, want: 3},
		"and limits allow fewer pods":        {before: []string{template, "replicas: 3", "limits: {cpu: 1}"}, chunks: 1, want: 1},
		"and it has more pods than nodes":    {before: []string{template, "replicas: 30"}, chunks: 30, want: 8},
		"and the number of pods is unknown":  {before: []string{scaled, "percentage: 20"}, want: 8},
		"and its feature gate is off":        {before: []string{template, "replicas: 3"}, chunks: 3, given: func(c *drawnCluster) { c.policy.Ignored = map[string]bool{render.CapacityBuffer: true} }},
		"and some nodes are not initialized": {before: []string{template, "replicas: 30"}, chunks: 30, given: func(c *drawnCluster) { c.live.NodeClaims[0].Initialized = false }, want: 8},
		"it is lowered":                      {before: []string{template, "replicas: 3"}, after: []string{template, "replicas: 1"}, chunks: 3, want: 2},
		"it is lowered above its limits":     {before: []string{template, "replicas: 9", "limits: {cpu: 1}"}, after: []string{template, "replicas: 4", "limits: {cpu: 1}"}, chunks: 2},
		"it is raised":                       {before: []string{template, "replicas: 3"}, after: []string{template, "replicas: 5"}, chunks: 3},
		"its pods have another template":     {before: []string{template, "replicas: 3"}, after: []string{"podTemplateRef: {name: api}", "replicas: 3"}, chunks: 3, want: 3},
		"its limits change":                  {before: []string{template, "limits: {cpu: 4}"}, after: []string{template, "limits: {cpu: 2}"}, chunks: 4, want: 4},
		"its percentage changes":             {before: []string{scaled, "percentage: 20"}, after: []string{scaled, "percentage: 10"}, chunks: 2, want: 2},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), buffer("web", test.before...))
			if test.chunks > 0 {
				c.edit(t, bufferRef("web"), "karpenter", test.chunks, "status", "replicas")
			}
			c.live.NodeClaims = claims("a", 8, func(n *plan.NodeClaim) { n.Initialized = true })
			if test.given != nil {
				test.given(c)
			}
			c.limit(8)
			git := []string{class("default"), pool("a", "default")}
			if test.after == nil {
				p := c.plan(t, git...)
				if len(p.Removals) != 1 || p.Removals[0].Ref != bufferRef("web") || p.Removals[0].Nodes != test.want || p.Removals[0].Held {
					t.Errorf("removals %+v, want %d nodes", p.Removals, test.want)
				}
				return
			}
			p := c.plan(t, append(git, buffer("web", test.after...))...)
			if len(p.Changes) != 1 || p.Changes[0].Nodes != test.want || (p.Changes[0].Effect == plan.EffectConsolidate) != (test.want > 0) || p.Changes[0].UpTo != (test.want > 0) {
				t.Errorf("changes %q, want %d nodes", script(p), test.want)
			}
		})
	}
}

// TestTheGuardCountsWhatABufferReleases: together with the nodes of a lowered buffer, and with a removed NodePool.
func TestTheGuardCountsWhatABufferReleases(t *testing.T) {
	const template = "podTemplateRef: {name: web}"
	for limit, want := range map[int32][]string{
		4: {"Update CapacityBuffer/shop/api Differs spec.replicas:2→1 consolidates up to 1", "Remove CapacityBuffer/shop/web"},
		3: {"Hold CapacityBuffer/shop/api MaxDisruptedNodes spec.replicas:2→1 consolidates up to 1", "Hold CapacityBuffer/shop/web MaxDisruptedNodes"},
	} {
		c := newCluster(t)
		c.have(t, owner, class("default"), pool("a", "default"), buffer("web", template, "replicas: 3"), buffer("api", template, "replicas: 2"))
		c.live.NodeClaims = claims("a", 8, func(n *plan.NodeClaim) { n.Initialized = true })
		c.limit(limit)
		p := c.plan(t, class("default"), pool("a", "default"), buffer("api", template, "replicas: 1"))
		if got := script(p); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("limit %d: %q, want %q", limit, got, want)
		}
		if limit == 3 && (p.Approvable == nil || p.Approvable.Consolidated != 4 || p.Approvable.Drained != 0) {
			t.Errorf("approvable %+v", p.Approvable)
		}
	}
}

// TestBuffersCountWithinThePeriod: a buffer that is lowered a little in each of several commits, or removed after that,
// counts together with the earlier commits.
func TestBuffersCountWithinThePeriod(t *testing.T) {
	const template = "podTemplateRef: {name: web}"
	for name, test := range map[string]struct {
		git  []string
		uid  types.UID
		open bool
		want string
	}{
		"lowered again":          {git: []string{buffer("web", template, "replicas: 1")}, uid: "web", want: "Hold CapacityBuffer/shop/web MaxDisruptedNodes spec.replicas:3→1 consolidates up to 2"},
		"removed after that":     {uid: "web", want: "Hold CapacityBuffer/shop/web MaxDisruptedNodes"},
		"another one was gone":   {git: []string{buffer("web", template, "replicas: 1")}, uid: "gone", want: "Hold CapacityBuffer/shop/web MaxDisruptedNodes spec.replicas:3→1 consolidates up to 2"},
		"the removal is counted": {uid: "web", open: true, want: "Remove CapacityBuffer/shop/web"},
	} {
		t.Run(name, func(t *testing.T) {
			c := recently(t)
			c.have(t, owner, buffer("web", template, "replicas: 3"))
			c.live.NodeClaims = claims("a", 8, func(n *plan.NodeClaim) { n.Initialized = true })
			if test.uid == "web" {
				test.uid = c.Object(bufferRef("web")).GetUID()
			}
			c.live.RecentTerminations = []v1alpha1.RecentTermination{{Name: "shop/web", UID: test.uid, Revision: "main@sha1:old", At: c.ago(time.Minute), Nodes: 2}}
			if test.open {
				c.live.RecentTerminations[0].Revision = "main@sha1:new"
				c.removal(bufferRef("web"), v1alpha1.RemovalPacing, "main@sha1:new")
			}
			c.limit(3)
			git := []string{class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"), pool("d", "default")}
			if got := script(c.plan(t, append(git, test.git...)...)); len(got) != 1 || !strings.HasPrefix(got[0], test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
