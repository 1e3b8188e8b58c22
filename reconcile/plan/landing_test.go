package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// TestPodsWithoutAPlace: unschedulable pods hold only the removal of the nodes that they run on. People may approve it.
func TestPodsWithoutAPlace(t *testing.T) {
	lost := plan.Landing{Known: true, Nowhere: map[string][]plan.Unschedulable{"b": {{Pod: "web/x", Reason: "no instance type fits."}}}}
	const words = "1 pod of its nodes would be pending: add a NodePool that can run them, or set guard.unschedulablePods to Ignore: web/x (no instance type fits)"
	removed := []string{class("default"), pool("a", "default")}
	held := func(c *drawnCluster) {
		c.removal(poolRef("b"), v1alpha1.RemovalHeld, "main@sha1:new")
		c.live.Removals[0].Reason, c.live.Removals[0].Message = plan.ReasonUnschedulablePods, words
	}
	for name, test := range map[string]struct {
		landing plan.Landing
		change  func(*drawnCluster)
		git     []string
		want    []string
		begins  []string
	}{
		"a removal":     {landing: lost, git: removed, want: []string{"Hold NodePool/b UnschedulablePods"}, begins: []string{"NodePool/b"}},
		"of other pods": {landing: plan.Landing{Nowhere: map[string][]plan.Unschedulable{"a": {{Pod: "web/x"}}}}, git: removed, want: []string{"Remove NodePool/b"}, begins: []string{"NodePool/b"}},
		"ignored": {
			landing: lost, git: removed, want: []string{"Remove NodePool/b"}, begins: []string{"NodePool/b"},
			change: func(c *drawnCluster) { c.policy.Guard.UnschedulablePods = v1alpha1.UnschedulablePodsIgnore },
		},
		"a removal, not known yet":         {landing: plan.Landing{Asking: true}, git: removed, want: []string{"Remove NodePool/b"}, begins: []string{"NodePool/b"}},
		"unknown":                          {landing: plan.Landing{Unknown: "no right"}, git: removed, want: []string{"Remove NodePool/b"}, begins: []string{"NodePool/b"}},
		"left to itself":                   {landing: lost, git: removed, want: []string{"Hold NodePool/b Orphan"}, change: func(c *drawnCluster) { c.policy.Orphans = true }},
		"a drain":                          {landing: lost, want: []string{"Remove NodePool/a", "Remove NodePool/b", "Remove EC2NodeClass/default"}, change: func(c *drawnCluster) { c.policy.Deleting = true }},
		"held before, not known again yet": {landing: plan.Landing{Asking: true}, git: removed, want: []string{"Hold NodePool/b UnschedulablePods"}, begins: []string{"NodePool/b"}, change: held},
		"held before, and who asks knows nothing": {git: removed, want: []string{"Hold NodePool/b UnschedulablePods"}, begins: []string{"NodePool/b"}, change: held},
		"held before, and a pool has come":        {landing: plan.Landing{Known: true}, git: removed, want: []string{"Remove NodePool/b"}, begins: []string{"NodePool/b"}, change: held},
		"begun":                                   {landing: lost, git: removed, want: []string{}, change: func(c *drawnCluster) { c.removal(poolRef("b"), v1alpha1.RemovalDraining, "main@sha1:old") }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
			c.live.NodeClaims = claims("b", 3)
			c.policy.Landing = test.landing
			if test.change != nil {
				test.change(c)
			}
			p := c.plan(t, test.git...)
			if diff := cmp.Diff(test.want, script(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.begins, p.StartIfSchedulable()); diff != "" {
				t.Errorf("begins (-want +got):\n%s", diff)
			}
			if !slices.ContainsFunc(p.Removals, func(r plan.Candidate) bool { return r.Reason == plan.ReasonUnschedulablePods }) {
				return
			}
			if p.Removals[0].Message != words {
				t.Errorf("says %q", p.Removals[0].Message)
			}
			if test.landing.Asking {
				if p.Approvable != nil {
					t.Error("it can be approved before it is known")
				}
				return
			}
			approve(c, p)
			if diff := cmp.Diff([]string{"Remove NodePool/b"}, script(c.plan(t, test.git...))); diff != "" {
				t.Errorf("approved (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOlderScheduling: both versions of Karpenter are named if the installed one is older than the one that schedules in
// a simulation.
func TestOlderScheduling(t *testing.T) {
	for installed, want := range map[string]bool{"": false, "1.14.3": true, schema.EmbeddedVersion: false, "1.99.0": false, "main": false} {
		got := plan.OlderScheduling(installed)
		if named := strings.Contains(got, schema.EmbeddedVersion) && strings.Contains(got, installed); (got != "") != want || want && !named {
			t.Errorf("%q: %q", installed, got)
		}
	}
}

// TestLeavingElsewhere: of two removals at once, one counts the other.
func TestLeavingElsewhere(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 3, 1, 12, 0, second, 0, time.UTC) }
	removal := func(phase v1alpha1.RemovalPhase, second int) v1alpha1.Removal {
		return v1alpha1.Removal{Kind: render.NodePool, Name: "pool", Phase: phase, RecordedAt: metav1.NewTime(at(second))}
	}
	class := v1alpha1.Removal{Kind: render.EC2NodeClass, Name: "class", Phase: v1alpha1.RemovalDraining}
	for name, c := range map[string]struct {
		mine, theirs []v1alpha1.Removal
		// counts reports whether mine counts theirs, and counted whether theirs counts mine.
		counts, counted bool
	}{
		"nothing":            {},
		"a class":            {theirs: []v1alpha1.Removal{class}},
		"theirs has begun":   {mine: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalDraining, 2)}, counts: true, counted: true},
		"theirs is held":     {theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalHeld, 1)}},
		"theirs is gone":     {theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalGone, 1)}},
		"theirs is recorded": {theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, counts: true},
		"theirs is first":    {mine: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 2)}, theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, counts: true},
		"theirs is second":   {mine: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 2)}, counted: true},
		"at once":            {mine: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, counted: true},
		"mine is held since": {mine: []v1alpha1.Removal{removal(v1alpha1.RemovalHeld, 2)}, theirs: []v1alpha1.Removal{removal(v1alpha1.RemovalPacing, 1)}, counts: true},
	} {
		t.Run(name, func(t *testing.T) {
			sync := func(name string, removals []v1alpha1.Removal) v1alpha1.NodeSync {
				return v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Status: v1alpha1.NodeSyncStatus{Removals: removals}}
			}
			all := []v1alpha1.NodeSync{sync("mine", c.mine), sync("theirs", c.theirs)}
			of := func(counts bool) []render.Ref {
				if counts {
					return []render.Ref{{Kind: render.NodePool, Name: "pool"}}
				}
				return nil
			}
			if got := plan.LeavingElsewhere(all, &all[0]); !slices.Equal(got, of(c.counts)) {
				t.Errorf("mine counts %v", got)
			}
			if got := plan.LeavingElsewhere(all, &all[1]); !slices.Equal(got, of(c.counted)) {
				t.Errorf("theirs counts %v", got)
			}
		})
	}
}
