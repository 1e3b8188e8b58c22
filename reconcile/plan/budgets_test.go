package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestBudgetsThatOpenLater: budgets that open later count like open ones: drifted nodes are replaced in their first
// window.
func TestBudgetsThatOpenLater(t *testing.T) {
	const never, nightly = `[{nodes: "0"}]`, `[{nodes: "0", schedule: "0 0 * * *", duration: 23h}]`
	const shorter, minutely = `[{nodes: "0", schedule: "0 0 * * *", duration: 22h}]`, `[{nodes: "0", schedule: "* * * * *", duration: 1h}]`
	for name, test := range map[string]struct {
		before, after string
		frees         int
	}{
		"never, and tonight":                {never, nightly, 4},
		"tonight, and tonight":              {nightly, shorter, 0},
		"tonight, and now":                  {nightly, `[{nodes: "100%"}]`, 4},
		"some of them now, and tonight all": {`[{nodes: "1"}]`, nightly, 4},
		"now, and tonight":                  {`[{nodes: "100%"}]`, nightly, 0},
		"nobody looks so long":              {never, minutely, 4},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			of := func(budgets string) string {
				return pool("a", "default", "disruption: {consolidateAfter: 0s, budgets: "+budgets+"}")
			}
			c.have(t, owner, class("default"), of(test.before))
			c.live.NodeClaims = claims("a", 4, func(c *plan.NodeClaim) { c.Drifted = true })
			c.policy.Now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
			if got := c.plan(t, class("default"), of(test.after)).Changes[0].Nodes; got != test.frees {
				t.Errorf("frees %d, want %d", got, test.frees)
			}
		})
	}
}

// TestBudgetsAreLookedAtSoOften: the number of evaluations is limited, whatever budgets Git contains.
func TestBudgetsAreLookedAtSoOften(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	of := func(n int, schedule string) *karpv1.NodePool {
		pool := &karpv1.NodePool{}
		for i := range n {
			pool.Spec.Disruption.Budgets = append(pool.Spec.Disruption.Budgets, karpv1.Budget{
				Nodes: "0", Schedule: ptr.To(schedule), Duration: &metav1.Duration{Duration: time.Hour + time.Duration(i)*time.Second},
			})
		}
		return pool
	}
	for name, test := range map[string]struct {
		pool  *karpv1.NodePool
		whole bool
	}{
		"49 that turn each minute": {of(49, "* * * * *"), false},
		"one that does":            {of(1, "* * * * *"), false},
		"49 that turn each day":    {of(49, "0 9 * * *"), true},
	} {
		if n, whole := plan.Turns(test.pool, now); n > 2000 || n == 0 && test.whole || whole != test.whole {
			t.Errorf("%s: %d times, all of them %v", name, n, whole)
		}
	}
}

// TestBudgetsAreReadAsKarpenterReadsThem compares with Karpenter's own evaluation at random times.
func TestBudgetsAreReadAsKarpenterReadsThem(t *testing.T) {
	property.Check(t, func(t *rapid.T) {
		pool := &karpv1.NodePool{}
		for i := range rapid.IntRange(0, 4).Draw(t, "budgets") {
			of := func(what string) string { return fmt.Sprint(what, i) }
			b := karpv1.Budget{Nodes: rapid.SampledFrom([]string{"0", "1", "10%", "50%", "100%", "7"}).Draw(t, of("nodes"))}
			if rapid.Bool().Draw(t, of("scheduled")) {
				schedules := []string{"* * * * *", "0 9 * * 1-5", "@daily", "30 */6 * * *", "0 0 30 2 *", "15 10 1 * *", "unreadable"}
				b.Schedule = ptr.To(rapid.SampledFrom(schedules).Draw(t, of("schedule")))
				b.Duration = &metav1.Duration{Duration: time.Duration(rapid.IntRange(1, 3000).Draw(t, of("minutes"))) * time.Minute}
			}
			b.Reasons = rapid.SampledFrom([][]karpv1.DisruptionReason{nil, {karpv1.DisruptionReasonDrifted}, {karpv1.DisruptionReasonEmpty}}).Draw(t, of("reasons"))
			pool.Spec.Disruption.Budgets = append(pool.Spec.Disruption.Budgets, b)
		}
		nodes := rapid.IntRange(0, 40).Draw(t, "nodes")
		now := time.Date(2026, 11, 24, 0, 0, 0, 0, time.UTC).Add(time.Duration(rapid.IntRange(0, 31*24*3600).Draw(t, "now")) * time.Second)
		want, unreadable := pool.GetAllowedDisruptionsByReason(clocktesting.NewFakeClock(now), nodes, karpv1.DisruptionReasonDrifted)
		got, err := plan.AllowedAt(pool, nodes, now)
		if (err != nil) != (unreadable != nil) {
			t.Fatalf("unreadable %v, for Karpenter %v", err, unreadable)
		}
		if diff := cmp.Diff(min(want, nodes), got); err == nil && diff != "" {
			t.Errorf("(-Karpenter +read):\n%s", diff)
		}
	})
}

// TestPaces: how fast the nodes that a Plan makes drift can be replaced, according to the budgets after it.
func TestPaces(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	budget := func(budgets string) string { return "disruption: {consolidateAfter: 0s, budgets: " + budgets + "}" }
	for name, test := range map[string]struct {
		before, after []string
		unlaunchable  []string
		want          []string
	}{
		"none is outdated": {[]string{pool("a", "default")}, []string{pool("a", "default", "weight: 7")}, nil, nil},
		"no instance type": {
			[]string{pool("a", "default")},
			[]string{tainted("a", budget(`[{nodes: "20%"}]`))},
			[]string{"b", "a"},
			[]string{"NodePool/a: 10 of 10 nodes to replace, but no instance type meets it: Karpenter launches no replacement"},
		},
		"by percentage": {[]string{pool("a", "default")}, []string{tainted("a", budget(`[{nodes: "20%"}]`))}, nil, []string{"NodePool/a: 10 of 10 nodes to replace, up to 2 at a time: 5 rounds at least (each round launches and drains nodes)"}},
		"at once":       {[]string{pool("a", "default")}, []string{tainted("a", budget(`[{nodes: "100%"}]`))}, nil, []string{"NodePool/a: 10 of 10 nodes to replace, up to 10 at a time: 1 round at least (each round launches and drains nodes)"}},
		"none":          {[]string{pool("a", "default")}, []string{tainted("a", budget(`[{nodes: "0"}]`))}, nil, []string{"NodePool/a: 10 of 10 nodes to replace, but its disruption budgets allow none"}},
		"in a window": {
			[]string{pool("a", "default")},
			[]string{tainted("a", budget(`[{nodes: "0", schedule: "0 9 * * *", duration: 8h}, {nodes: "3"}]`))},
			nil,
			[]string{"NodePool/a: 10 of 10 nodes to replace, none until 17:00 UTC, then up to 3 at a time: 4 rounds at least (each round launches and drains nodes)"},
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
			for _, pace := range plan.Paces(p.Changes, live, plan.Unlaunchable(test.unlaunchable, nil), now) {
				got = append(got, pace.Words(now))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPacesOfAClass: each pool whose nodes drift by a class has its own line.
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
	for _, pace := range plan.Paces(p.Changes, live, nil, time.Now()) {
		got = append(got, pace.Nodes, pace.Rounds())
	}
	if diff := cmp.Diff([]int{3, 3, 2, 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPacesInTime: each round takes as long as the pool's fastest launch, if one is known and it is known which nodes
// drift.
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
			paces := plan.Paces(p.Changes, live, nil, time.Now())
			if len(paces) != 1 || paces[0].LowerBound() != test.want {
				t.Errorf("%+v, want %s", paces, test.want)
			}
		})
	}
}

// TestPacesOfALargeCluster: Karpenter decides on one node of a dynamic pool after another, whatever the budgets allow.
// Whether that takes longer than the rounds depends on the number of nodes in the cluster.
func TestPacesOfALargeCluster(t *testing.T) {
	for name, test := range map[string]struct {
		pace plan.PoolPace
		want string
	}{
		"large":  {plan.PoolPace{Nodes: 1000, Of: 5000, Decision: plan.Decision(5000)}, "1 round, ~22m at least (Karpenter decides on one node after another, whatever the budgets allow: kubernetes-sigs/karpenter#3197 measured 17 in an hour with 5,000 nodes)"},
		"small":  {plan.PoolPace{Nodes: 100, Of: 100, Decision: plan.Decision(100)}, "1 round, ~1m at least (each round launches and drains nodes; the fastest launch took 1m)"},
		"static": {plan.PoolPace{Nodes: 1000, Of: 5000}, "1 round, ~1m at least (each round launches and drains nodes; the fastest launch took 1m)"},
	} {
		test.pace.Pool, test.pace.Launch, test.pace.Allowed = "a", time.Minute, plan.Allowed{Now: 2100}
		if got := test.pace.Words(time.Now()); !strings.HasSuffix(got, test.want) {
			t.Errorf("%s: %s\nwant %s", name, got, test.want)
		}
	}
	closed := plan.PoolPace{Pool: "a", Nodes: 1000, Of: 5000, Decision: plan.Decision(5000)}
	if got := closed.AtLeast(); got != 0 {
		t.Errorf("without a budget: %s", got)
	}
}

// TestRemovalPaces: how fast the nodes of a removed pool are terminated, according to spec.removal.
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
		"by default": {40, v1alpha1.RemovalPolicy{}, "NodePool/batch: 40 nodes to terminate, up to 4 at a time: 10 rounds at least (each round drains nodes, and launches others if pods are pending)"},
		"a few":      {4, v1alpha1.RemovalPolicy{}, "NodePool/batch: 4 nodes to terminate, up to 1 at a time: 4 rounds at least (each round drains nodes, and launches others if pods are pending)"},
		"by number":  {7, v1alpha1.RemovalPolicy{MaxUnavailable: &most}, "NodePool/batch: 7 nodes to terminate, up to 3 at a time: 3 rounds at least (each round drains nodes, and launches others if pods are pending)"},
		"at once":    {7, v1alpha1.RemovalPolicy{Strategy: v1alpha1.RemovalAtOnce, MaxUnavailable: &two}, "NodePool/batch: 7 nodes to terminate, up to 2 at a time: 4 rounds at least (each round drains nodes, and launches others if pods are pending)"},
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
