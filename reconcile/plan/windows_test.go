package plan_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWindows: when the disruption budgets of a pool of ten nodes allow a replacement, compared with Karpenter's own
// evaluation.
func TestWindows(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 30, 0, 0, time.UTC) // a Tuesday
	at := func(day, hour, minute int) time.Time { return time.Date(2026, 11, day, hour, minute, 0, 0, time.UTC) }
	for name, test := range map[string]struct {
		budgets string
		first   []plan.Window
		count   int
		words   string
	}{
		"always":            {budgets: `[{nodes: "10%"}]`},
		"never":             {budgets: `[{nodes: "0"}]`},
		"wider for a time":  {budgets: `[{nodes: "2", schedule: "0 9 * * *", duration: 8h}, {nodes: "3"}]`},
		"a day in a week":   {budgets: `[{nodes: "0", schedule: "0 0 * * 0-5", duration: 24h}, {nodes: "3"}]`, first: []plan.Window{{at(28, 0, 0), at(29, 0, 0), 3}}, count: 4, words: "NodePool/a: 4 windows in 30 days, 96h in all: Sat 28 Nov 00:00 UTC to Sun 29 Nov 00:00 UTC (up to 3 at a time); Sat 5 Dec 00:00 UTC to Sun 6 Dec 00:00 UTC (up to 3 at a time); Sat 12 Dec 00:00 UTC to Sun 13 Dec 00:00 UTC (up to 3 at a time) and 1 more"},
		"open now":          {budgets: `[{nodes: "0", schedule: "0 13 * * *", duration: 23h}]`, count: 31},
		"two overlap":       {budgets: `[{nodes: "0", schedule: "0 13 * * 2", duration: 10h}, {nodes: "0", schedule: "0 20 * * 2", duration: 160h}, {nodes: "5"}]`, first: []plan.Window{{now, at(24, 13, 0), 5}}, count: 5},
		"each minute":       {budgets: `[{nodes: "0", schedule: "* * * * *", duration: 1m}]`},
		"for other reasons": {budgets: `[{nodes: "0", reasons: [Empty], schedule: "0 9 * * *", duration: 8h}]`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default", "disruption: {consolidateAfter: 0s, budgets: "+test.budgets+"}"))
			found := plan.Windows(plan.NewObject(c.Object(poolRef("a"))), 10, now)
			if len(found) != test.count {
				t.Fatalf("%d windows, want %d: %v", len(found), test.count, found)
			}
			if diff := cmp.Diff(test.first, found[:len(test.first)]); len(test.first) > 0 && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if words := (plan.PoolPace{Pool: "a", Windows: found}).WindowWords(now); test.words != "" && words != test.words {
				t.Errorf("%s\nwant %s", words, test.words)
			}
			for _, w := range found {
				for moment, open := range map[time.Time]bool{w.From: true, w.To.Add(-time.Second): true, w.To: w.To.Equal(now.Add(30 * 24 * time.Hour))} {
					allowed := plan.AllowedDisruptions(plan.NewObject(c.Object(poolRef("a"))), 10, moment)
					if open != (allowed.Now > 0) {
						t.Errorf("%s: Karpenter allows %d", moment, allowed.Now)
					}
				}
			}
		})
	}
}

// inFreeze sets the time to a Wednesday at noon, with a window in the following night and a later freeze.
func inFreeze(c *drawnCluster) {
	c.policy.Now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	c.policy.Guard.Windows = []v1alpha1.GuardWindow{{Schedule: "0 22 * * mon-fri", Duration: metav1.Duration{Duration: 6 * time.Hour}}}
	c.policy.Guard.Freeze = []v1alpha1.GuardFreeze{{From: "2026-12-20", To: "2026-12-27", Reason: "Christmas"}}
	all := intstr.FromString("100%")
	c.policy.Guard.MaxDisruptedNodes = &all
}

// TestWhatWaitsForAWindow: only changes that terminate or replace nodes wait, except reverts.
func TestWhatWaitsForAWindow(t *testing.T) {
	const replaces = `spec.template.spec.taints:→[{"effect":"NoSchedule","key":"a"}]`
	const waits = "Wait NodePool/a Frozen " + replaces + " on a window of spec.guard replaces 2"
	const writes = "Update NodePool/a Differs " + replaces + " replaces 2"
	at := func(text string) func(*drawnCluster) {
		return func(c *drawnCluster) {
			now, err := time.Parse("2006-01-02 15:04", text)
			if err != nil {
				t.Fatal(err)
			}
			c.policy.Now = now
		}
	}
	emergency := func(text string) func(*drawnCluster) {
		return func(c *drawnCluster) { c.policy.Emergency = text }
	}
	for name, test := range map[string]struct {
		git   []string
		given func(*drawnCluster)
		want  []string
		says  string
		until string
	}{
		"a replacement": {git: []string{tainted("a"), pool("b", "default")}, want: []string{waits}, says: "before 2026-11-25 22:00 UTC (spec.guard.windows); in an emergency: plumbline emergency prod -n plumbline-system --until 2h", until: "2026-11-25 22:00"},
		"in the window": {git: []string{tainted("a"), pool("b", "default")}, given: at("2026-11-25 22:00"), want: []string{writes}},
		"in the freeze": {git: []string{tainted("a"), pool("b", "default")}, given: at("2026-12-21 23:00"), want: []string{waits}, says: "before 2026-12-28 22:00 UTC (spec.guard.freeze: Christmas)", until: "2026-12-28 22:00"},
		"what replaces nothing goes ahead": {
			git:  []string{tainted("a"), pool("b", "default", "weight: 7"), pool("c", "default")},
			want: []string{waits, "Update NodePool/b Differs spec.weight:→7", "Create NodePool/c Missing"}, says: "no node is removed",
		},
		"a removal is a candidate all the same": {git: []string{pool("b", "default")}, want: []string{"Remove NodePool/a"}, says: "no node is removed"},
		"what is held stays held": {
			git: []string{tainted("a"), pool("b", "default")}, says: "no node is removed", want: []string{"Hold NodePool/a MaxDisruptedNodes " + replaces + " replaces 2"},
			given: func(c *drawnCluster) { one := intstr.FromInt32(1); c.policy.Guard.MaxDisruptedNodes = &one },
		},
		"an edit by hand is reverted": {git: []string{tainted("a"), pool("b", "default")}, given: func(c *drawnCluster) { c.policy.NewRevision = false }, want: []string{writes}, says: "no node is removed"},
		"what comes back from a removal as it was": {
			git: []string{pool("a", "default"), pool("b", "default")}, says: "no node is removed", want: []string{"TakeBack NodePool/a Returned", "Returned NodePool/a"},
			given: func(c *drawnCluster) { c.removal(poolRef("a"), v1alpha1.RemovalDraining, "r1") },
		},
		"what comes back changed": {
			git: []string{tainted("a"), pool("b", "default")}, says: "no node is removed", want: []string{waits, "Returned NodePool/a"},
			given: func(c *drawnCluster) { c.removal(poolRef("a"), v1alpha1.RemovalDraining, "r1") },
		},
		"an emergency":              {git: []string{tainted("a"), pool("b", "default")}, given: emergency("2026-11-25T13:00:00Z"), want: []string{writes}},
		"an emergency that is over": {git: []string{tainted("a"), pool("b", "default")}, given: emergency("2026-11-25T12:00:00Z"), want: []string{waits}, says: "in an emergency", until: "2026-11-25 22:00"},
		"one for ever":              {git: []string{tainted("a"), pool("b", "default")}, given: emergency("2027-11-25T12:00:00Z"), want: []string{waits}, says: "emergency-until of the NodeSync is ignored: it must be within 24 hours", until: "2026-11-25 22:00"},
		"one that is no time":       {git: []string{tainted("a"), pool("b", "default")}, given: emergency("true"), want: []string{waits}, says: "it must be a time, for example", until: "2026-11-25 22:00"},
		"another controller uses the name": {git: []string{tainted("a"), pool("b", "default")}, given: func(c *drawnCluster) {
			c.policy.Conflict, c.policy.Emergency = "another controller uses this cluster's name", "2026-11-25T13:00:00Z"
		}, want: []string{waits}, says: "another controller uses this cluster's name"},
		"a NodeSync that is deleted": {given: func(c *drawnCluster) { c.policy.Deleting = true }, want: []string{"Remove NodePool/a", "Remove NodePool/b", "Remove EC2NodeClass/default"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			inFreeze(c)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
			c.live.NodeClaims = slices.Concat(claims("a", 2), claims("b", 2))
			if test.given != nil {
				test.given(c)
			}
			made := c.plan(t, append([]string{class("default")}, test.git...)...)
			if diff := cmp.Diff(test.want, script(made)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if !strings.Contains(made.Frozen.Message, test.says) || test.says == "" && made.Frozen.Message != "" {
				t.Errorf("says %q, want %q in it", made.Frozen.Message, test.says)
			}
			if test.until != "" && made.Frozen.Until.UTC().Format("2006-01-02 15:04") != test.until {
				t.Errorf("until %s, want %s", made.Frozen.Until, test.until)
			}
		})
	}
}

// TestARevertDoesNotWait while Karpenter is still rolling out what it reverts: the nodes that are not replaced yet
// stay. A revert that would replace more nodes than it keeps waits: one node that is left of a definition from weeks ago
// must not let that definition pass.
func TestARevertDoesNotWait(t *testing.T) {
	for name, test := range map[string]struct {
		rolled int
		// leaving reports whether one of the others is being deleted: it does not stay.
		leaving bool
		braked  bool
		// reverted is what was reverted during the freeze.
		reverted v1alpha1.RevertedPool
		want     string
	}{
		"amid the rollout":               {rolled: 2, want: "Update"},
		"amid one that the freeze stops": {rolled: 2, braked: true, want: "Update"},
		"after more than half of it":     {rolled: 3, want: "Wait"},
		"one node is left":               {rolled: 4, want: "Wait"},
		"as many as it keeps":            {rolled: 2, leaving: true, want: "Update"},
		"after it":                       {rolled: 5, want: "Wait"},
		"of a revert":                    {rolled: 2, reverted: v1alpha1.RevertedPool{Pool: "a", From: "0", Definition: "1"}, want: "Wait"},
		"of one in another pool":         {rolled: 2, reverted: v1alpha1.RevertedPool{Pool: "b", From: "0", Definition: "1"}, want: "Update"},
		"the same revert again":          {rolled: 2, reverted: v1alpha1.RevertedPool{Pool: "a", From: "0", Definition: "git"}, want: "Update"},
		"another that was not written":   {rolled: 2, reverted: v1alpha1.RevertedPool{Pool: "a", From: "live", Definition: "1"}, want: "Update"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			inFreeze(c)
			c.policy.CABundle = bundle
			c.have(t, owner, class("default"), tainted("a"))
			c.Edit(t, poolRef("a"), "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(c.notes(t, tainted("a"))) })
			if test.braked {
				c.policy.Braked = map[string]bool{"a": true}
				c.brake(t, "a")
			}
			c.live.NodeClaims = claims("a", 5)
			for i := range c.live.NodeClaims {
				n, made := &c.live.NodeClaims[i], tainted("a")
				if i >= test.rolled {
					n.Drifted, n.DriftReason, made = true, "NodePoolDrifted", pool("a", "default")
				}
				n.Deleting = test.leaving && i == 4
				n.Hashes = plan.HashesOf(c.notes(t, made))
			}
			live := plan.NewObjects(map[render.Ref]*unstructured.Unstructured{poolRef("a"): c.Object(poolRef("a")), classRef("default"): c.Object(classRef("default"))})
			now := plan.MadeBy(live[poolRef("a")], live)
			git := plan.MadeByGit([]render.Object{c.Definition(t, class("default")), c.Definition(t, pool("a", "default"))}, live)("a")
			if test.reverted.Pool != "" {
				if test.reverted.Definition == "git" {
					test.reverted.Definition = git
				}
				if test.reverted.From == "live" {
					test.reverted.From = now
				}
				c.policy.Reverted = []v1alpha1.RevertedPool{test.reverted}
			}
			made := c.plan(t, class("default"), pool("a", "default"))
			if len(made.Changes) != 1 || string(made.Changes[0].Action) != test.want || made.Changes[0].Nodes != test.rolled {
				t.Errorf("plan: %v", script(made))
			}
			recorded := v1alpha1.RevertedPool{Pool: "a", From: now, Definition: git}
			switch is := slices.Contains(made.Reverted, recorded); {
			case test.want == "Wait" || test.reverted.Definition == git:
				if !slices.Equal(made.Reverted, c.policy.Reverted) {
					t.Errorf("reverted %+v, want %+v", made.Reverted, c.policy.Reverted)
				}
			case !is:
				t.Errorf("reverted %+v, want %+v in it", made.Reverted, recorded)
			}
			c.policy.Now = c.policy.Now.Add(10 * time.Hour)
			if made = c.plan(t, class("default"), pool("a", "default")); made.Frozen.Message != "" || made.Reverted != nil {
				t.Errorf("after the freeze: %+v", made.Reverted)
			}
		})
	}
}

// TestARevertThatTerminatesOtherwiseWaits shows that what reverts a rollout waits if it also lets Karpenter terminate
// nodes by consolidation or expiry.
func TestARevertThatTerminatesOtherwiseWaits(t *testing.T) {
	const calm = "disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 10m}"
	expires := func(text, age string) string {
		return strings.Replace(text, "      requirements:", "      expireAfter: "+age+"\n      requirements:", 1)
	}
	for name, test := range map[string]struct{ live, before, git, want string }{
		"nothing else":  {live: tainted("a", calm), before: pool("a", "default", calm), git: pool("a", "default", calm), want: "Update"},
		"less of it":    {live: tainted("a", calm), before: pool("a", "default", calm), git: pool("a", "default", "disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: Never}"), want: "Update"},
		"consolidation": {live: tainted("a", calm), before: pool("a", "default", calm), git: pool("a", "default", "disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}"), want: "Wait"},
		"expiry":        {live: expires(tainted("a", calm), "Never"), before: expires(pool("a", "default", calm), "24h"), git: expires(pool("a", "default", calm), "24h"), want: "Wait"},
		"no expiry":     {live: expires(tainted("a", calm), "24h"), before: expires(pool("a", "default", calm), "Never"), git: expires(pool("a", "default", calm), "Never"), want: "Update"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			inFreeze(c)
			c.policy.CABundle = bundle
			c.have(t, owner, class("default"), test.live)
			c.Edit(t, poolRef("a"), "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(c.notes(t, test.live)) })
			c.live.NodeClaims = claims("a", 5)
			for i := range c.live.NodeClaims {
				n, made := &c.live.NodeClaims[i], test.live
				if i >= 2 {
					n.Drifted, n.DriftReason, made = true, "NodePoolDrifted", test.before
				}
				n.Hashes = plan.HashesOf(c.notes(t, made))
			}
			made := c.plan(t, class("default"), test.git)
			if len(made.Changes) != 1 || string(made.Changes[0].Action) != test.want {
				t.Fatalf("plan: %v, want %s", script(made), test.want)
			}
			if passes := test.want == "Update"; passes != (made.Changes[0].Reverts != nil) || passes != (len(made.Reverted) == 1) {
				t.Errorf("reverts %v, recorded %+v", made.Changes[0].Reverts, made.Reverted)
			}
		})
	}
}

// TestARevertOfAClassIsOneOfItsPools whose nodes drift by it: the other pool of the class has a rollout of its template
// only, which is not reverted.
func TestARevertOfAClassIsOneOfItsPools(t *testing.T) {
	c := newCluster(t)
	inFreeze(c)
	c.policy.CABundle = bundle
	changed := class("default", "detailedMonitoring: true")
	c.have(t, owner, changed, pool("a", "default"), tainted("b"))
	for ref, text := range map[render.Ref]string{classRef("default"): changed, poolRef("a"): pool("a", "default"), poolRef("b"): tainted("b")} {
		c.Edit(t, ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(c.notes(t, text)) })
	}
	c.live.NodeClaims = slices.Concat(claims("a", 2), claims("b", 2))
	notes := c.notes(t, pool("a", "default"))
	maps.Copy(notes, c.notes(t, class("default")))
	for i := range c.live.NodeClaims {
		n := &c.live.NodeClaims[i]
		n.Drifted, n.DriftReason, n.Hashes = true, "NodeClassDrift", plan.HashesOf(notes)
		if n.Pool == "b" {
			n.DriftReason = "NodePoolDrifted"
		}
	}
	notes = c.notes(t, pool("a", "default"))
	maps.Copy(notes, c.notes(t, changed))
	rolled := &c.live.NodeClaims[0] // the revert replaces this node again
	rolled.Drifted, rolled.DriftReason, rolled.Hashes = false, "", plan.HashesOf(notes)
	made := c.plan(t, class("default"), pool("a", "default"), tainted("b"))
	if len(made.Changes) != 1 || made.Changes[0].Action != plan.Update {
		t.Fatalf("plan: %v", script(made))
	}
	if diff := cmp.Diff([]string{"a"}, made.Changes[0].Reverts); diff != "" {
		t.Errorf("reverts in (-want +got):\n%s", diff)
	}
}

// TestARevertOfAClassBrakesItsOtherPools shows that a class, whose revert would replace more nodes of one pool than it
// keeps, waits until the rollout of that pool is stopped, and for the end of the freeze if it would replace more nodes of
// all its pools than it keeps, or if one of them was reverted before.
func TestARevertOfAClassBrakesItsOtherPools(t *testing.T) {
	for name, test := range map[string]struct {
		// rolled is how many of 4 nodes each of pools a and b have already been replaced.
		rolled map[string]int
		// braked are the pools whose brake is recorded, and set those of which it is also set.
		braked, set []string
		reverted    []v1alpha1.RevertedPool
		action      plan.Action
		reverts     []string
		first       []string
	}{
		"it keeps more in both":                    {rolled: map[string]int{"a": 1, "b": 2}, action: plan.Update, reverts: []string{"a", "b"}},
		"it replaces more in one":                  {rolled: map[string]int{"a": 1, "b": 3}, action: plan.Wait, first: []string{"b"}},
		"the brake of that one is only recorded":   {rolled: map[string]int{"a": 1, "b": 3}, braked: []string{"b"}, action: plan.Wait, first: []string{"b"}},
		"the brake of that one is set":             {rolled: map[string]int{"a": 1, "b": 3}, braked: []string{"b"}, set: []string{"b"}, action: plan.Update, reverts: []string{"a"}},
		"a brake that is not recorded":             {rolled: map[string]int{"a": 1, "b": 3}, set: []string{"b"}, action: plan.Wait, first: []string{"b"}},
		"it replaces more in all":                  {rolled: map[string]int{"a": 2, "b": 3}, braked: []string{"b"}, set: []string{"b"}, action: plan.Wait},
		"one was reverted before":                  {rolled: map[string]int{"a": 1, "b": 2}, reverted: []v1alpha1.RevertedPool{{Pool: "b", From: "0", Definition: "1"}}, action: plan.Wait},
		"one that it does not affect was reverted": {rolled: map[string]int{"a": 1, "b": 2}, reverted: []v1alpha1.RevertedPool{{Pool: "c", From: "0", Definition: "1"}}, action: plan.Update, reverts: []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			inFreeze(c)
			c.policy.CABundle, c.policy.Reverted, c.policy.Braked = bundle, test.reverted, map[string]bool{}
			changed := class("default", "detailedMonitoring: true")
			c.have(t, owner, changed, pool("a", "default"), pool("b", "default"))
			for ref, text := range map[render.Ref]string{classRef("default"): changed, poolRef("a"): pool("a", "default"), poolRef("b"): pool("b", "default")} {
				c.Edit(t, ref, "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(c.notes(t, text)) })
			}
			for _, name := range test.braked {
				c.policy.Braked[name] = true
			}
			for _, name := range test.set {
				c.brake(t, name)
			}
			c.live.NodeClaims = slices.Concat(claims("a", 4), claims("b", 4))
			for i := range c.live.NodeClaims {
				n, from := &c.live.NodeClaims[i], changed
				if i%4 >= test.rolled[n.Pool] {
					n.Drifted, n.DriftReason, from = true, "NodeClassDrift", class("default")
				}
				notes := c.notes(t, pool(n.Pool, "default"))
				maps.Copy(notes, c.notes(t, from))
				n.Hashes = plan.HashesOf(notes)
			}
			made := c.plan(t, class("default"), pool("a", "default"), pool("b", "default"))
			at := slices.IndexFunc(made.Changes, func(c plan.Change) bool { return c.Ref == classRef("default") })
			if at < 0 {
				t.Fatalf("plan: %v", script(made))
			}
			got := made.Changes[at]
			if diff := cmp.Diff([]any{test.action, test.reverts, test.first}, []any{got.Action, got.Reverts, got.BrakesFirst}); diff != "" {
				t.Errorf("action, reverts and the pools to brake first (-want +got):\n%s", diff)
			}
			if says := strings.Contains(got.Message, "EC2NodeClass/default is reverted once plumbline has stopped the rollout in NodePool/b"); says != (test.first != nil) {
				t.Errorf("it says %q", got.Message)
			}
			for _, name := range test.reverts {
				if !slices.ContainsFunc(made.Reverted, func(r v1alpha1.RevertedPool) bool { return r.Pool == name && r.From != "" && r.Definition != "" }) {
					t.Errorf("NodePool/%s is not recorded: %+v", name, made.Reverted)
				}
			}
			if want := len(test.reverts) + len(test.reverted); len(made.Reverted) != want {
				t.Errorf("%d NodePools are recorded, want %d: %+v", len(made.Reverted), want, made.Reverted)
			}
		})
	}
}

// brake sets the brake of a NodePool.
func (c *drawnCluster) brake(t *testing.T, pool string) {
	t.Helper()
	brake := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": []any{
		map[string]any{"nodes": "10%"}, map[string]any{"nodes": "0", "reasons": []any{"Drifted"}},
	}}}}}
	brake.SetGroupVersionKind(c.Object(poolRef(pool)).GroupVersionKind())
	brake.SetName(pool)
	if err := c.ApplyAs(t.Context(), brake, v1alpha1.BrakeFieldManager, true); err != nil {
		t.Fatal(err)
	}
}

// TestExtremesOf: when the budgets of a pool of ten nodes allow nothing, and when everything.
func TestExtremesOf(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 30, 0, 0, time.UTC) // a Tuesday
	at := func(day, hour int) time.Time { return time.Date(2026, 11, day, hour, 0, 0, 0, time.UTC) }
	budget := func(nodes, schedule string, lasts time.Duration, reasons ...karpv1.DisruptionReason) karpv1.Budget {
		b := karpv1.Budget{Nodes: nodes, Reasons: reasons}
		if schedule != "" {
			b.Schedule, b.Duration = &schedule, &metav1.Duration{Duration: lasts}
		}
		return b
	}
	for name, c := range map[string]struct {
		budgets []karpv1.Budget
		want    plan.Extremes
	}{
		"a share":             {[]karpv1.Budget{budget("10%", "", 0)}, plan.Extremes{Most: 1}},
		"never":               {[]karpv1.Budget{budget("0", "", 0)}, plan.Extremes{}},
		"all":                 {[]karpv1.Budget{budget("100%", "", 0)}, plan.Extremes{Most: 10, All: now}},
		"of another reason":   {[]karpv1.Budget{budget("0", "", 0, karpv1.DisruptionReasonEmpty)}, plan.Extremes{Most: 10, All: now}},
		"all on the weekend":  {[]karpv1.Budget{budget("0", "0 0 * * 0-5", 24*time.Hour)}, plan.Extremes{Most: 10, Opens: at(28, 0), All: at(28, 0)}},
		"some on the weekend": {[]karpv1.Budget{budget("0", "0 0 * * 0-5", 24*time.Hour), budget("2", "", 0)}, plan.Extremes{Most: 2, Opens: at(28, 0)}},
		"all at night":        {[]karpv1.Budget{budget("2", "0 6 * * *", 16*time.Hour)}, plan.Extremes{Most: 10, All: at(24, 22)}},
	} {
		t.Run(name, func(t *testing.T) {
			pool := &karpv1.NodePool{}
			pool.Spec.Disruption.Budgets = c.budgets
			got, err := plan.ExtremesOf(pool, 10, karpv1.DisruptionReasonDrifted, now)
			if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
				t.Errorf("(-want +got), error %v:\n%s", err, diff)
			}
		})
	}
	pool := &karpv1.NodePool{}
	pool.Spec.Disruption.Budgets = []karpv1.Budget{budget("1", "not a schedule", time.Hour)}
	if _, err := plan.ExtremesOf(pool, 10, karpv1.DisruptionReasonDrifted, now); err == nil {
		t.Error("a budget that cannot be parsed is no error")
	}
}
