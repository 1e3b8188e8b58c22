package plan_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestPaces: how fast the nodes that a Plan outdates can be replaced, by the budgets as they are
// after it.
func TestPaces(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	budget := func(budgets string) string { return "disruption: {consolidateAfter: 0s, budgets: " + budgets + "}" }
	for name, test := range map[string]struct {
		before, after []string
		want          []string
	}{
		"none is outdated": {[]string{pool("a", "default")}, []string{pool("a", "default", "weight: 7")}, nil},
		"by percentage":    {[]string{pool("a", "default")}, []string{tainted("a", budget(`[{nodes: "20%"}]`))}, []string{"NodePool/a: 10 of 10 nodes to replace, up to 2 at a time: 5 rounds at least (a round has a launch and a drain)"}},
		"at once":          {[]string{pool("a", "default")}, []string{tainted("a", budget(`[{nodes: "100%"}]`))}, []string{"NodePool/a: 10 of 10 nodes to replace, up to 10 at a time: 1 round at least (a round has a launch and a drain)"}},
		"none":             {[]string{pool("a", "default")}, []string{tainted("a", budget(`[{nodes: "0"}]`))}, []string{"NodePool/a: 10 of 10 nodes to replace, and its disruption budgets allow none"}},
		"in a window": {
			[]string{pool("a", "default")},
			[]string{tainted("a", budget(`[{nodes: "0", schedule: "0 9 * * *", duration: 8h}, {nodes: "3"}]`))},
			[]string{"NodePool/a: 10 of 10 nodes to replace, none until 17:00 UTC, then up to 3 at a time: 4 rounds at least (a round has a launch and a drain)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			all := intstr.FromString("100%")
			c.policy.Guard.MaxDisruptedNodes = &all
			c.have(t, owner, append(test.before, class("default"))...)
			c.live.NodeClaims = claims("a", 10)
			p := c.plan(t, append(test.after, class("default"))...)
			live := plan.Live{Objects: map[render.Ref]*plan.Object{poolRef("a"): plan.NewObject(c.Object(poolRef("a")))}, NodeClaims: c.live.NodeClaims}
			var got []string
			for _, pace := range plan.Paces(p.Changes, live, now) {
				got = append(got, pace.Words(now))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPacesOfAClass has a line for each pool whose nodes a class outdates.
func TestPacesOfAClass(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
	c.live.NodeClaims = append(claims("a", 3), claims("b", 2)...)
	all := intstr.FromString("100%")
	c.policy.Guard.MaxDisruptedNodes = &all
	p := c.plan(t, class("default", "userData: hello"), pool("a", "default"), pool("b", "default"))
	live := plan.Live{Objects: map[render.Ref]*plan.Object{}, NodeClaims: c.live.NodeClaims}
	for _, name := range []string{"a", "b"} {
		live.Objects[poolRef(name)] = plan.NewObject(c.Object(poolRef(name)))
	}
	var got []int
	for _, pace := range plan.Paces(p.Changes, live, time.Now()) {
		got = append(got, pace.Nodes, pace.Rounds())
	}
	if diff := cmp.Diff([]int{3, 3, 2, 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPacesInTime: the rounds take as long as the pool's fastest launch each, where one is known and
// it is known which nodes are outdated.
func TestPacesInTime(t *testing.T) {
	took := func(launches ...time.Duration) []plan.NodeClaim {
		found := claims("a", 10)
		for i, launch := range launches {
			found[i].Launch = launch
		}
		return found
	}
	for name, test := range map[string]struct {
		claims []plan.NodeClaim
		upTo   bool
		want   string
	}{
		"no launch is known":   {claims: took(), want: "5 rounds at least"},
		"the fastest counts":   {claims: took(3*time.Minute, 80*time.Second, 0, 2*time.Minute), want: "5 rounds, ~6m at least"},
		"seconds":              {claims: took(9 * time.Second), want: "5 rounds, ~45s at least"},
		"perhaps none of them": {claims: took(9 * time.Second), upTo: true, want: "5 rounds for all of them"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			all := intstr.FromString("100%")
			c.policy.Guard.MaxDisruptedNodes = &all
			c.have(t, owner, pool("a", "default"), class("default"))
			c.live.NodeClaims = test.claims
			p := c.plan(t, tainted("a", `disruption: {consolidateAfter: 0s, budgets: [{nodes: "20%"}]}`), class("default"))
			for i := range p.Changes {
				p.Changes[i].UpTo = test.upTo
			}
			live := plan.Live{Objects: map[render.Ref]*plan.Object{poolRef("a"): plan.NewObject(c.Object(poolRef("a")))}, NodeClaims: c.live.NodeClaims}
			paces := plan.Paces(p.Changes, live, time.Now())
			if len(paces) != 1 || paces[0].LowerBound() != test.want {
				t.Errorf("%+v, want %s", paces, test.want)
			}
		})
	}
}

// TestRemovalPaces: how fast the nodes of a pool that leaves go, by spec.removal.
func TestRemovalPaces(t *testing.T) {
	most, two := intstr.FromInt32(3), intstr.FromInt32(2)
	leaving := func(nodes int) []plan.Candidate {
		return []plan.Candidate{{Ref: render.Ref{Kind: render.NodePool, Name: "batch"}, Nodes: nodes}, {Ref: render.Ref{Kind: render.EC2NodeClass, Name: "batch"}, Nodes: nodes}}
	}
	for name, c := range map[string]struct {
		nodes  int
		policy v1alpha1.RemovalPolicy
		want   string
	}{
		"by default": {40, v1alpha1.RemovalPolicy{}, "NodePool/batch: 40 nodes to end, up to 4 at a time: 10 rounds at least (a round has a drain, and a launch where pods find no room)"},
		"a few":      {4, v1alpha1.RemovalPolicy{}, "NodePool/batch: 4 nodes to end, up to 1 at a time: 4 rounds at least (a round has a drain, and a launch where pods find no room)"},
		"by number":  {7, v1alpha1.RemovalPolicy{MaxUnavailable: &most}, "NodePool/batch: 7 nodes to end, up to 3 at a time: 3 rounds at least (a round has a drain, and a launch where pods find no room)"},
		"at once":    {7, v1alpha1.RemovalPolicy{Strategy: v1alpha1.RemovalAtOnce, MaxUnavailable: &two}, "NodePool/batch: 7 nodes to end, up to 2 at a time: 4 rounds at least (a round has a drain, and a launch where pods find no room)"},
		"orphaned":   {7, v1alpha1.RemovalPolicy{Strategy: v1alpha1.RemovalOrphan}, ""},
		"empty":      {0, v1alpha1.RemovalPolicy{}, ""},
	} {
		got := ""
		for _, pace := range plan.RemovalPaces(leaving(c.nodes), c.policy) {
			got += pace.Words(time.Now())
		}
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
