package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestStaticPoolsThatStayShort are found although no launch failed, once Karpenter had the time to launch.
func TestStaticPoolsThatStayShort(t *testing.T) {
	began := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ready := func(name, pool string) plan.NodeClaim {
		return plan.NodeClaim{Name: name, UID: types.UID(name), Pool: pool, PoolUID: "st", Node: "node-" + name, Initialized: true, Created: began.Add(-time.Hour)}
	}
	starting := plan.NodeClaim{Name: "b", UID: "b", Pool: "st", PoolUID: "st", Created: began}
	terminating := ready("b", "st")
	terminating.Deleting = true
	pool := func(git, live int64, spec map[string]any) []rollout.Pool {
		p, has := static("st", git, spec), static("st", live, spec)
		has.Git.SetUID("st")
		p.Live = plan.NewObject(has.Git)
		return []rollout.Pool{p}
	}
	const deleted = "Node node-b was deleted and its NodeClaim remains, so Karpenter launches no other: kubectl delete nodeclaim b"
	two := pool(2, 2, nil)
	for name, c := range map[string]struct {
		pools  []rollout.Pool
		claims []plan.NodeClaim
		nodes  []string
		found  []rollout.LaunchFailure
		after  time.Duration
		ready  int32
		why    string
	}{
		"it has all":              {pools: two, claims: []plan.NodeClaim{ready("a", "st"), ready("b", "st")}, nodes: []string{"node-a", "node-b"}, after: time.Hour, ready: 2},
		"a Node is deleted":       {pools: two, claims: []plan.NodeClaim{ready("a", "st"), ready("b", "st")}, nodes: []string{"node-a"}, after: 2 * time.Minute, ready: 1, why: deleted},
		"a moment ago":            {pools: two, claims: []plan.NodeClaim{ready("a", "st"), ready("b", "st")}, nodes: []string{"node-a"}, after: time.Minute, ready: 1},
		"a label is changed":      {pools: two, claims: []plan.NodeClaim{ready("a", "st"), ready("b", "other")}, nodes: []string{"node-a", "node-b"}, after: 2 * time.Minute, ready: 1, why: `NodeClaim/b belongs to it, and its label karpenter.sh/nodepool was changed to "other": kubectl label nodeclaim b karpenter.sh/nodepool=st --overwrite`},
		"one is being launched":   {pools: two, claims: []plan.NodeClaim{ready("a", "st"), starting}, nodes: []string{"node-a"}, after: 4 * time.Minute, ready: 1},
		"one takes long":          {pools: two, claims: []plan.NodeClaim{ready("a", "st"), starting}, nodes: []string{"node-a"}, after: 5 * time.Minute, ready: 1, why: "the node of NodeClaim/b is not initialized: kubectl describe nodeclaim b"},
		"Karpenter launches none": {pools: two, claims: []plan.NodeClaim{ready("a", "st")}, nodes: []string{"node-a"}, after: 2 * time.Minute, ready: 1, why: "no launch failed, and Karpenter launches no other: read the log of its controller"},
		"its limit is lower":      {pools: pool(2, 2, map[string]any{"limits": map[string]any{"nodes": "1"}}), claims: []plan.NodeClaim{ready("a", "st")}, nodes: []string{"node-a"}, after: 2 * time.Minute, ready: 1, why: "spec.limits.nodes of NodePool/st is 1"},
		"a terminating node holds its place": {
			pools: pool(2, 2, map[string]any{"limits": map[string]any{"nodes": "2"}}), claims: []plan.NodeClaim{ready("a", "st"), terminating}, nodes: []string{"node-a", "node-b"}, after: time.Hour, ready: 1,
		},
		"a terminating node, and room for another": {
			pools: pool(2, 2, map[string]any{"limits": map[string]any{"nodes": "3"}}), claims: []plan.NodeClaim{ready("a", "st"), terminating}, nodes: []string{"node-a", "node-b"}, after: time.Hour, ready: 1,
			why: "no launch failed, and Karpenter launches no other: read the log of its controller",
		},
		"its number is not applied":   {pools: pool(2, 1, nil), claims: []plan.NodeClaim{ready("a", "st")}, nodes: []string{"node-a"}, after: time.Hour, ready: 1},
		"why is known":                {pools: two, claims: []plan.NodeClaim{ready("a", "st")}, nodes: []string{"node-a"}, found: []rollout.LaunchFailure{{Pool: "st", Why: "no capacity"}}, after: time.Hour, ready: 1},
		"a Node has lost its label":   {pools: two, claims: []plan.NodeClaim{ready("a", "st"), ready("b", "st")}, nodes: []string{"node-a", "-node-b"}, after: time.Hour, ready: 2},
		"a dynamic pool has no nodes": {pools: []rollout.Pool{{Name: "dynamic", Git: plan.NewObject(two[0].Git.DeepCopy()).Unstructured}}, after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := corev1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			build := fake.NewClientBuilder().WithScheme(scheme)
			for _, node := range c.nodes {
				labels := map[string]string{"karpenter.sh/nodepool": "st"}
				if node[0] == '-' {
					node, labels = node[1:], nil
				}
				build.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: labels}})
			}
			nodes, memory, known := build.Build(), &rollout.StaticMemory{}, c.found
			var lost map[types.UID]bool
			var found []rollout.LaunchFailure
			var wakes finding.Findings
			for _, now := range []time.Time{began, began.Add(c.after)} {
				wakes = finding.Findings{}
				look := rollout.StaticLook{Memory: memory, Pools: c.pools, Claims: c.claims, Nodes: nodes, Now: now}
				lost = look.Lost(t.Context(), &wakes)
				found = look.Add(known, lost, &wakes)
			}
			want := known
			if c.why != "" {
				want = []rollout.LaunchFailure{{Pool: "st", Why: c.why, Lost: true}}
			}
			if diff := cmp.Diff(want, found); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			missing := rollout.Missing(c.pools, rollout.Present(c.claims, lost))
			if shortage, short := missing["st"]; short != (c.ready < 2 && c.pools[0].Name == "st") || short && shortage.Ready != c.ready {
				t.Errorf("missing: %v, want %d of 2", missing, c.ready)
			}
			if short := c.ready < 2 && c.why == "" && c.found == nil && c.pools[0].Name == "st" && name != "its number is not applied"; short && wakes.WakeAt.IsZero() {
				t.Error("nothing looks again")
			}
		})
	}
}

// TestALostNodeIsNotReady shows that a commit that scales up a static pool is not rolled out while the Node of one of
// its NodeClaims is gone.
func TestALostNodeIsNotReady(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	ready := func(name string) plan.NodeClaim {
		return plan.NodeClaim{Name: name, UID: types.UID(name), Pool: "st", PoolUID: "st", Node: "node-" + name, Initialized: true, Created: now.Add(-time.Hour)}
	}
	change := plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: "st"}, Action: plan.Update, Object: render.Object{Defaulted: static("st", 3, nil).Git}, Live: static("st", 2, nil).Git}
	var status v1alpha1.NodeSyncStatus
	memory := &rollout.Memory{}
	words := func(changes []plan.Change, lost map[types.UID]bool, claims ...plan.NodeClaim) string {
		now = now.Add(time.Minute)
		r := rollout.Rollouts{
			Live: plan.Live{NodeClaims: claims}, Pools: []rollout.Pool{static("st", 3, nil)}, Lost: lost, Before: status.Rollout, Reported: status.Rollout, Changes: changes,
			Revision: "main@sha1:2222222222", Applied: "main@sha1:1", Now: now, Memory: memory, Events: &spoken{},
		}
		r.Begin(&status)
		r.Before = status.Rollout
		if status.Rollout = r.Look(t.Context()).Rollout; status.Rollout == nil {
			return ""
		}
		return rollout.Words(*status.Rollout)
	}
	lost := map[types.UID]bool{"a": true}
	words([]plan.Change{change}, lost, ready("a"), ready("b"))
	for range 3 {
		if got := words(nil, lost, ready("a"), ready("b"), ready("c")); !strings.Contains(got, "2 of 3 nodes of NodePool/st are Ready") {
			t.Errorf("with two nodes of three: %q", got)
		}
	}
	words(nil, nil, ready("b"), ready("c"), ready("d"))
	if got := words(nil, nil, ready("b"), ready("c"), ready("d")); got != "" {
		t.Errorf("with three: %q", got)
	}
}

// TestManyLostNodes shows that any number of lost Nodes of one pool does not keep another pool from being checked.
func TestManyLostNodes(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	claim := func(pool, name string) plan.NodeClaim {
		return plan.NodeClaim{Name: name, UID: types.UID(name), Pool: pool, Node: "node-" + name, Initialized: true, Created: now.Add(-time.Hour)}
	}
	claims := []plan.NodeClaim{}
	for i := range 30 {
		claims = append(claims, claim("big", fmt.Sprint("big-", i)))
	}
	claims = append(claims, claim("small", "s"))
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	look := rollout.StaticLook{Memory: &rollout.StaticMemory{}, Pools: []rollout.Pool{static("big", 30, nil), static("small", 1, nil)}, Claims: claims, Nodes: fake.NewClientBuilder().WithScheme(scheme).Build(), Now: now}
	if lost := look.Lost(t.Context(), &finding.Findings{}); len(lost) != len(claims) {
		t.Errorf("%d of %d are lost", len(lost), len(claims))
	}
}
