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

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// inFreeze is a Wednesday at noon, with a window in its night and a freeze later.
func inFreeze(c *cluster) {
	c.policy.Now = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	c.policy.Guard.Windows = []v1alpha1.GuardWindow{{Schedule: "0 22 * * mon-fri", Duration: metav1.Duration{Duration: 6 * time.Hour}}}
	c.policy.Guard.Freeze = []v1alpha1.GuardFreeze{{From: "2026-12-20", To: "2026-12-27", Reason: "Christmas"}}
	all := intstr.FromString("100%")
	c.policy.Guard.MaxDisruptedNodes = &all
}

// TestWhatWaitsForAWindow: what ends or replaces nodes, and nothing else; not what reverts.
func TestWhatWaitsForAWindow(t *testing.T) {
	const replaces = `spec.template.spec.taints:→[{"effect":"NoSchedule","key":"a"}]`
	const waits = "Wait NodePool/a Frozen " + replaces + " on a window of spec.guard replaces 2"
	const writes = "Update NodePool/a Differs " + replaces + " replaces 2"
	at := func(text string) func(*cluster) {
		return func(c *cluster) {
			now, err := time.Parse("2006-01-02 15:04", text)
			if err != nil {
				t.Fatal(err)
			}
			c.policy.Now = now
		}
	}
	emergency := func(text string) func(*cluster) {
		return func(c *cluster) { c.policy.Emergency = text }
	}
	for name, test := range map[string]struct {
		git   []string
		given func(*cluster)
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
			given: func(c *cluster) { one := intstr.FromInt32(1); c.policy.Guard.MaxDisruptedNodes = &one },
		},
		"an edit by hand is reverted": {git: []string{tainted("a"), pool("b", "default")}, given: func(c *cluster) { c.policy.NewRevision = false }, want: []string{writes}, says: "no node is removed"},
		"what comes back from a removal as it was": {
			git: []string{pool("a", "default"), pool("b", "default")}, says: "no node is removed", want: []string{"TakeBack NodePool/a Returned", "Returned NodePool/a"},
			given: func(c *cluster) { c.removal(poolRef("a"), v1alpha1.RemovalDraining, "r1") },
		},
		"what comes back changed": {
			git: []string{tainted("a"), pool("b", "default")}, says: "no node is removed", want: []string{waits, "Returned NodePool/a"},
			given: func(c *cluster) { c.removal(poolRef("a"), v1alpha1.RemovalDraining, "r1") },
		},
		"an emergency":               {git: []string{tainted("a"), pool("b", "default")}, given: emergency("2026-11-25T13:00:00Z"), want: []string{writes}},
		"an emergency that is over":  {git: []string{tainted("a"), pool("b", "default")}, given: emergency("2026-11-25T12:00:00Z"), want: []string{waits}, says: "in an emergency", until: "2026-11-25 22:00"},
		"one for ever":               {git: []string{tainted("a"), pool("b", "default")}, given: emergency("2027-11-25T12:00:00Z"), want: []string{waits}, says: "emergency-until of the NodeSync does not count: it has to be within 24 hours", until: "2026-11-25 22:00"},
		"one that is no time":        {git: []string{tainted("a"), pool("b", "default")}, given: emergency("true"), want: []string{waits}, says: "it has to be a time, such as", until: "2026-11-25 22:00"},
		"a NodeSync that is deleted": {given: func(c *cluster) { c.policy.Deleting = true }, want: []string{"Remove NodePool/a", "Remove NodePool/b", "Remove EC2NodeClass/default"}},
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

// TestARevertDoesNotWait where Karpenter is still rolling out what it takes back: the nodes that are not
// replaced yet stay. One that would replace all of them again waits.
func TestARevertDoesNotWait(t *testing.T) {
	for name, test := range map[string]struct {
		rolled int
		braked bool
		want   string
	}{
		"amid the rollout":               {rolled: 2, want: "Update"},
		"amid one that the freeze stops": {rolled: 2, braked: true, want: "Update"},
		"after it":                       {rolled: 5, want: "Wait"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			inFreeze(c)
			c.policy.CABundle = bundle
			c.have(t, owner, class("default"), tainted("a"))
			c.Edit(t, poolRef("a"), "karpenter", func(o *unstructured.Unstructured) { o.SetAnnotations(c.notes(t, tainted("a"))) })
			if test.braked {
				c.policy.Braked = map[string]bool{"a": true}
				brake := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": []any{
					map[string]any{"nodes": "10%"}, map[string]any{"nodes": "0", "reasons": []any{"Drifted"}},
				}}}}}
				live := c.Object(poolRef("a"))
				brake.SetGroupVersionKind(live.GroupVersionKind())
				brake.SetName(live.GetName())
				if err := c.ApplyAs(t.Context(), brake, v1alpha1.BrakeFieldManager, true); err != nil {
					t.Fatal(err)
				}
			}
			c.live.NodeClaims = claims("a", 5)
			for i := range c.live.NodeClaims {
				n, made := &c.live.NodeClaims[i], tainted("a")
				if i >= test.rolled {
					n.Drifted, n.DriftReason, made = true, "NodePoolDrifted", pool("a", "default")
				}
				n.Hashes = plan.HashesOf(c.notes(t, made))
			}
			made := c.plan(t, class("default"), pool("a", "default"))
			if len(made.Changes) != 1 || string(made.Changes[0].Action) != test.want || made.Changes[0].Nodes != test.rolled {
				t.Errorf("plan: %v", script(made))
			}
		})
	}
}

// TestARevertOfAClassIsOneOfItsPools in which nodes are outdated by it: the other pool of the class has a
// rollout of its template only, which nothing takes back.
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
	rolled := &c.live.NodeClaims[0] // the revert replaces this one again
	rolled.Drifted, rolled.DriftReason, rolled.Hashes = false, "", plan.HashesOf(notes)
	made := c.plan(t, class("default"), pool("a", "default"), tainted("b"))
	if len(made.Changes) != 1 || made.Changes[0].Action != plan.Update {
		t.Fatalf("plan: %v", script(made))
	}
	if diff := cmp.Diff([]string{"a"}, made.Changes[0].Reverts); diff != "" {
		t.Errorf("reverts in (-want +got):\n%s", diff)
	}
}
