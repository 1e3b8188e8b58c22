package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// soloAndSolob are two pools of one node each that one commit removes, where a pod of solo would be pending if both went.
func soloAndSolob(t *testing.T) (c *cluster, git []string) {
	t.Helper()
	c = newCluster(t)
	c.have(t, owner, class("default"), pool("general", "default"), pool("solo", "default"), pool("solob", "default"))
	c.live.NodeClaims = append(claims("solo", 1), claims("solob", 1)...)
	return c, []string{class("default"), pool("general", "default")}
}

// pending is what the simulation finds of pods of solo: of the workload that the first three letters of each name.
func pending(pods ...string) plan.Landing {
	landing := plan.Landing{Known: true, Nowhere: map[string][]plan.Unschedulable{}}
	for _, pod := range pods {
		landing.Nowhere["solo"] = append(landing.Nowhere["solo"], plan.Unschedulable{Pod: "default/" + pod, Workload: "default/Deployment/" + pod[:3], Reason: "no pool has the label"})
	}
	return landing
}

// holds are the removals of a Plan, with all reasons for which they are held.
func holds(p *plan.Plan) []string {
	var lines []string
	for _, c := range p.Removals {
		line := c.Ref.Name
		for _, h := range c.Holds {
			line += " " + h.Reason
		}
		lines = append(lines, line)
	}
	return lines
}

// TestAnApprovalShowsEveryGate: what is held for one reason is weighed for all others before people can approve it.
func TestAnApprovalShowsEveryGate(t *testing.T) {
	c, git := soloAndSolob(t)
	first := c.plan(t, git...)
	if diff := cmp.Diff([]string{"NodePool/solo", "NodePool/solob"}, first.Lands()); diff != "" {
		t.Errorf("simulated (-want +got):\n%s", diff)
	}
	c.policy.Landing = plan.Landing{Asking: true}
	simulating := c.plan(t, git...)
	if simulating.Approvable != nil || !strings.HasSuffix(simulating.Removals[0].Message, "; "+plan.Simulating) {
		t.Errorf("while it is simulated: %+v can be approved; %q", simulating.Approvable, simulating.Removals[0].Message)
	}
	c.policy.Landing = pending("one-a")
	shown := c.plan(t, git...)
	if diff := cmp.Diff([]string{"solo UnschedulablePods MaxRemovedPools", "solob MaxRemovedPools"}, holds(shown)); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	message := shown.Removals[0].Message
	if !strings.Contains(message, "default/one-a (no pool has the label)") || !strings.Contains(message, "guard.maxRemovedPools is 1") {
		t.Errorf("it says %q", message)
	}
	if got := shown.Approvable.Summary(); got != "drains 2 of 2 nodes in 2 pools, 1 pod pending" {
		t.Errorf("summed up as %q", got)
	}
	if shown.Approvable.Digest == first.Approvable.Digest {
		t.Error("the digest is the same without the reason")
	}
}

// TestAnApprovalCoversWhatWasShown: another reason, or other pods, are held again, by another digest.
func TestAnApprovalCoversWhatWasShown(t *testing.T) {
	gone := []string{"solo", "solob"}
	for name, test := range map[string]struct {
		change func(*cluster)
		want   []string
	}{
		"what was shown":             {func(*cluster) {}, gone},
		"a pod of the same workload": {func(c *cluster) { c.policy.Landing = pending("one-b") }, gone},
		"no pod any more":            {func(c *cluster) { c.policy.Landing = pending() }, gone},
		"two pods of it":             {func(c *cluster) { c.policy.Landing = pending("one-a", "one-b") }, []string{"solo UnschedulablePods", "solob"}},
		"another workload":           {func(c *cluster) { c.policy.Landing = pending("two-a") }, []string{"solo UnschedulablePods", "solob"}},
		"approved for other reasons": {func(c *cluster) { c.policy.Approved[0].Entries[1].Reasons = []string{plan.ReasonPolicy} }, []string{"solo", "solob MaxRemovedPools"}},
		"simulated again":            {func(c *cluster) { c.policy.Landing = plan.Landing{Asking: true} }, gone},
	} {
		t.Run(name, func(t *testing.T) {
			c, git := soloAndSolob(t)
			c.policy.Landing = pending("one-a")
			shown := c.plan(t, git...)
			approve(c, shown)
			test.change(c)
			p := c.plan(t, git...)
			if diff := cmp.Diff(test.want, holds(p)); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			if p.Approvable != nil && p.Approvable.Digest == shown.Approvable.Digest {
				t.Error("the digest is the one that was approved")
			}
		})
	}
}

// TestAllNodesThatAnApprovalOpens are weighed together: what is held for another reason counts as if it went.
func TestAllNodesThatAnApprovalOpens(t *testing.T) {
	c, git := soloAndSolob(t)
	c.live.NodeClaims = append(claims("solo", 3), claims("solob", 3)...)
	p := c.plan(t, git...)
	if diff := cmp.Diff([]string{"solo MaxRemovedPools MaxDisruptedNodes", "solob MaxRemovedPools MaxDisruptedNodes"}, holds(p)); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
	approve(c, p)
	if diff := cmp.Diff([]string{"solo", "solob"}, holds(c.plan(t, git...))); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
}

// TestADigestStaysWhileNothingNewIsHeld: what people were shown covers fewer pods, and no others.
func TestADigestStaysWhileNothingNewIsHeld(t *testing.T) {
	c, git := soloAndSolob(t)
	c.policy.Landing = pending("one-a")
	shown := c.plan(t, git...).Approvable
	before := &v1alpha1.HeldPlan{Outcome: shown.Outcome, WeighedBy: shown.WeighedBy, Nodes: 2, Entries: shown.Entries}
	for pods, within := range map[string]bool{"": true, "one-b": true, "two-a": false, "one-a one-b": false} {
		c.policy.Landing = pending(strings.Fields(pods)...)
		if c.plan(t, git...).Approvable.Within(before) != within {
			t.Errorf("with pods %q it is within what was shown: %t", pods, !within)
		}
	}
}

// TestManyWorkloads of pending pods are counted, and named while a status has room.
func TestManyWorkloads(t *testing.T) {
	c, git := soloAndSolob(t)
	var pods []string
	for i := range 150 {
		pods = append(pods, fmt.Sprintf("%03d-a", i))
	}
	c.policy.Landing = pending(pods...)
	found := c.plan(t, git...).Approvable.Entries[0].UnschedulablePods
	if last := found[len(found)-1]; len(found) != 101 || last.Pods != 50 || !strings.HasPrefix(last.Workload, "50 more (sha256:") {
		t.Errorf("%d workloads, the last is %+v", len(found), last)
	}
}
