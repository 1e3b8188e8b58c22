package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

func TestGuard(t *testing.T) {
	limit := func(n int32) *int32 { return &n }
	tests := map[string]struct {
		// pools that are ours; those in keeps are in Git.
		pools, keeps []string
		given        func(*testing.T, *drawnCluster)
		// git is further content of Git.
		git  []string
		want []string
	}{
		"one of two": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			want: []string{"Remove NodePool/b"},
		},
		"two of three are too many, both wait": {
			pools: []string{"a", "b", "c"}, keeps: []string{"a"},
			want: []string{"Hold NodePool/b MaxRemovedPools", "Hold NodePool/c MaxRemovedPools"},
		},
		"two of three, allowed": {
			pools: []string{"a", "b", "c"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) { c.policy.Guard.MaxRemovedPools = limit(2) },
			want:  []string{"Remove NodePool/b", "Remove NodePool/c"},
		},
		"none is allowed": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) { c.policy.Guard.MaxRemovedPools = limit(0) },
			want:  []string{"Hold NodePool/b MaxRemovedPools"},
		},
		"one is leaving already": {
			pools: []string{"a", "b", "c"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) { c.removal(poolRef("b"), v1alpha1.RemovalDraining, "r1") },
			want:  []string{"Hold NodePool/c MaxRemovedPools"},
		},
		"the one that was leaving is gone": {
			pools: []string{"a", "b", "c"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.removal(poolRef("b"), v1alpha1.RemovalGone, "r1")
				c.removal(poolRef("c"), v1alpha1.RemovalHeld, "r2")
				c.Delete(poolRef("b"))
			},
			want: []string{"Remove NodePool/c"},
		},
		"two are held and stay so, one by one too": {
			pools: []string{"a", "b", "c"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.removal(poolRef("b"), v1alpha1.RemovalHeld, "r1")
				c.removal(poolRef("c"), v1alpha1.RemovalHeld, "r1")
			},
			want: []string{"Hold NodePool/b MaxRemovedPools", "Hold NodePool/c MaxRemovedPools"},
		},
		"the oldest goes first when the limit is raised, and is not overtaken": {
			pools: []string{"a", "b", "c", "d"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.removal(poolRef("b"), v1alpha1.RemovalHeld, "r1")
				c.removal(poolRef("d"), v1alpha1.RemovalHeld, "r1")
				for i := range c.live.Removals {
					c.live.Removals[i].RecordedAt = metav1.NewTime(time.Unix(int64(i), 0))
				}
				c.policy.Guard.MaxRemovedPools = limit(2)
			},
			want: []string{"Remove NodePool/b", "Remove NodePool/d", "Hold NodePool/c MaxRemovedPools"},
		},
		"a later commit with one does not pass an earlier one with two": {
			pools: []string{"a", "b", "c", "d"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.removal(poolRef("c"), v1alpha1.RemovalHeld, "r1")
				c.removal(poolRef("d"), v1alpha1.RemovalHeld, "r1")
			},
			want: []string{"Hold NodePool/c MaxRemovedPools", "Hold NodePool/d MaxRemovedPools", "Hold NodePool/b MaxRemovedPools"},
		},
		"the last pool": {
			pools: []string{"a"},
			want:  []string{"Hold NodePool/a LastPool"},
		},
		"the last pool, allowed": {
			pools: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) { c.policy.Guard.AllowLastPool = true },
			want:  []string{"Remove NodePool/a"},
		},
		"the last two, both allowed to leave at a time": {
			pools: []string{"a", "b"},
			given: func(_ *testing.T, c *drawnCluster) { c.policy.Guard.MaxRemovedPools = limit(2) },
			want:  []string{"Hold NodePool/a LastPool", "Hold NodePool/b LastPool"},
		},
		"what is left may not grow": {
			pools: []string{"a", "b"},
			given: func(t *testing.T, c *drawnCluster) { c.have(t, owner, pool("full", "default", `limits: {cpu: "0"}`)) },
			git:   []string{pool("full", "default", `limits: {cpu: "0"}`)},
			want:  []string{"Hold NodePool/a LastPool", "Hold NodePool/b LastPool"},
		},
		"what is left is static": {
			pools: []string{"a"},
			given: func(t *testing.T, c *drawnCluster) { c.have(t, owner, pool("fixed", "default", "replicas: 3")) },
			git:   []string{pool("fixed", "default", "replicas: 3")},
			want:  []string{"Hold NodePool/a LastPool"},
		},
		"Karpenter's controller runs on it": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.policy.Hosts = []plan.Host{{NodePool: "b", Node: "n1", Workload: "Karpenter's controller", Pod: "kube-system/karpenter-1"}}
			},
			want: []string{"Hold NodePool/b HostsController"},
		},
		"it runs on another": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.policy.Hosts = []plan.Host{{NodePool: "a", Node: "n1", Workload: "plumbline", Pod: "plumbline-system/plumbline-1"}}
			},
			want: []string{"Remove NodePool/b"},
		},
		"the status is lost": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(t *testing.T, c *drawnCluster) {
				c.have(t, owner, class("unused"))
				c.policy.StatusLost = true
			},
			want: []string{"Hold NodePool/b StatusLost", "Hold EC2NodeClass/unused StatusLost"},
		},
		"the status is back, and yet nobody has said a word": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.removal(poolRef("b"), v1alpha1.RemovalHeld, "r1")
				c.live.Removals[0].Reason = v1alpha1.ReasonStatusLost
			},
			want: []string{"Hold NodePool/b StatusLost"},
		},
		"released by name": {
			pools: []string{"a", "b", "c"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.policy.StatusLost = true
				c.policy.Released = map[types.UID]bool{c.Object(poolRef("c")).GetUID(): true}
			},
			want: []string{"Hold NodePool/b StatusLost", "Remove NodePool/c"},
		},
		"HEAD is older than what was applied": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) { c.policy.BranchReset = true },
			want:  []string{"Hold NodePool/b OlderRevision"},
		},
		"HEAD was older than what was applied, and has not moved since": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) { c.setBack("b", "main@sha1:new") },
			want:  []string{"Hold NodePool/b OlderRevision"},
		},
		"a newer commit lacks it too": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) { c.setBack("b", "main@sha1:older") },
			want:  []string{"Remove NodePool/b"},
		},
		"HEAD is set back once more": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.setBack("b", "main@sha1:older")
				c.policy.BranchReset = true
			},
			want: []string{"Hold NodePool/b OlderRevision"},
		},
		"HEAD may be older than what was applied": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) { c.policy.HistoryUnknown = true },
			want:  []string{"Hold NodePool/b HistoryUnknown"},
		},
		"HEAD may be older, and nobody knows yet": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.setBack("b", "main@sha1:new")
				c.live.Removals[0].Reason = v1alpha1.ReasonHistoryUnknown
				c.policy.HistoryUnknown = true
			},
			want: []string{"Hold NodePool/b HistoryUnknown"},
		},
		"a newer commit follows one that was older, and nobody knows yet": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.setBack("b", "main@sha1:older")
				c.policy.HistoryUnknown = true
			},
			want: []string{"Hold NodePool/b HistoryUnknown"}, // it does not depend on the newer commit
		},
		"HEAD is known not to be older after all": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.setBack("b", "main@sha1:new")
				c.live.Removals[0].Reason = v1alpha1.ReasonHistoryUnknown
			},
			want: []string{"Remove NodePool/b"},
		},
		"HEAD is older, and it left before that": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.removal(poolRef("b"), v1alpha1.RemovalPacing, "r1")
				c.policy.BranchReset = true
			},
			want: []string{"Remove NodePool/b"},
		},
		"HEAD is older, and a person has released it": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.policy.BranchReset = true
				c.policy.Released = map[types.UID]bool{c.Object(poolRef("b")).GetUID(): true}
			},
			want: []string{"Remove NodePool/b"},
		},
		"HEAD is older again, and the release was for the last time": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.policy.BranchReset = true
				c.policy.UsedUp = map[types.UID]bool{c.Object(poolRef("b")).GetUID(): true}
			},
			want: []string{"Hold NodePool/b OlderRevision"},
		},
		"classes are not counted, pools go first": {
			pools: []string{"a", "b"}, keeps: []string{"a"},
			given: func(t *testing.T, c *drawnCluster) { c.have(t, owner, class("one"), class("two")) },
			want:  []string{"Remove NodePool/b", "Remove EC2NodeClass/one", "Remove EC2NodeClass/two"},
		},
		"someone deletes what is held": {
			pools: []string{"a", "b", "c"}, keeps: []string{"a"},
			given: func(_ *testing.T, c *drawnCluster) { c.Terminate(poolRef("b")) },
			want:  []string{"Remove NodePool/b", "Hold NodePool/c MaxRemovedPools"},
		},
		"the NodeSync is deleted with everything": {
			pools: []string{"a", "b", "c"},
			given: func(_ *testing.T, c *drawnCluster) {
				c.policy.Deleting, c.policy.StatusLost = true, true
				c.removal(poolRef("c"), v1alpha1.RemovalHeld, "r1")
			},
			want: []string{"Remove NodePool/c", "Remove NodePool/a", "Remove NodePool/b", "Remove EC2NodeClass/default"},
		},
		"another's are never ours to take": {
			pools: []string{"a"}, keeps: []string{"a"},
			given: func(t *testing.T, c *drawnCluster) { c.have(t, other, pool("theirs", "default")) },
			want:  []string{},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			git := []string{class("default")}
			c.have(t, owner, class("default"))
			for _, name := range test.pools {
				c.have(t, owner, pool(name, "default"))
			}
			for _, name := range test.keeps {
				git = append(git, pool(name, "default"))
			}
			if test.given != nil {
				test.given(t, c)
			}
			git = append(git, test.git...)
			if diff := cmp.Diff(test.want, script(c.plan(t, git...))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsHeldSaysWhatReleasesIt(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
	p := c.plan(t, class("default"), pool("a", "default"))
	want := "2 NodePools would be removed, but guard.maxRemovedPools allows 1: set it to 2, or add NodePools back to Git: b, c"
	for _, r := range p.Removals {
		if r.Message != want {
			t.Errorf("%s: %q", r.Ref, r.Message)
		}
	}
}

func TestHeldForWhomItHosts(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
	c.policy.Hosts = []plan.Host{{NodePool: "b", Node: "n1", Workload: "Karpenter's controller", Pod: "kube-system/karpenter-1"}}
	want := "its nodes run Karpenter's controller (pod kube-system/karpenter-1 on node n1): move it to nodes that Karpenter does not manage, or add NodePool/b back to Git"
	if got := c.plan(t, class("default"), pool("a", "default")).Removals[0].Message; got != want {
		t.Errorf("got %q", got)
	}
}

// setBack records that a pool is held since a revision that was older than the applied one.
func (c *drawnCluster) setBack(name, revision string) {
	c.removal(poolRef(name), v1alpha1.RemovalHeld, revision)
	c.live.Removals[0].Reason = v1alpha1.ReasonOlderRevision
}

// soloAndSolob returns two pools of one node each that one commit removes; a pod of solo would be pending if both were
// removed.
func soloAndSolob(t *testing.T) (c *drawnCluster, git []string) {
	t.Helper()
	c = newCluster(t)
	c.have(t, owner, class("default"), pool("general", "default"), pool("solo", "default"), pool("solob", "default"))
	c.live.NodeClaims = append(claims("solo", 1), claims("solob", 1)...)
	return c, []string{class("default"), pool("general", "default")}
}

// pending returns the simulated pending pods of solo; the first three letters of each name are the workload.
func pending(pods ...string) plan.Landing {
	landing := plan.Landing{Known: true, Nowhere: map[string][]plan.Unschedulable{}}
	for _, pod := range pods {
		landing.Nowhere["solo"] = append(landing.Nowhere["solo"], plan.Unschedulable{Pod: "default/" + pod, Workload: "default/Deployment/" + pod[:3], Reason: "no pool has the label"})
	}
	return landing
}

// holds lists the removals of a Plan, with all reasons for which they are held.
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

// TestAnApprovalShowsEveryGate: what is held for one reason is checked for all others before people can approve it.
func TestAnApprovalShowsEveryGate(t *testing.T) {
	c, git := soloAndSolob(t)
	first := c.plan(t, git...)
	if diff := cmp.Diff([]string{"NodePool/solo", "NodePool/solob"}, first.NeedLanding()); diff != "" {
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
	if !strings.Contains(message, "default/one-a (no pool has the label)") || !strings.Contains(message, "guard.maxRemovedPools allows 1") {
		t.Errorf("it says %q", message)
	}
	if got := shown.Approvable.Summary(); got != "drains 2 of 2 nodes in 2 pools, 1 pod pending" {
		t.Errorf("summed up as %q", got)
	}
	if shown.Approvable.Digest == first.Approvable.Digest {
		t.Error("the digest is the same without the reason")
	}
}

// TestAnApprovalCoversWhatWasShown: for another reason, or other pods, the removal is held again with another digest.
func TestAnApprovalCoversWhatWasShown(t *testing.T) {
	gone := []string{"solo", "solob"}
	for name, test := range map[string]struct {
		change func(*drawnCluster)
		want   []string
	}{
		"what was shown":             {func(*drawnCluster) {}, gone},
		"a pod of the same workload": {func(c *drawnCluster) { c.policy.Landing = pending("one-b") }, gone},
		"no pod any more":            {func(c *drawnCluster) { c.policy.Landing = pending() }, gone},
		"two pods of it":             {func(c *drawnCluster) { c.policy.Landing = pending("one-a", "one-b") }, []string{"solo UnschedulablePods", "solob"}},
		"another workload":           {func(c *drawnCluster) { c.policy.Landing = pending("two-a") }, []string{"solo UnschedulablePods", "solob"}},
		"approved for other reasons": {func(c *drawnCluster) { c.policy.Approved[0].Entries[1].Reasons = []string{plan.ReasonPolicy} }, []string{"solo", "solob MaxRemovedPools"}},
		"simulated again":            {func(c *drawnCluster) { c.policy.Landing = plan.Landing{Asking: true} }, gone},
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

// TestAllNodesThatAnApprovalOpens are checked together: what is held for another reason counts as if it proceeded.
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

// TestADigestStaysWhileNothingNewIsHeld: what people were shown also covers fewer pods, but no others.
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

// TestNodesAddedBeforeTheApproval use up part of the 10% tolerance, which is relative to the nodes in the digest.
func TestNodesAddedBeforeTheApproval(t *testing.T) {
	for nodes, goes := range map[int]bool{10: true, 11: true, 12: false} {
		c, git := soloAndSolob(t)
		c.live.NodeClaims = append(claims("solo", 10), claims("solob", 0)...)
		shown := c.plan(t, git...)
		c.live.NodeClaims = claims("solo", 11)
		approve(c, c.plan(t, git...))
		c.policy.Approved[0].Nodes = int32(shown.Approvable.Nodes())
		c.live.NodeClaims = claims("solo", nodes)
		if held := holds(c.plan(t, git...)); cmp.Equal([]string{"solo", "solob"}, held) != goes {
			t.Errorf("%d nodes: held %v", nodes, held)
		}
	}
}

// TestManyWorkloads: pending pods are counted, and listed as long as a status has room.
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
