package plan_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestWhatKarpenterMayConsolidateCounts: a change that lets Karpenter consolidate more nodes is planned as an upper
// limit, and the guard counts these nodes in total. Nodes that it could consolidate before do not count.
func TestWhatKarpenterMayConsolidateCounts(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	const (
		empty, used = "consolidationPolicy: WhenEmpty", "consolidationPolicy: WhenEmptyOrUnderutilized"
		never, soon = "consolidateAfter: Never", "consolidateAfter: 0s"
		shut, all   = `budgets: [{nodes: "0"}]`, `budgets: [{nodes: "100%"}]`
		ofDrift     = `budgets: [{nodes: "0", reasons: [Drifted]}, {nodes: "100%", reasons: [Empty, Underutilized]}]`
	)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	idle, busy := plan.Load{Counted: true, PodEvent: ago(time.Hour)}, plan.Load{Counted: true, Pods: 3, PodEvent: ago(time.Hour)}
	for name, test := range map[string]struct {
		before, after string
		// more are further fields of the pool.
		more string
		// loads are of the eight nodes, in order; if nil, none is read.
		loads func(i int) (plan.Load, bool)
		given func(*drawnCluster)
		want  int
		// asks reports whether pods are needed.
		asks bool
	}{
		"consolidateAfter from Never":             {before: used + ", " + never, after: used + ", " + soon, want: 8},
		"and nodes that are not initialized yet":  {before: used + ", " + never, after: used + ", " + soon, given: func(c *drawnCluster) { c.live.NodeClaims[0].Initialized = false }, want: 8},
		"and nodes that are terminating":          {before: used + ", " + never, after: used + ", " + soon, given: func(c *drawnCluster) { disrupted(&c.live.NodeClaims[0]) }, want: 7},
		"empty nodes only":                        {before: empty + ", " + never, after: empty + ", " + soon, loads: evenIs(idle, busy), want: 4, asks: true},
		"empty nodes only, which nobody can tell": {before: empty + ", " + never, after: empty + ", " + soon, want: 8, asks: true},
		"underused nodes as well":                 {before: empty + ", " + soon, after: used + ", " + soon, loads: evenIs(idle, busy), want: 4, asks: true},
		"underused nodes, which nobody can tell":  {before: empty + ", " + soon, after: used + ", " + soon, want: 8, asks: true},
		"empty nodes only from now on":            {before: used + ", " + soon, after: empty + ", " + soon, loads: evenIs(idle, busy), want: 0, asks: true},
		"budgets that open":                       {before: used + ", " + soon + ", " + shut, after: used + ", " + soon + ", " + all, want: 8},
		"budgets that open for all but drift":     {before: used + ", " + soon + ", " + shut, after: used + ", " + soon + ", " + ofDrift, want: 8},
		"budgets that open, and no consolidation": {before: used + ", " + never + ", " + shut, after: used + ", " + never + ", " + all, want: 0},
		"wider budgets":                           {before: used + ", " + soon, after: used + ", " + soon + ", " + all, want: 8},
		"budgets that are a little wider":         {before: used + ", " + soon, after: used + ", " + soon + `, budgets: [{nodes: "25%"}]`, want: 2},
		"wider budgets, and one is terminating":   {before: used + ", " + soon, after: used + ", " + soon + `, budgets: [{nodes: "25%"}]`, given: func(c *drawnCluster) { disrupted(&c.live.NodeClaims[0]) }, want: 1},
		"wider budgets of empty nodes":            {before: empty + ", " + soon, after: empty + ", " + soon + ", " + all, loads: evenIs(idle, busy), want: 4, asks: true},
		"wider budgets for drift only":            {before: used + ", " + soon, after: used + ", " + soon + `, budgets: [{nodes: "10%", reasons: [Empty, Underutilized]}]`, want: 0},
		"wider budgets, and no consolidation":     {before: used + ", " + never, after: used + ", " + never + ", " + all, want: 0},
		"budgets that shut":                       {before: used + ", " + never, after: used + ", " + soon + ", " + shut, want: 0},
		"no consolidation any more":               {before: used + ", " + soon, after: used + ", " + never, want: 0},
		"a longer consolidateAfter":               {before: used + ", consolidateAfter: 1h", after: used + ", consolidateAfter: 2h", want: 0},
		"a shorter one":                           {before: used + ", consolidateAfter: 2h", after: used + ", consolidateAfter: 30m", loads: evenIs(plan.Load{PodEvent: ago(time.Hour)}, plan.Load{PodEvent: ago(3 * time.Hour)}), want: 4},
		"a shorter one, just above the idle time": {before: used + ", consolidateAfter: 2h", after: used + ", consolidateAfter: 61m", loads: evenIs(plan.Load{PodEvent: ago(time.Hour)}, plan.Load{PodEvent: ago(time.Hour)}), want: 8},
		"a shorter one, of consolidatable nodes":  {before: used + ", consolidateAfter: 30m", after: used + ", consolidateAfter: 1m", loads: evenIs(plan.Load{PodEvent: ago(time.Hour), Consolidatable: true}, plan.Load{PodEvent: ago(time.Hour)}), want: 0},
		"a shorter one, which nobody can tell":    {before: used + ", consolidateAfter: 30m", after: used + ", consolidateAfter: 1m", want: 8},
		"nodes of a static pool":                  {before: used + ", " + never, after: used + ", " + soon, more: "replicas: 8"},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(text string) string { return pool("a", "default", "disruption: {"+text+"}", test.more) }
			c := newCluster(t)
			c.policy.Brakes, c.policy.Now = true, now
			c.have(t, owner, class("default"), of(test.before))
			c.live.NodeClaims = claims("a", 8, func(n *plan.NodeClaim) { n.Initialized = true })
			if test.given != nil {
				test.given(c)
			}
			c.limit(8)
			p, asked := c.planWithLoads(t, test.loads, class("default"), of(test.after))
			change := p.Changes[0]
			if change.Consolidates() != test.want || (change.Effect == plan.EffectConsolidate) != (test.want > 0) || change.UpTo != (test.want > 0) || change.Action != plan.Update {
				t.Errorf("%s of up to %d nodes (%s), want %d", change.Effect, change.Consolidates(), change.Action, test.want)
			}
			if asked != test.asks {
				t.Errorf("asks for pods: %t, want %t", asked, test.asks)
			}
			if notes := strings.Join(change.Notes, "\n"); strings.Contains(notes, fmt.Sprintf("Karpenter may consolidate up to %d node", test.want)) != (test.want > 0) {
				t.Errorf("notes are %q", notes)
			}
			if test.want == 0 {
				return
			}
			c.limit(int32(test.want - 1))
			p, _ = c.planWithLoads(t, test.loads, class("default"), of(test.after))
			if p.Changes[0].Reason != plan.ReasonMaxDisruptedNodes || p.Approvable == nil || p.Approvable.Nodes() != test.want {
				t.Errorf("beyond the limit: %v, approvable %+v", script(p), p.Approvable)
			}
			if want := fmt.Sprintf("lets Karpenter consolidate up to %d of", test.want); p.Approvable != nil && !strings.HasPrefix(p.Approvable.Summary(), want) {
				t.Errorf("to approve is %q, want %q", p.Approvable.Summary(), want)
			}
		})
	}
}

// TestWiderRequirementsCount: if Karpenter consolidates a pool, it may replace nodes with cheaper ones that the
// requirements did not allow before. They count by how many the budgets allow at one time.
func TestWiderRequirementsCount(t *testing.T) {
	const used, all = "disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s", `, budgets: [{nodes: "100%"}]`
	size := func(rest string) string { return "{key: karpenter.k8s.aws/instance-size, " + rest + "}, " }
	cpu := func(rest string) string { return "{key: karpenter.k8s.aws/instance-cpu, " + rest + "}, " }
	large, both := size("operator: In, values: [2xlarge]"), size("operator: In, values: [large, 2xlarge]")
	for name, test := range map[string]struct {
		disruption, before, after string
		want                      int
	}{
		"a value more":                {disruption: used + all, before: large, after: both, want: 8},
		"as the budgets allow":        {disruption: used, before: large, after: both, want: 1},
		"a requirement less":          {disruption: used + all, before: large, want: 8},
		"more flexible":               {disruption: used + all, before: size("operator: Exists, minValues: 2"), after: size("operator: Exists"), want: 8},
		"a lower bound":               {disruption: used + all, before: cpu(`operator: Gt, values: ["7"]`), after: cpu(`operator: Gt, values: ["3"]`), want: 8},
		"six values, and another":     {disruption: used + all, before: size("operator: In, values: [2xlarge, b, c, d, e, f]"), after: size("operator: In, values: [2xlarge, b, c, d, e, f, g]"), want: 8},
		"a value less":                {disruption: used + all, before: both, after: large},
		"a requirement more":          {disruption: used + all, after: both},
		"another order":               {disruption: used + all, before: both, after: size("operator: In, values: [2xlarge, large]")},
		"a higher bound":              {disruption: used + all, before: cpu(`operator: Gt, values: ["3"]`), after: cpu(`operator: Gt, values: ["7"]`)},
		"no consolidation":            {disruption: "disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: Never", before: large, after: both},
		"of empty nodes only":         {disruption: "disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 0s", before: large, after: both},
		"budgets that never allow it": {disruption: used + `, budgets: [{nodes: "0", reasons: [Underutilized]}]`, before: large, after: both},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(requirement string) string {
				return strings.Replace(pool("a", "default", test.disruption+"}"), "requirements: [", "requirements: ["+requirement, 1)
			}
			c := newCluster(t)
			c.policy.Brakes, c.policy.Now = true, time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
			c.have(t, owner, class("default"), of(test.before))
			c.live.NodeClaims = claims("a", 8, func(n *plan.NodeClaim) {
				n.Initialized, n.Labels = true, plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "spot", "karpenter.k8s.aws/instance-size": "2xlarge", "karpenter.k8s.aws/instance-cpu": "8"})
			})
			c.limit(8)
			p, _ := c.planWithLoads(t, nil, class("default"), of(test.after))
			got := 0
			for _, change := range p.Changes {
				got += change.Consolidates()
			}
			if got != test.want {
				t.Errorf("may consolidate up to %d nodes, want %d", got, test.want)
			}
		})
	}
}

// evenIs returns alternating Loads.
func evenIs(even, odd plan.Load) func(int) (plan.Load, bool) {
	return func(i int) (plan.Load, bool) {
		if i%2 == 0 {
			return even, true
		}
		return odd, true
	}
}

// planWithLoads plans with Loads, and reports whether pods were needed.
func (c *drawnCluster) planWithLoads(t *testing.T, loads func(int) (plan.Load, bool), definitions ...string) (p *plan.Plan, pods bool) {
	t.Helper()
	live := c.live
	live.Objects = plan.NewObjects(c.Objects())
	read := func(_ context.Context, questions []plan.LoadQuestion) map[types.UID]plan.Load {
		found := map[types.UID]plan.Load{}
		for _, q := range questions {
			pods = pods || q.Pods
			for i, claim := range q.Claims {
				if loads != nil {
					if load, ok := loads(i); ok {
						found[claim.UID] = load
					}
				}
			}
		}
		return found
	}
	p, err := plan.MakeExact(t.Context(), c.set(t, definitions...), live, c.policy, c, nil, read)
	if err != nil {
		t.Fatal(err)
	}
	return p, pods
}

// TestConsolidationBesideReplacement: nodes that a change replaces do not count twice; other nodes that Karpenter may
// consolidate do count.
func TestConsolidationBesideReplacement(t *testing.T) {
	c := newCluster(t)
	c.policy.Brakes = true
	c.have(t, owner, class("default"), pool("a", "default", "disruption: {consolidateAfter: Never}"))
	c.live.NodeClaims = claims("a", 8, func(n *plan.NodeClaim) { n.Initialized = true })
	for i := range c.live.NodeClaims[:3] {
		c.live.NodeClaims[i].Labels = plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "spot"})
	}
	for i := range c.live.NodeClaims[3:] {
		c.live.NodeClaims[3+i].Labels = plan.PackLabels(map[string]string{"karpenter.sh/capacity-type": "on-demand"})
	}
	onDemand := strings.Replace(pool("a", "default", "disruption: {consolidateAfter: 0s}"), "values: [spot]", "values: [on-demand]", 1)
	for limit, want := range map[int32]plan.Action{6: plan.Update, 5: plan.Hold} { // 5 are consolidated, and 1 is replaced at one time
		c.limit(limit)
		p := c.plan(t, class("default"), onDemand)
		change := p.Changes[0]
		got := fmt.Sprintf("%s %s %d, consolidates %d", change.Action, change.Effect, change.Nodes, change.Consolidates())
		if diff := cmp.Diff(fmt.Sprintf("%s Replace 3, consolidates 5", want), got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}
