package plan_test

import (
	stdcmp "cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const taintsOf = ` spec.template.spec.taints:→[{"effect":"NoSchedule","key":"a"}]`

// budgeted is a NodePool with disruption budgets, in YAML, and with a taint if it is the one after the commit.
func budgeted(name, budgets string, after bool) string {
	disruption := "disruption: {consolidateAfter: Never, budgets: " + budgets + "}"
	if after {
		return tainted(name, disruption)
	}
	return pool(name, "default", disruption)
}

// TestReplacementsCountByWhatIsReplacedAtOneTime if the brake is on, and no budget of the pool, now or in any window,
// exceeds the limit; otherwise they count by their total, as removals and scale-downs always do.
func TestReplacementsCountByWhatIsReplacedAtOneTime(t *testing.T) {
	const (
		ten  = `[{nodes: "10%"}]`
		all  = `[{nodes: "100%"}]`
		week = `[{nodes: "10%", schedule: "0 0 * * mon-fri", duration: 24h}]`
		// shut is closed except for four hours each month.
		shut = `[{nodes: "0", schedule: "0 0 1 * *", duration: 668h}, {nodes: "1", schedule: "0 0 1 * *", duration: 744h}]`
		// summer is closed except in July, which is more than a month ahead.
		summer = `[{nodes: "0", schedule: "0 0 1 1-6,8-12 *", duration: 744h}]`
	)
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	replaces := func(action, nodes string) string { return action + taintsOf + " replaces " + nodes }
	held, goes := "Hold NodePool/a MaxDisruptedNodes", "Update NodePool/a Differs"
	for name, test := range map[string]struct {
		budgets, after string
		given          func(*drawnCluster)
		want           []string
	}{
		"a tenth at one time":              {budgets: ten, want: []string{replaces(goes, "40")}},
		"the brake is off":                 {budgets: ten, given: func(c *drawnCluster) { c.policy.Brakes = false }, want: []string{replaces(held, "40")}},
		"all at one time":                  {budgets: all, want: []string{replaces(held, "40")}},
		"all at one time on Saturdays":     {budgets: week, want: []string{replaces(held, "40")}},
		"one at one time in a window":      {budgets: shut, want: []string{replaces(goes, "40")}},
		"all at one time in half a year":   {budgets: summer, want: []string{replaces(held, "40")}},
		"none at any time":                 {budgets: `[{nodes: "0"}]`, want: []string{replaces(goes, "40")}},
		"the same commit narrows budgets":  {budgets: all, after: ten, want: []string{"Update NodePool/a Differs spec.disruption.budgets[0].nodes:100%→10%" + taintsOf + " replaces 40"}},
		"the same commit widens budgets":   {budgets: ten, after: all, want: []string{"Hold NodePool/a MaxDisruptedNodes spec.disruption.budgets[0].nodes:10%→100%" + taintsOf + " replaces 40"}},
		"a rollout that is stopped":        {budgets: ten, given: func(c *drawnCluster) { c.policy.Braked = map[string]bool{"a": true} }, want: []string{replaces(goes, "40")}},
		"one is terminating":               {budgets: ten, given: func(c *drawnCluster) { c.limit(4); disrupted(&c.live.NodeClaims[0]) }, want: []string{replaces(goes, "40")}},
		"as many as the limit terminate":   {budgets: ten, given: func(c *drawnCluster) { terminates(c, 10) }, want: []string{replaces(goes, "40")}},
		"one more than the limit":          {budgets: ten, given: func(c *drawnCluster) { terminates(c, 11) }, want: []string{replaces(held, "40")}},
		"a limit below the budgets":        {budgets: ten, given: func(c *drawnCluster) { c.limit(3) }, want: []string{replaces(held, "40")}},
		"the total has a limit of its own": {budgets: ten, given: func(c *drawnCluster) { c.maxReplaced("50%") }, want: []string{replaces("Hold NodePool/a MaxReplacedNodes", "40")}},
		"the total is within it":           {budgets: ten, given: func(c *drawnCluster) { c.maxReplaced("100%") }, want: []string{replaces(goes, "40")}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.Brakes, c.policy.Now = true, now
			c.have(t, owner, class("default"), budgeted("a", test.budgets, false))
			c.live.NodeClaims = claims("a", 40)
			if test.given != nil {
				test.given(c)
			}
			after := test.after
			if after == "" {
				after = test.budgets
			}
			if diff := cmp.Diff(test.want, script(c.plan(t, class("default"), budgeted("a", after, true)))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// terminates marks this many nodes of a pool as terminating.
func terminates(c *drawnCluster, n int) {
	for i := range n {
		disrupted(&c.live.NodeClaims[i])
	}
}

func (c *drawnCluster) limit(nodes int32) {
	v := intstr.FromInt32(nodes)
	c.policy.Guard.MaxDisruptedNodes = &v
}

func (c *drawnCluster) maxReplaced(share string) {
	v := intstr.FromString(share)
	c.policy.Guard.MaxReplacedNodes = &v
}

// TestAClassIsReplacedByTheBudgetsOfBefore: a class is applied before the NodePool whose budgets the same commit
// narrows.
func TestAClassIsReplacedByTheBudgetsOfBefore(t *testing.T) {
	c := newCluster(t)
	c.policy.Brakes = true
	c.have(t, owner, class("default"), budgeted("a", `[{nodes: "100%"}]`, false))
	c.live.NodeClaims = claims("a", 40)
	want := []string{
		"Hold EC2NodeClass/default MaxDisruptedNodes spec.userData:→hello replaces 40",
		"Update NodePool/a Differs spec.disruption.budgets[0].nodes:100%→10%",
	}
	p := c.plan(t, class("default", "userData: hello"), budgeted("a", `[{nodes: "10%"}]`, false))
	if diff := cmp.Diff(want, script(p)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if says := p.Changes[0].Message; !strings.Contains(says, "replacements count in total because disruption budgets allow more at a time: NodePool/a (40)") {
		t.Errorf("it says %q", says)
	}
}

// TestReplacementsOfSeveralPoolsAddUp, with removals by their total.
func TestReplacementsOfSeveralPoolsAddUp(t *testing.T) {
	const ten = `[{nodes: "10%"}]`
	for name, test := range map[string]struct {
		limit int32
		want  []string
	}{
		"within the limit": {9, []string{"Update NodePool/a Differs" + taintsOf + " replaces 20", "Update NodePool/b Differs" + taintsOf + " replaces 20", "Remove NodePool/c"}},
		"beyond it": {8, []string{
			"Hold NodePool/a MaxDisruptedNodes" + taintsOf + " replaces 20", "Hold NodePool/b MaxDisruptedNodes" + taintsOf + " replaces 20", "Hold NodePool/c MaxDisruptedNodes",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.Brakes = true
			c.limit(test.limit)
			c.have(t, owner, class("default"), budgeted("a", ten, false), budgeted("b", ten, false), budgeted("c", ten, false))
			c.live.NodeClaims = slices.Concat(claims("a", 20), claims("b", 20), claims("c", 5))
			p := c.plan(t, class("default"), budgeted("a", ten, true), budgeted("b", ten, true))
			if diff := cmp.Diff(test.want, script(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if test.limit == 8 && !strings.HasPrefix(p.Changes[0].Message, "9 nodes would be disrupted, but guard.maxDisruptedNodes allows 8: set it to 9 (it is 8), or change less in one commit: NodePool/c (5), NodePool/a (2), NodePool/b (2)") {
				t.Errorf("it says %q", p.Changes[0].Message)
			}
		})
	}
}

// madeBy sets the hashes of NodeClaims to those of the definition that they were created from.
func (c *drawnCluster) madeBy(t *testing.T, nodes []plan.NodeClaim, text string) {
	t.Helper()
	for i := range nodes {
		nodes[i].ProviderID, nodes[i].Hashes = "aws:///a/"+nodes[i].Name, plan.HashesOf(c.notes(t, text))
	}
}

// TestNodesThatEarlierCommitsOutdatedCount: nodes that drift by earlier commits count with those of the next commit
// until they are replaced; otherwise a change that is split into many commits would bypass the guard.
func TestNodesThatEarlierCommitsOutdatedCount(t *testing.T) {
	const ten, all = `[{nodes: "10%"}]`, `[{nodes: "100%"}]`
	held, goes := "Hold NodePool/b MaxDisruptedNodes"+taintsOf+" replaces 8", "Update NodePool/b Differs"+taintsOf+" replaces 8"
	for name, test := range map[string]struct {
		budgets string
		brakes  bool
		given   func(*drawnCluster)
		git     string
		want    []string
	}{
		"by their total":                     {budgets: all, brakes: true, want: []string{held}},
		"the brake is off":                   {budgets: ten, want: []string{held}},
		"by what is replaced at one time":    {budgets: ten, brakes: true, want: []string{goes}},
		"their total has a limit of its own": {budgets: ten, brakes: true, given: func(c *drawnCluster) { c.maxReplaced("60%") }, want: []string{"Hold NodePool/b MaxReplacedNodes" + taintsOf + " replaces 8"}},
		"Karpenter has found them":           {budgets: all, given: func(c *drawnCluster) { drifts(c, "AMIDrift") }, want: []string{held}},
		"they match":                         {budgets: all, given: func(c *drawnCluster) { c.madeBy(t, c.live.NodeClaims[:8], pool("a", "default")) }, want: []string{goes}},
		"AWS has reported them":              {budgets: all, given: func(c *drawnCluster) { reported(t, c, 8, time.Minute) }, want: []string{held}},
		"AWS has reported these very nodes":  {budgets: all, given: func(c *drawnCluster) { reported(t, c, 8, time.Minute); c.live.NodeClaims = c.live.NodeClaims[8:] }, want: []string{goes}},
		"Karpenter has looked at all nodes":  {budgets: all, given: func(c *drawnCluster) { reported(t, c, 8, -time.Minute) }, want: []string{goes}},
		"they are younger than the commit": {budgets: all, given: func(c *drawnCluster) {
			reported(t, c, 8, time.Minute)
			for i := range c.live.NodeClaims {
				c.live.NodeClaims[i].Created = c.policy.Now
			}
		}, want: []string{goes}},
		"they are terminating, and count once": {budgets: all, given: func(c *drawnCluster) { terminates(c, 8); c.limit(16) }, want: []string{goes}},
		"the commit reverts what outdated them": {
			budgets: all, git: tainted("a", "disruption: {consolidateAfter: Never, budgets: "+all+"}"), given: func(c *drawnCluster) { c.madeBy(t, c.live.NodeClaims[:8], tainted("a")) },
			want: []string{"Update NodePool/a Differs" + taintsOf, goes},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.Brakes = test.brakes
			c.limit(8)
			c.have(t, owner, class("default"), budgeted("a", test.budgets, false), budgeted("b", test.budgets, false))
			c.live.NodeClaims = slices.Concat(claims("a", 8), claims("b", 8))
			c.madeBy(t, c.live.NodeClaims[:8], pool("a", "of-before"))
			if test.given != nil {
				test.given(c)
			}
			git := test.git
			if git == "" {
				git = budgeted("a", test.budgets, false)
			}
			if diff := cmp.Diff(test.want, script(c.plan(t, class("default"), git, budgeted("b", test.budgets, true)))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// reported makes all nodes match, and reports that this many drift by subnets that an earlier commit selects, which
// Karpenter may still detect until then.
func reported(t *testing.T, c *drawnCluster, outdated int32, until time.Duration) {
	t.Helper()
	c.policy.Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c.madeBy(t, c.live.NodeClaims[:8], pool("a", "default"))
	settles := metav1.NewTime(c.policy.Now.Add(until))
	c.live.Rollout = &v1alpha1.Rollout{Revision: "main@sha1:first", Nodes: outdated, Outdated: outdated, Since: metav1.NewTime(c.policy.Now.Add(-time.Minute)), SettlesAt: &settles}
}

func drifts(c *drawnCluster, reason string) {
	for i := range c.live.NodeClaims[:8] {
		n := &c.live.NodeClaims[i]
		n.Hashes, n.Drifted, n.DriftReason = "", true, reason
	}
}

// TestMaxReplacedNodesHoldsWhatReplaces, but not removals.
func TestMaxReplacedNodesHoldsWhatReplaces(t *testing.T) {
	c := newCluster(t)
	c.policy.Brakes = true
	c.limit(100)
	c.maxReplaced("10%")
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
	c.live.NodeClaims = slices.Concat(claims("a", 8), claims("b", 5))
	p := c.plan(t, class("default"), tainted("a"))
	if diff := cmp.Diff([]string{"Hold NodePool/a MaxReplacedNodes" + taintsOf + " replaces 8", "Remove NodePool/b"}, script(p)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	want := "8 nodes would be replaced in total, but guard.maxReplacedNodes allows 3: set it to 8 (it is 10% of 13 nodes, at least 3), or change less in one commit: NodePool/a (8)"
	if p.Changes[0].Message != want {
		t.Errorf("it says %q, want %q", p.Changes[0].Message, want)
	}
	if p.Approvable == nil || len(p.Approvable.Entries) != 1 {
		t.Errorf("approvable is %+v", p.Approvable)
	}
	approve(c, p)
	if p := c.plan(t, class("default"), tainted("a")); p.Approvable != nil {
		t.Errorf("held is still %v", script(p))
	}
}

// TestWiderBudgetsBeforeKarpenterMarksNodes: nodes that drift by an earlier commit count when budgets become wider,
// even if Karpenter has not set Drifted yet.
func TestWiderBudgetsBeforeKarpenterMarksNodes(t *testing.T) {
	present, former := budgeted("a", `[{nodes: "1"}]`, true), pool("a", "default")
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	settles := func(at time.Duration) *v1alpha1.Rollout {
		until := metav1.NewTime(now.Add(at))
		return &v1alpha1.Rollout{Revision: "main@sha1:first", SettlesAt: &until}
	}
	for name, test := range map[string]struct {
		// pool and class are the definitions that the nodes were created from.
		pool, class string
		rollout     *v1alpha1.Rollout
		git         string
		held        bool
	}{
		"they match":                        {pool: present, class: class("default", "userData: new")},
		"by the template":                   {pool: former, class: class("default", "userData: new"), held: true},
		"by the class":                      {pool: present, class: class("default"), held: true},
		"by the class, which is reverted":   {pool: present, class: class("default"), git: class("default")},
		"Karpenter may still find subnets":  {pool: present, class: class("default", "userData: new"), rollout: settles(time.Minute), held: true},
		"Karpenter has looked at all nodes": {pool: present, class: class("default", "userData: new"), rollout: settles(-time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.policy.Brakes, c.policy.Now, c.live.Rollout = true, now, test.rollout
			c.limit(3)
			live := class("default", "userData: new")
			c.have(t, owner, live, present)
			c.Edit(t, classRef("default"), "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(c.notes(t, live)) })
			notes := c.notes(t, test.pool)
			maps.Copy(notes, c.notes(t, test.class))
			c.live.NodeClaims = claims("a", 40, func(n *plan.NodeClaim) { n.ProviderID, n.Hashes = "aws:///a/i-1", plan.HashesOf(notes) })
			got := script(c.plan(t, stdcmp.Or(test.git, live), budgeted("a", `[{nodes: "100%"}]`, true)))
			if held := strings.HasPrefix(got[len(got)-1], "Hold NodePool/a MaxDisruptedNodes"); held != test.held {
				t.Errorf("got %q, held is %t", got, held)
			}
		})
	}
}

// TestNodesThatExpireCountByTheirTotal: Karpenter terminates a node at the age of expireAfter regardless of disruption
// budgets.
func TestNodesThatExpireCountByTheirTotal(t *testing.T) {
	for name, test := range map[string]struct {
		before, after string
		// want is how many nodes count; one is replaced at one time.
		want   int32
		period *metav1.Duration
		says   string
	}{
		"within the period":       {before: "720h", after: "5m", want: 40, says: "expireAfter 5m: Karpenter terminates about 40 nodes in each 30m, regardless of disruption budgets"},
		"half of them within it":  {before: "720h", after: "1h", want: 20 + 4, says: "about 20 nodes in each 30m"},
		"within another period":   {before: "720h", after: "1h", period: &metav1.Duration{Duration: time.Hour}, want: 40, says: "about 40 nodes in each 1h"},
		"without one":             {before: "720h", after: "1h", period: &metav1.Duration{}, want: 20 + 4},
		"from never":              {before: "Never", after: "20h", want: 1 + 4},
		"hardly more than before": {before: "720h", after: "700h", want: 4},
		"never any more":          {before: "5m", after: "Never", want: 4},
		"later than before":       {before: "5m", after: "10m", want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(age string) string {
				return strings.Replace(pool("a", "default"), "      requirements:", "      expireAfter: "+age+"\n      requirements:", 1)
			}
			c := newCluster(t)
			c.policy.Brakes, c.policy.Now, c.policy.Guard.RemovalPeriod = true, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), test.period
			c.have(t, owner, class("default"), of(test.before))
			c.live.NodeClaims = claims("a", 40)
			c.limit(test.want)
			p := c.plan(t, class("default"), of(test.after))
			if p.Approvable != nil || p.Changes[0].Nodes != 40 {
				t.Errorf("within the limit: %v", script(p))
			}
			if warnings := strings.Join(p.Changes[0].Warnings, "\n"); !strings.Contains(warnings, test.says) {
				t.Errorf("it warns %q, want %q", warnings, test.says)
			}
			c.limit(test.want - 1)
			p = c.plan(t, class("default"), of(test.after))
			if want := fmt.Sprintf("%d nodes would be disrupted", test.want); p.Approvable == nil || !strings.Contains(p.Changes[0].Message, want) && test.want > 4 {
				t.Errorf("beyond the limit: %s", p.Changes[0].Message)
			}
		})
	}
}
