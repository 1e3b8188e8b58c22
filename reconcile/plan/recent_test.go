package plan_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// recently returns a cluster with our pools a to d, at a given time.
func recently(t *testing.T) *drawnCluster {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"), pool("d", "default"))
	c.policy.Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return c
}

// ago returns a time before the plan.
func (c *drawnCluster) ago(d time.Duration) metav1.Time { return metav1.NewTime(c.policy.Now.Add(-d)) }

// letGo records that the removal of a pool was allowed some time ago, with this many nodes; if the pool is gone, so is
// its object.
func (c *drawnCluster) letGo(name string, before time.Duration, nodes int32) {
	uid := c.Object(poolRef(name)).GetUID()
	c.live.RecentRemovals = append(c.live.RecentRemovals, v1alpha1.RecentRemoval{Name: name, UID: uid, At: c.ago(before), Nodes: nodes})
}

// recorded records the removal of a pool some time ago.
func (c *drawnCluster) recorded(name string, phase v1alpha1.RemovalPhase, revision string, before time.Duration) {
	c.removal(poolRef(name), phase, revision)
	c.live.Removals[len(c.live.Removals)-1].RecordedAt = c.ago(before)
}

// ofPool makes a NodePool the owner of a NodeClaim.
func ofPool(uid types.UID) func(*plan.NodeClaim) {
	return func(c *plan.NodeClaim) { c.PoolUID = uid }
}

// TestRemovalsOfAPeriodCountTogether: what exceeds guard.maxRemovedPools together with the removals of its period is
// held, and stays held; what only waits for an earlier removal is queued, and has no digest.
func TestRemovalsOfAPeriodCountTogether(t *testing.T) {
	for name, test := range map[string]struct {
		given  func(*drawnCluster)
		want   []string
		digest bool
	}{
		"one was removed a moment ago": {
			given: func(c *drawnCluster) { c.letGo("b", time.Minute, 1); c.Delete(poolRef("b")) },
			want:  []string{"Hold NodePool/c MaxRemovedPools"}, digest: true,
		},
		"one was removed before the period": {
			given: func(c *drawnCluster) { c.letGo("b", 31*time.Minute, 1); c.Delete(poolRef("b")) },
			want:  []string{"Remove NodePool/c"},
		},
		"one is being removed since a moment ago": {
			given: func(c *drawnCluster) {
				c.letGo("b", time.Minute, 1)
				c.recorded("b", v1alpha1.RemovalDraining, "r1", time.Minute)
			},
			want: []string{"Hold NodePool/c MaxRemovedPools"}, digest: true,
		},
		"one is being removed for longer than the period": {
			given: func(c *drawnCluster) {
				c.letGo("b", 40*time.Minute, 1)
				c.recorded("b", v1alpha1.RemovalDraining, "r1", 41*time.Minute)
			},
			want: []string{"Queue NodePool/c Queued"},
		},
		"another period": {
			given: func(c *drawnCluster) {
				c.letGo("b", time.Minute, 1)
				c.recorded("b", v1alpha1.RemovalDraining, "r1", time.Minute)
				c.policy.Guard.RemovalPeriod = &metav1.Duration{}
			},
			want: []string{"Queue NodePool/c Queued"},
		},
		"held for one of its period, which has passed": {
			given: func(c *drawnCluster) {
				c.letGo("b", 50*time.Minute, 1)
				c.Delete(poolRef("b"))
				c.recorded("c", v1alpha1.RemovalHeld, "r2", 40*time.Minute)
			},
			want: []string{"Hold NodePool/c MaxRemovedPools"}, digest: true,
		},
		"it, and the limit is raised": {
			given: func(c *drawnCluster) {
				c.letGo("b", 50*time.Minute, 1)
				c.Delete(poolRef("b"))
				c.recorded("c", v1alpha1.RemovalHeld, "r2", 40*time.Minute)
				c.policy.Guard.MaxRemovedPools = ptr.To(int32(2))
			},
			want: []string{"Remove NodePool/c"},
		},
		"queued for one that is complete": {
			given: func(c *drawnCluster) {
				c.letGo("b", 40*time.Minute, 1)
				c.Delete(poolRef("b"))
				c.recorded("c", v1alpha1.RemovalPacing, "r2", 5*time.Minute)
			},
			want: []string{"Remove NodePool/c"},
		},
		"let go, and not begun": {
			given: func(c *drawnCluster) {
				c.letGo("c", time.Minute, 1)
				c.recorded("c", v1alpha1.RemovalPacing, "r2", time.Minute)
				c.Delete(poolRef("b"))
			},
			want: []string{"Remove NodePool/c"},
		},
		"let go before another one": {
			given: func(c *drawnCluster) {
				c.letGo("c", time.Minute, 1)
				c.recorded("c", v1alpha1.RemovalPacing, "r2", time.Minute)
				c.letGo("b", time.Second, 1)
				c.Delete(poolRef("b"))
			},
			want: []string{"Remove NodePool/c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := recently(t)
			test.given(c)
			p := c.plan(t, class("default"), pool("a", "default"), pool("d", "default"))
			if diff := cmp.Diff(test.want, script(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if digest := p.Approvable != nil; digest != test.digest {
				t.Errorf("there is a digest to approve: %t", digest)
			}
		})
	}
}

// TestOneIsQueuedByName: the message lists what it waits for, and does not change while that is in progress.
func TestOneIsQueuedByName(t *testing.T) {
	c := recently(t)
	c.letGo("b", time.Hour, 1)
	c.recorded("b", v1alpha1.RemovalDraining, "r1", time.Hour)
	p := c.plan(t, class("default"), pool("a", "default"), pool("d", "default"))
	if want := "queued: waits for the removal of NodePool/b"; len(p.Removals) != 1 || p.Removals[0].Message != want {
		t.Errorf("it says %+v, not %q", p.Removals, want)
	}
}

// TestNineCommitsOfOnePoolEach: the first proceeds, and each of the others is held, before and after the first pool is
// deleted.
func TestNineCommitsOfOnePoolEach(t *testing.T) {
	c := recently(t)
	c.letGo("b", 10*time.Second, 1)
	c.recorded("b", v1alpha1.RemovalDraining, "r1", 10*time.Second)
	c.recorded("c", v1alpha1.RemovalHeld, "r2", 8*time.Second)
	c.recorded("d", v1alpha1.RemovalHeld, "r3", 6*time.Second)
	want := []string{"Hold NodePool/c MaxRemovedPools", "Hold NodePool/d MaxRemovedPools"}
	if diff := cmp.Diff(want, script(c.plan(t, class("default"), pool("a", "default")))); diff != "" {
		t.Errorf("while it drains (-want +got):\n%s", diff)
	}
	c.live.Removals = c.live.Removals[1:]
	c.Delete(poolRef("b"))
	if diff := cmp.Diff(want, script(c.plan(t, class("default"), pool("a", "default")))); diff != "" {
		t.Errorf("once it is gone (-want +got):\n%s", diff)
	}
}

// TestNodesOfAPeriodCountTogether for guard.maxDisruptedNodes: nodes that were removed with their pools, once each, and
// those that a removal still drains.
func TestNodesOfAPeriodCountTogether(t *testing.T) {
	for name, test := range map[string]struct {
		given func(*drawnCluster)
		want  []string
	}{
		"gone": {
			given: func(c *drawnCluster) { c.letGo("b", time.Minute, 2); c.Delete(poolRef("b")) },
			want:  []string{"Hold NodePool/c MaxDisruptedNodes"},
		},
		"gone before the period": {
			given: func(c *drawnCluster) { c.letGo("b", time.Hour, 2); c.Delete(poolRef("b")) },
			want:  []string{"Remove NodePool/c"},
		},
		"one of two is gone": {
			given: func(c *drawnCluster) {
				c.letGo("b", time.Minute, 2)
				c.recorded("b", v1alpha1.RemovalDraining, "r1", time.Minute)
				c.live.NodeClaims = append(c.live.NodeClaims, claims("b", 1, deleting, ofPool(c.Object(poolRef("b")).GetUID()))...)
			},
			want: []string{"Hold NodePool/c MaxDisruptedNodes"},
		},
		"it began before the period": {
			given: func(c *drawnCluster) {
				c.letGo("b", time.Hour, 2)
				c.recorded("b", v1alpha1.RemovalDraining, "r1", time.Hour)
				c.live.NodeClaims = append(c.live.NodeClaims, claims("b", 2, deleting)...)
			},
			want: []string{"Queue NodePool/c Queued"},
		},
		"one of two is gone, and one would do": {
			given: func(c *drawnCluster) {
				c.live.NodeClaims = claims("c", 1)
				c.letGo("b", time.Minute, 2)
				c.recorded("b", v1alpha1.RemovalDraining, "r1", time.Minute)
				c.live.NodeClaims = append(c.live.NodeClaims, claims("b", 1, deleting, ofPool(c.Object(poolRef("b")).GetUID()))...)
			},
			want: []string{"Remove NodePool/c"},
		},
		"one fits beside it": {
			given: func(c *drawnCluster) { c.letGo("b", time.Minute, 1); c.Delete(poolRef("b")) },
			want:  []string{"Remove NodePool/c"},
		},
		"its removal was reverted, and one was terminated": {
			given: func(c *drawnCluster) { c.letGo("a", time.Minute, 2); c.Delete(poolRef("b")) },
			want:  []string{"Hold NodePool/c MaxDisruptedNodes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := recently(t)
			c.policy.Guard.MaxRemovedPools = ptr.To(int32(9))
			c.policy.Guard.MaxDisruptedNodes = ptr.To(intstr.FromInt32(3))
			c.live.NodeClaims = claims("c", 2)
			test.given(c)
			p := c.plan(t, class("default"), pool("a", "default"), pool("d", "default"))
			if diff := cmp.Diff(test.want, script(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAPoolThatIsRemovedAgain: once Git contained a pool again, a further removal is a new one, with the new revision and
// all checks, and one pool counts once.
func TestAPoolThatIsRemovedAgain(t *testing.T) {
	returned := func(c *drawnCluster, name string, phase v1alpha1.RemovalPhase) {
		c.recorded(name, phase, "r1", time.Hour)
		c.live.Removals[len(c.live.Removals)-1].Reason = v1alpha1.ReasonReturned
	}
	for name, test := range map[string]struct {
		given    func(*drawnCluster)
		want     []string
		recorded bool
	}{
		"its removal had started": {
			given: func(c *drawnCluster) { returned(c, "b", v1alpha1.RemovalDraining) },
			want:  []string{"Remove NodePool/b", "Remove NodePool/c"},
		},
		"its removal was held": {
			given: func(c *drawnCluster) { returned(c, "b", v1alpha1.RemovalHeld) },
			want:  []string{"Remove NodePool/b", "Remove NodePool/c"},
		},
		"too many together": {
			given: func(c *drawnCluster) {
				returned(c, "b", v1alpha1.RemovalDraining)
				c.policy.Guard.MaxRemovedPools = ptr.To(int32(1))
			},
			want: []string{"Hold NodePool/b MaxRemovedPools", "Hold NodePool/c MaxRemovedPools"},
		},
		"another client has deleted it": {
			given: func(c *drawnCluster) {
				returned(c, "b", v1alpha1.RemovalDraining)
				c.Edit(t, poolRef("b"), "kubectl", func(o *unstructured.Unstructured) {
					o.SetFinalizers([]string{"example.com/wait"})
					o.SetDeletionTimestamp(ptr.To(c.ago(0)))
				})
			},
			want: []string{"Remove NodePool/b", "Remove NodePool/c"}, recorded: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := recently(t)
			c.policy.Guard.MaxRemovedPools = ptr.To(int32(2))
			test.given(c)
			p := c.plan(t, class("default"), pool("a", "default"), pool("d", "default"))
			if diff := cmp.Diff(test.want, script(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if b := p.Removals[0]; b.Recorded != test.recorded || !b.Recorded && b.Revision != p.Revision {
				t.Errorf("recorded %t, revision %s", b.Recorded, b.Revision)
			}
		})
	}
}

// TestARecreatedPoolCountsOnce: a pool that was removed, added again and removed again is one NodePool of those that
// guard.maxRemovedPools allows.
func TestARecreatedPoolCountsOnce(t *testing.T) {
	c := recently(t)
	c.policy.Guard.MaxRemovedPools = ptr.To(int32(1))
	c.live.RecentRemovals = []v1alpha1.RecentRemoval{{Name: "b", UID: "the former b", At: c.ago(time.Minute), Nodes: 1}}
	again := c.plan(t, class("default"), pool("a", "default"), pool("c", "default"), pool("d", "default"))
	if diff := cmp.Diff([]string{"Remove NodePool/b"}, script(again)); diff != "" {
		t.Errorf("removed again (-want +got):\n%s", diff)
	}
	another := c.plan(t, class("default"), pool("a", "default"), pool("b", "default"), pool("d", "default"))
	if diff := cmp.Diff([]string{"Hold NodePool/c MaxRemovedPools"}, script(another)); diff != "" {
		t.Errorf("another (-want +got):\n%s", diff)
	}
}

// TestWhichRecentRemovalsAreKept: those of the period, of open removals, and those because of which another one is
// held.
func TestWhichRecentRemovalsAreKept(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	open := func(uid types.UID, phase v1alpha1.RemovalPhase, recorded time.Duration) v1alpha1.Removal {
		return v1alpha1.Removal{Kind: "NodePool", UID: uid, Phase: phase, RecordedAt: at(recorded)}
	}
	for name, test := range map[string]struct {
		age      time.Duration
		removals []v1alpha1.Removal
		held     *v1alpha1.HeldPlan
		kept     bool
	}{
		"of the period":                     {age: 29 * time.Minute, kept: true},
		"older":                             {age: 30 * time.Minute},
		"it is open":                        {age: time.Hour, removals: []v1alpha1.Removal{open("1", v1alpha1.RemovalDraining, time.Hour)}, kept: true},
		"another one is held for it":        {age: time.Hour, removals: []v1alpha1.Removal{open("2", v1alpha1.RemovalHeld, 40*time.Minute)}, kept: true},
		"another one, recorded later":       {age: time.Hour, removals: []v1alpha1.Removal{open("2", v1alpha1.RemovalHeld, 20*time.Minute)}},
		"a change is held":                  {age: time.Hour, held: &v1alpha1.HeldPlan{}, kept: true},
		"another one that has begun by now": {age: time.Hour, removals: []v1alpha1.Removal{open("2", v1alpha1.RemovalDraining, 40*time.Minute)}},
	} {
		recent := []v1alpha1.RecentRemoval{{Name: "a", UID: "1", At: at(test.age)}}
		status := v1alpha1.NodeSyncStatus{RecentRemovals: recent, Removals: test.removals, Held: test.held, RecentTerminations: []v1alpha1.RecentTermination{{Name: "a", UID: "1", At: at(test.age)}}}
		plan.ForgetRecent(&status, 30*time.Minute, now)
		if kept := len(status.RecentRemovals) == 1; kept != test.kept {
			t.Errorf("%s: it is kept: %t", name, kept)
		}
		if kept := len(status.RecentTerminations) == 1; kept != (test.kept && name != "it is open") {
			t.Errorf("%s: a termination is kept: %t", name, kept)
		}
	}
}

// TestARemovalThatIsHeldStaysHeld: nodes that an earlier removal of the same pool has terminated, before it was reverted, count
// before and after the next removal is recorded.
func TestARemovalThatIsHeldStaysHeld(t *testing.T) {
	for name, given := range map[string]func(*drawnCluster){
		"it is new":      func(*drawnCluster) {},
		"it is recorded": func(c *drawnCluster) { c.recorded("b", v1alpha1.RemovalHeld, "r2", time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			c := recently(t)
			c.policy.Guard.MaxDisruptedNodes = ptr.To(intstr.FromInt32(3))
			c.live.NodeClaims = claims("b", 3, ofPool(c.Object(poolRef("b")).GetUID()))
			c.letGo("b", 5*time.Minute, 2)
			given(c)
			got := script(c.plan(t, class("default"), pool("a", "default"), pool("c", "default"), pool("d", "default")))
			if diff := cmp.Diff([]string{"Hold NodePool/b MaxDisruptedNodes"}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

const (
	keeps        = "disruption: {consolidateAfter: Never}"
	consolidates = "disruption: {consolidateAfter: 0s}"
)

// idlePools returns a cluster with the pools a to d of four nodes each, none of which Karpenter may consolidate yet;
// the guard allows five nodes.
func idlePools(t *testing.T) *drawnCluster {
	c := newCluster(t)
	c.policy.Brakes = true
	c.policy.Now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c.policy.Guard.MaxDisruptedNodes = ptr.To(intstr.FromInt32(5))
	c.have(t, owner, class("default"))
	for _, name := range []string{"a", "b", "c", "d"} {
		c.have(t, owner, pool(name, "default", keeps))
		uid := c.Object(poolRef(name)).GetUID()
		c.live.NodeClaims = append(c.live.NodeClaims, claims(name, 4, ofPool(uid), func(n *plan.NodeClaim) { n.Initialized = true })...)
	}
	return c
}

// carryOut records and writes the changes of a Plan of a revision, as a reconcile does.
func (c *drawnCluster) carryOut(t *testing.T, revision string, definitions ...string) *plan.Plan {
	t.Helper()
	p := c.plan(t, definitions...)
	c.live.RecentTerminations = plan.RecordTerminations(c.live.RecentTerminations, revision, p.Changes, metav1.NewTime(c.policy.Now))
	for i := range p.Changes {
		if p.Changes[i].Action.Writes() {
			c.have(t, owner, definitions[i+1])
		}
	}
	return p
}

// gone deletes the nodes of a pool.
func (c *drawnCluster) gone(name string) {
	var left []plan.NodeClaim
	for _, n := range c.live.NodeClaims {
		if n.Pool != name {
			left = append(left, n)
		}
	}
	c.live.NodeClaims = left
}

// TestTerminationsOfAPeriodCountTogether: nodes that several commits let Karpenter terminate within guard.removalPeriod
// count together, even after they are gone, and with those of removals; each counts once.
func TestTerminationsOfAPeriodCountTogether(t *testing.T) {
	a := pool("a", "default", consolidates)
	for name, test := range map[string]struct {
		given func(*drawnCluster)
		// git is the second commit, without the class.
		git  []string
		want []string
	}{
		"another pool may be consolidated": {
			git:  []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{"Hold NodePool/b MaxDisruptedNodes spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"and the nodes of the first are gone": {
			given: func(c *drawnCluster) { c.gone("a") },
			git:   []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want:  []string{"Hold NodePool/b MaxDisruptedNodes spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"and the limit allows both while the nodes of the first are terminating": {
			given: func(c *drawnCluster) {
				c.limit(8)
				for i := range c.live.NodeClaims[:4] {
					disrupted(&c.live.NodeClaims[i])
				}
			},
			git:  []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{"Update NodePool/b Differs spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"and the period is over": {
			given: func(c *drawnCluster) { c.policy.Now = c.policy.Now.Add(30 * time.Minute) },
			git:   []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want:  []string{"Update NodePool/b Differs spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"and the period is over, but the second was held before": {
			given: func(c *drawnCluster) {
				c.policy.Now = c.policy.Now.Add(30 * time.Minute)
				c.live.Held = &v1alpha1.HeldPlan{Entries: []v1alpha1.ApprovedEntry{{Kind: "NodePool", Name: "b"}}}
			},
			git:  []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{"Hold NodePool/b MaxDisruptedNodes spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"and commits do not count together": {
			given: func(c *drawnCluster) { c.policy.Guard.RemovalPeriod = &metav1.Duration{} },
			git:   []string{a, pool("b", "default", consolidates), pool("c", "default", keeps), pool("d", "default", keeps)},
			want:  []string{"Update NodePool/b Differs spec.disruption.consolidateAfter:Never→0s consolidates up to 4"},
		},
		"another pool is removed": {
			git:  []string{a, pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{"Hold NodePool/b MaxDisruptedNodes"},
		},
		"the same pool is removed": {
			git:  []string{pool("b", "default", keeps), pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{"Remove NodePool/a"},
		},
		"replacements count at one time": {
			git: []string{a, tainted("b", keeps), pool("c", "default", keeps), pool("d", "default", keeps)},
			want: []string{
				"Update NodePool/b Differs spec.template.spec.taints:→[{\"effect\":\"NoSchedule\",\"key\":\"a\"}] replaces 4",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := idlePools(t)
			first := []string{class("default"), a, pool("b", "default", keeps), pool("c", "default", keeps), pool("d", "default", keeps)}
			c.carryOut(t, "main@sha1:first", first...)
			if test.given != nil {
				test.given(c)
			}
			if diff := cmp.Diff(test.want, script(c.plan(t, append([]string{class("default")}, test.git...)...))); diff != "" {
				t.Errorf("second commit (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTerminationsOfAPoolCountTogether for guard.maxDisruptedNodesPerPool: two scale-downs of a static pool.
func TestTerminationsOfAPoolCountTogether(t *testing.T) {
	static := func(n int) string { return pool("s", "default", fmt.Sprintf("replicas: %d", n)) }
	c := idlePools(t)
	c.limit(100)
	c.policy.Guard.MaxDisruptedNodesPerPool = ptr.To(intstr.FromInt32(5))
	c.have(t, owner, static(12))
	c.live.NodeClaims = claims("s", 12, ofPool(c.Object(poolRef("s")).GetUID()))
	others := []string{pool("a", "default", keeps), pool("b", "default", keeps), pool("c", "default", keeps), pool("d", "default", keeps)}
	if got := script(c.plan(t, append([]string{class("default"), static(8)}, others...)...)); len(got) != 1 || got[0] != "Update NodePool/s Differs spec.replicas:12→8 drains 4" {
		t.Fatalf("the first: %v", got)
	}
	p := c.plan(t, append([]string{class("default"), static(8)}, others...)...)
	c.live.RecentTerminations = plan.RecordTerminations(nil, "main@sha1:first", p.Changes, metav1.NewTime(c.policy.Now))
	c.have(t, owner, static(8))
	c.live.NodeClaims = c.live.NodeClaims[4:]
	want := []string{"Hold NodePool/s MaxDisruptedNodesPerPool spec.replicas:8→4 drains 4"}
	if diff := cmp.Diff(want, script(c.plan(t, append([]string{class("default"), static(4)}, others...)...))); diff != "" {
		t.Errorf("the second (-want +got):\n%s", diff)
	}
}

// TestATerminationIsRecordedOnce: a change that is written again, because it failed, has one record, and counts once.
func TestATerminationIsRecordedOnce(t *testing.T) {
	c := idlePools(t)
	git := []string{class("default"), pool("a", "default", consolidates), pool("b", "default", keeps), pool("c", "default", keeps), pool("d", "default", keeps)}
	for range 2 {
		p := c.plan(t, git...)
		if want := []string{"Update NodePool/a Differs spec.disruption.consolidateAfter:Never→0s consolidates up to 4"}; !cmp.Equal(want, script(p)) {
			t.Fatalf("plan: %v", script(p))
		}
		c.live.RecentTerminations = plan.RecordTerminations(c.live.RecentTerminations, p.Revision, p.Changes, metav1.NewTime(c.policy.Now))
		c.policy.Now = c.policy.Now.Add(time.Minute)
	}
	want := []v1alpha1.RecentTermination{{
		Name: "a", UID: c.Object(poolRef("a")).GetUID(), Revision: "main@sha1:new", At: metav1.NewTime(c.policy.Now.Add(-time.Minute)), Nodes: 4,
	}}
	if diff := cmp.Diff(want, c.live.RecentTerminations); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	c.limit(3)
	held := c.plan(t, git...)
	if got := plan.RecordTerminations(nil, held.Revision, held.Changes, metav1.NewTime(c.policy.Now)); len(got) > 0 {
		t.Errorf("what is held is recorded: %v", got)
	}
}

// TestAPoolThatMovesTakesItsCountAlong: terminations that one NodeSync recorded for a NodePool count for the NodeSync
// whose Git contains the pool now, and for no other pool.
func TestAPoolThatMovesTakesItsCountAlong(t *testing.T) {
	pool := func(name, uid string) *plan.Object {
		u := &unstructured.Unstructured{}
		u.SetKind(render.NodePool)
		u.SetName(name)
		u.SetUID(types.UID(uid))
		return plan.NewObject(u)
	}
	ref := func(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }
	set := &render.Set{Objects: []render.Object{{Ref: ref("moved")}, {Ref: ref("new")}}}
	live := plan.Live{
		Objects:            map[render.Ref]*plan.Object{ref("moved"): pool("moved", "1"), ref("theirs"): pool("theirs", "2")},
		RecentTerminations: []v1alpha1.RecentTermination{{Name: "own", UID: "3"}},
	}
	here, there := v1alpha1.NodeSync{}, v1alpha1.NodeSync{}
	here.UID, there.UID = "here", "there"
	here.Status.RecentTerminations = live.RecentTerminations
	there.Status.RecentTerminations = []v1alpha1.RecentTermination{{Name: "moved", UID: "1", Nodes: 1}, {Name: "theirs", UID: "2", Nodes: 4}, {Name: "moved", UID: "0", Nodes: 9}}
	got := plan.TerminationsOf(set, live, []v1alpha1.NodeSync{here, there}, &here)
	want := []v1alpha1.RecentTermination{{Name: "own", UID: "3"}, {Name: "moved", UID: "1", Nodes: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
