package rollout_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// outdatedNodes returns a number of drifted nodes of NodePool a, of which Karpenter replaces some, and launched each in
// a minute.
func outdatedNodes(n, replacing int) []plan.NodeClaim {
	var claims []plan.NodeClaim
	for i := range n {
		c := drifted(string(rune('a'+i)), "a", false)
		c.Disrupted, c.Launch = i < replacing, time.Minute
		claims = append(claims, c)
	}
	return claims
}

// TestALookEstimates what limits a rollout, from the budgets of its NodePool, windows, the brake, launches, what
// Karpenter reports about pods, and whether its controller runs.
func TestALookEstimates(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	long := metav1.NewTime(now.Add(-time.Hour))
	doNotDisrupt := corev1.Event{Reason: "DisruptionBlocked", Message: `Pod has "karpenter.sh/do-not-disrupt" annotation (Pod=web/web-0)`}
	doNotDisrupt.LastTimestamp = metav1.NewTime(now)
	brake := func(reason v1alpha1.BrakeReason) []v1alpha1.PoolRollout {
		return []v1alpha1.PoolRollout{{Pool: "a", Reason: reason, BrakedAt: &long}}
	}
	nightly := v1alpha1.Guard{Windows: []v1alpha1.GuardWindow{{Schedule: "0 22 * * *", Duration: metav1.Duration{Duration: 6 * time.Hour}}}}
	two, none := map[string]any{"nodes": "2"}, map[string]any{"nodes": "0"}
	day := map[string]any{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}
	lower := func(ends time.Duration, limit v1alpha1.RolloutLimit) *v1alpha1.RolloutEstimate {
		return &v1alpha1.RolloutEstimate{EndsAt: at(ends), AtLeast: true, LimitedBy: limit, Pool: "a"}
	}
	unknown := func(limit v1alpha1.RolloutLimit) *v1alpha1.RolloutEstimate {
		return &v1alpha1.RolloutEstimate{LimitedBy: limit, Pool: "a"}
	}
	for name, c := range map[string]struct {
		budget   any
		git      any // if it differs
		pools    []v1alpha1.PoolRollout
		guard    v1alpha1.Guard
		launches []rollout.LaunchFailure
		events   spoken
		away     bool
		want     *v1alpha1.RolloutEstimate
	}{
		"budgets":                 {budget: two, want: lower(6*time.Minute, v1alpha1.LimitBudgets)},
		"budgets that allow none": {budget: none, want: unknown(v1alpha1.LimitBudgets)},
		"a window of the budgets": {budget: day, want: lower(5*time.Hour+2*time.Minute, v1alpha1.LimitWindows)},
		"a window of the guard":   {budget: none, git: two, pools: brake(v1alpha1.BrakeFrozen), guard: nightly, want: lower(10*time.Hour+6*time.Minute, v1alpha1.LimitWindows)},
		"an emergency":            {budget: two, guard: nightly, want: lower(6*time.Minute, v1alpha1.LimitBudgets)},
		"it is stopped":           {budget: none, git: two, pools: brake(v1alpha1.BrakeFailedLaunches), want: unknown(v1alpha1.LimitStopped)},
		"launches":                {budget: two, launches: []rollout.LaunchFailure{{Pool: "a", Why: "no capacity"}}, want: unknown(v1alpha1.LimitLaunches)},
		"pods":                    {budget: two, events: spoken{events: []corev1.Event{doNotDisrupt}}, want: unknown(v1alpha1.LimitPods)},
		"the controller is away":  {budget: two, away: true, want: unknown(v1alpha1.LimitKarpenter)},
	} {
		t.Run(name, func(t *testing.T) {
			live := pool("a", c.budget)
			if live.Git = live.Live.Unstructured; c.git != nil {
				live.Git = pool("a", c.git).Live.Unstructured
			}
			claims := outdatedNodes(9, 0)
			before := &v1alpha1.Rollout{Since: metav1.NewTime(now), LastProgress: long, Nodes: 9, Outdated: 9}
			if c.away {
				before.Paces = []v1alpha1.RolloutPace{{Pool: "a", Since: metav1.NewTime(now), Nodes: 9, Outdated: 9}}
			}
			r := rollout.Rollouts{
				Live:  plan.Live{Objects: map[render.Ref]*plan.Object{{Kind: render.NodePool, Name: "a"}: live.Live}, NodeClaims: claims},
				Pools: []rollout.Pool{live}, Events: &c.events, Before: before, Reported: before, LaunchFailures: c.launches, Now: now, Memory: &rollout.Memory{},
			}
			looked := r.See(t.Context(), !c.away)
			seen := looked.Rollout.DeepCopy()
			got := r.Pace(looked, c.pools, v1alpha1.NodeSyncSpec{Guard: c.guard})
			if diff := cmp.Diff(seen, looked.Rollout); diff != "" {
				t.Errorf("Pace changed the look (-before +after):\n%s", diff)
			}
			if diff := cmp.Diff(c.want, got.Estimate); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(got.Paces) != 1 || got.Paces[0].Outdated != 9 {
				t.Errorf("paces: %+v", got.Paces)
			}
		})
	}
}

// TestALookMeasures what Karpenter replaces, and that a rollout will exceed its timeout.
func TestALookMeasures(t *testing.T) {
	start := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	live, memory := pool("a", map[string]any{"nodes": "1"}), &rollout.Memory{}
	spec := v1alpha1.NodeSyncSpec{Rollout: v1alpha1.RolloutPolicy{Timeout: &metav1.Duration{Duration: time.Hour}}}
	var before *v1alpha1.Rollout
	for i, claims := range [][]plan.NodeClaim{outdatedNodes(5, 0), outdatedNodes(5, 1), outdatedNodes(4, 1)} {
		r := rollout.Rollouts{
			Live:  plan.Live{Objects: map[render.Ref]*plan.Object{{Kind: render.NodePool, Name: "a"}: live.Live}, NodeClaims: claims},
			Pools: []rollout.Pool{live}, Events: &spoken{}, Before: before, Reported: before, Now: start.Add(time.Duration(i) * 10 * time.Minute), Memory: memory,
		}
		looked := r.See(t.Context(), true)
		before = r.Pace(looked, nil, spec)
	}
	want := []v1alpha1.RolloutPace{{Pool: "a", Since: metav1.NewTime(start).Rfc3339Copy(), Nodes: 5, Outdated: 4, AtATime: 1, TookSeconds: 1200}}
	if diff := cmp.Diff(want, before.Paces); diff != "" {
		t.Errorf("paces (-want +got):\n%s", diff)
	}
	if e := before.Estimate; e == nil || e.AtLeast || e.ExceedsSince == nil || e.ExceedsBy.Duration != 50*time.Minute {
		t.Errorf("estimate: %+v", e)
	}
}

// TestAStaticPoolWithoutRoom: a rollout reports that Karpenter replaces no node of a static pool whose limits.nodes leave
// no room for one more, unless it terminates such a node first.
func TestAStaticPoolWithoutRoom(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	const stuck = "NodePool/a: limits.nodes 3 leaves no room to replace one of its 3 replicas: Karpenter replaces none of 3 outdated nodes: set it to at least 4, or enable feature gate TerminateFirstDrift (Karpenter 1.15)"
	for name, c := range map[string]struct {
		limit string
		on    bool
		err   error
		nodes int
		want  string
		by    v1alpha1.RolloutLimit
	}{
		"no room":               {limit: "3", nodes: 3, want: stuck, by: v1alpha1.LimitLaunches},
		"room":                  {limit: "4", nodes: 3},
		"terminated first":      {limit: "3", nodes: 3, on: true},
		"the gate is not known": {limit: "3", nodes: 3, err: errors.New("no")},
		"a node is missing":     {limit: "3", nodes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			live := pool("a", map[string]any{"nodes": "1"})
			spec, _ := live.Live.Object["spec"].(map[string]any)
			spec["replicas"], spec["limits"] = int64(3), map[string]any{"nodes": c.limit}
			live.Git = live.Live.Unstructured
			before := &v1alpha1.Rollout{Since: metav1.NewTime(now), LastProgress: metav1.NewTime(now), Nodes: 3, Outdated: int32(c.nodes)}
			r := rollout.Rollouts{
				Live:  plan.Live{Objects: map[render.Ref]*plan.Object{{Kind: render.NodePool, Name: "a"}: live.Live}, NodeClaims: outdatedNodes(c.nodes, 0)},
				Pools: []rollout.Pool{live}, Events: &spoken{}, Before: before, Reported: before, Now: now, Memory: &rollout.Memory{},
				On: func(_ context.Context, gate string) (bool, error) { return c.on && gate == plan.TerminateFirst, c.err },
			}
			looked := r.See(t.Context(), true)
			got := r.Pace(looked, nil, v1alpha1.NodeSyncSpec{})
			if got.Message != c.want {
				t.Errorf("waits for %q, want %q", got.Message, c.want)
			}
			if limited := got.Estimate != nil && got.Estimate.LimitedBy == v1alpha1.LimitLaunches; limited != (c.by != "") {
				t.Errorf("estimate: %+v", got.Estimate)
			}
		})
	}
}
