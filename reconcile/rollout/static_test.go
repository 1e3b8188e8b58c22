package rollout_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestRollStaticPools plays rollouts of static pools, whose number of nodes is part of the definition.
func TestRollStaticPools(t *testing.T) {
	const drift = "NodePoolDrifted"
	short := func(pool string, ready, of int32) v1alpha1.StaticPool {
		return v1alpha1.StaticPool{Pool: pool, Replicas: of, Ready: ready}
	}
	written := func(committed bool, pools ...string) rollout.Outdating {
		o := rollout.Outdating{Static: map[string]bool{}}
		for _, pool := range pools {
			o.Static[pool] = committed
		}
		return o
	}
	both := outdating(false, "1")
	both.Static = map[string]bool{"st": true}
	type seen struct {
		at       int64
		revision string
		changes  rollout.Outdating
		short    []v1alpha1.StaticPool
		full     []v1alpha1.StaticPool
		outdated []plan.Outdated
		unsure   bool
		want     string
	}
	for name, passes := range map[string][]seen{
		"a commit gives it more": {
			{at: 1, revision: "a", want: "none"},
			{at: 2, revision: "b", changes: written(true, "st"), short: []v1alpha1.StaticPool{short("st", 2, 6)}, want: "b since 2: 2 of 6 nodes of NodePool/st are Ready"},
			{at: 3, revision: "b", short: []v1alpha1.StaticPool{short("st", 2, 6)}, want: "b since 2: 2 of 6 nodes of NodePool/st are Ready"},
			{at: 9, revision: "b", short: []v1alpha1.StaticPool{short("st", 5, 6)}, unsure: true, want: "b since 2: 5 of 6 nodes of NodePool/st are Ready"},
			{at: 10, revision: "b", unsure: true, want: "none"},
			{at: 11, revision: "b", short: []v1alpha1.StaticPool{short("st", 5, 6)}, want: "none"},
		},
		"a commit takes that back long after it": {
			{at: 1, revision: "a", changes: written(true, "st"), short: []v1alpha1.StaticPool{short("st", 2, 5)}, want: "a since 1: 2 of 5 nodes of NodePool/st are Ready"},
			{at: 60, revision: "b", changes: written(true, "st"), full: []v1alpha1.StaticPool{short("st", 2, 2)}, want: "a since 1: 2 of 2 nodes of NodePool/st are Ready"},
			{at: 62, revision: "b", short: []v1alpha1.StaticPool{short("st", 0, 2)}, want: "a since 1: 0 of 2 nodes of NodePool/st are Ready"},
			{at: 70, revision: "b", full: []v1alpha1.StaticPool{short("st", 2, 2)}, want: "a since 1: 2 of 2 nodes of NodePool/st are Ready"},
			{at: 80, revision: "b", full: []v1alpha1.StaticPool{short("st", 2, 2)}, want: "none"},
		},
		"it is written and has all": {{at: 1, revision: "a", changes: written(true, "st"), want: "none"}},
		"a node ends by itself":     {{at: 1, revision: "a", short: []v1alpha1.StaticPool{short("st", 2, 3)}, want: "none"}},
		"a node of another one ends meanwhile": {
			{at: 1, revision: "a", changes: written(true, "st"), short: []v1alpha1.StaticPool{short("st", 0, 1)}, want: "a since 1: 0 of 1 nodes of NodePool/st are Ready"},
			{at: 2, revision: "a", short: []v1alpha1.StaticPool{short("other", 1, 2), short("st", 0, 1)}, want: "a since 1: 0 of 1 nodes of NodePool/st are Ready"},
			{at: 3, revision: "a", short: []v1alpha1.StaticPool{short("other", 1, 2)}, want: "none"},
		},
		"another client's change is corrected": {
			{at: 1, revision: "a", changes: written(false, "st"), short: []v1alpha1.StaticPool{short("st", 1, 3)}, want: " since 1: 1 of 3 nodes of NodePool/st are Ready"},
			{at: 2, revision: "a", want: "none"},
		},
		"a commit replaces its nodes": {
			{at: 1, revision: "a", changes: both, want: "a since 1: 0 of 1 nodes replaced"},
			{at: 2, revision: "a", outdated: outdated(drift, "1-"), short: []v1alpha1.StaticPool{short("general", 0, 1)}, want: "a since 1: 0 of 1 nodes replaced (NodePoolDrifted), 1 draining, 0 of 1 nodes of NodePool/general are Ready"},
			{at: 3, revision: "a", short: []v1alpha1.StaticPool{short("general", 0, 1)}, want: "a since 1: 1 of 1 nodes replaced, 0 of 1 nodes of NodePool/general are Ready"},
			{at: 4, revision: "a", want: "none"},
		},
		"nodes drift by no commit": {
			{at: 1, revision: "a", outdated: outdated(drift, "1-"), short: []v1alpha1.StaticPool{short("general", 0, 1)}, want: " since 1: 0 of 1 nodes replaced (NodePoolDrifted, not caused by a commit), 1 draining"},
			{at: 2, revision: "a", short: []v1alpha1.StaticPool{short("general", 0, 1)}, want: "none"},
		},
		"another commit gives it more amid a rollout": {
			{at: 1, revision: "a", changes: outdating(false, "1"), want: "a since 1: 0 of 1 nodes replaced"},
			{at: 2, revision: "b", changes: written(true, "st"), outdated: outdated(drift, "1"), short: []v1alpha1.StaticPool{short("st", 0, 2)}, want: "a since 1: 0 of 1 nodes replaced (NodePoolDrifted), 0 of 2 nodes of NodePool/st are Ready"},
			{at: 3, revision: "b", short: []v1alpha1.StaticPool{short("st", 0, 2)}, want: "a since 1: 1 of 1 nodes replaced, 0 of 2 nodes of NodePool/st are Ready"},
			{at: 4, revision: "b", want: "none"},
		},
		"another commit outdates nodes meanwhile": {
			{at: 1, revision: "a", changes: written(true, "st"), short: []v1alpha1.StaticPool{short("st", 0, 2)}, want: "a since 1: 0 of 2 nodes of NodePool/st are Ready"},
			{at: 2, revision: "b", changes: outdating(false, "1"), short: []v1alpha1.StaticPool{short("st", 0, 2)}, want: "b since 2: 0 of 1 nodes replaced, 0 of 2 nodes of NodePool/st are Ready"},
			{at: 3, revision: "b", short: []v1alpha1.StaticPool{short("st", 1, 2)}, want: "b since 2: 1 of 1 nodes replaced, 1 of 2 nodes of NodePool/st are Ready"},
			{at: 4, revision: "b", want: "none"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r *v1alpha1.Rollout
			for _, s := range passes {
				r = rollout.Roll(r, rollout.Seen{Changes: s.changes, Matched: plan.Matched{Outdated: s.outdated, Unsure: s.unsure}, Short: s.short, Full: s.full, Revision: s.revision, Now: time.Unix(s.at, 0)})
				if got := saying(r); got != s.want {
					t.Fatalf("at %d: %s\nwant %s", s.at, got, s.want)
				}
			}
		})
	}
}

// static returns a static pool in Git and in the cluster.
func static(name string, replicas int64, spec map[string]any) rollout.Pool {
	git := map[string]any{"replicas": replicas}
	for key, value := range spec {
		git[key] = value
	}
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}, "spec": git}}
	return rollout.Pool{Name: name, Git: object, Live: plan.NewObject(object)}
}

// TestStaticPoolsAreFilled shows the rollout from the commit that writes a pool until it has its nodes, with what
// blocks them, and its events.
func TestStaticPoolsAreFilled(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	there := func(name string) plan.NodeClaim {
		return plan.NodeClaim{Name: name, UID: "1", Pool: "st", Node: name, ProviderID: name, Initialized: true}
	}
	launched := plan.NodeClaim{Name: "c", UID: "2", Pool: "st", Node: "c", ProviderID: "c"}
	ending := there("d")
	ending.Deleting = true
	create := plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: "st"}, Action: plan.Create, Object: render.Object{Defaulted: static("st", 3, nil).Git}}
	drift := create
	drift.Action, drift.Drift = plan.Update, true
	for name, c := range map[string]struct {
		change         plan.Change
		claims         []plan.NodeClaim
		spec           map[string]any
		launchFailures []rollout.LaunchFailure
		begins         bool
		want           string
	}{
		"none is there":       {change: create, begins: true, want: "rev: 0 of 3 nodes of NodePool/st are Ready"},
		"some are not yet":    {change: create, claims: []plan.NodeClaim{there("a"), launched, ending}, begins: true, want: "rev: 1 of 3 nodes of NodePool/st are Ready"},
		"all are":             {change: create, claims: []plan.NodeClaim{there("a"), there("b"), there("c")}, want: "none"},
		"the launch fails":    {change: create, claims: []plan.NodeClaim{there("a")}, launchFailures: []rollout.LaunchFailure{{Pool: "other", Why: "no capacity"}, {Pool: "st", Why: "Unauthorized"}}, begins: true, want: "rev: 1 of 3 nodes of NodePool/st are Ready: NodePool/st launches no node: Unauthorized"},
		"its limit":           {change: create, spec: map[string]any{"limits": map[string]any{"nodes": "2"}}, begins: true, want: "rev: 0 of 3 nodes of NodePool/st are Ready: spec.limits.nodes of NodePool/st is 2"},
		"a limit that is not": {change: create, spec: map[string]any{"limits": map[string]any{"nodes": int64(3)}}, begins: true, want: "rev: 0 of 3 nodes of NodePool/st are Ready"},
		"it is corrected":     {change: drift, want: ": 0 of 3 nodes of NodePool/st are Ready"},
		"it is held":          {change: plan.Change{Ref: create.Ref, Action: plan.Hold, Object: create.Object}, want: "none"},
		"nothing is written":  {change: plan.Change{Ref: create.Ref, Action: plan.None, Object: create.Object}, want: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rollout.Rollouts{
				Live: plan.Live{NodeClaims: c.claims}, Pools: []rollout.Pool{static("st", 3, c.spec)}, Changes: []plan.Change{c.change}, LaunchFailures: c.launchFailures,
				Events: &spoken{}, Revision: "rev", Now: now, Memory: &rollout.Memory{},
			}
			status := &v1alpha1.NodeSyncStatus{}
			if begins := r.Begin(status); begins != c.begins || begins != (status.Rollout != nil) {
				t.Errorf("it begins before the write: %t, want %t: %+v", begins, c.begins, status.Rollout)
			}
			r.Before = status.Rollout
			got := r.Look(t.Context()).Rollout
			words := "none"
			if got != nil {
				words = got.Revision + ": " + rollout.Words(*got)
				if !r.WakeAt.After(now) || r.WakeAt.After(now.Add(2*time.Second)) {
					t.Errorf("the next look is at %s", r.WakeAt)
				}
			}
			if words != c.want {
				t.Errorf("%s\nwant %s", words, c.want)
			}
		})
	}
}

// TestStaticPoolsAreToldOnce shows one event when their rollout starts, and one when it is complete.
func TestStaticPoolsAreToldOnce(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	node := plan.NodeClaim{Name: "a", UID: "1", Pool: "st", Node: "a", ProviderID: "a", Initialized: true}
	change := plan.Change{Ref: render.Ref{Kind: render.NodePool, Name: "st"}, Action: plan.Create, Object: render.Object{Defaulted: static("st", 1, nil).Git}}
	memory, status := &rollout.Memory{}, &v1alpha1.NodeSyncStatus{}
	var said *v1alpha1.Rollout
	var told []string
	seconds := []int{0, 1, 2, 11, 12, 13} // it must have all of them for a while
	for i, claims := range [][]plan.NodeClaim{nil, nil, {node}, {node}, {node}, nil} {
		r := rollout.Rollouts{Live: plan.Live{NodeClaims: claims}, Pools: []rollout.Pool{static("st", 1, nil)}, Before: said, Reported: said, Revision: "a", Now: now.Add(time.Duration(seconds[i]) * time.Second), Memory: memory, Events: &spoken{}}
		if i == 0 {
			r.Changes = []plan.Change{change}
			r.Begin(status)
			r.Before = status.Rollout
		}
		said = r.Look(t.Context()).Rollout
		for _, note := range r.Notes {
			told = append(told, note.Reason+": "+note.Message)
		}
	}
	want := []string{"RollingOut: a: 0 of 1 nodes of NodePool/st are Ready", "RolledOut: NodePool/st has all of its nodes, after 12s"}
	if len(told) != 2 || told[0] != want[0] || told[1] != want[1] {
		t.Errorf("%q\nwant %q", told, want)
	}
}

// TestAStaticPoolThatWantsNoNode is not reported, whatever the reason of its last failed launch.
func TestAStaticPoolThatWantsNoNode(t *testing.T) {
	conditions := []any{map[string]any{"type": "NodeRegistrationHealthy", "status": "False", "reason": "RegistrationFailed", "message": "none registers"}}
	ready := plan.NodeClaim{Pool: "st", Initialized: true}
	for name, c := range map[string]struct {
		spec   map[string]any
		claims []plan.NodeClaim
		said   bool
	}{
		"it has one of two":         {map[string]any{"replicas": int64(2)}, []plan.NodeClaim{ready, {Pool: "st"}}, true},
		"it has both":               {map[string]any{"replicas": int64(2)}, []plan.NodeClaim{ready, ready}, false},
		"it has one too many":       {map[string]any{"replicas": int64(1)}, []plan.NodeClaim{ready, ready}, false},
		"one ends":                  {map[string]any{"replicas": int64(2)}, []plan.NodeClaim{ready, {Pool: "st", Initialized: true, Deleting: true}}, true},
		"one is to be replaced":     {map[string]any{"replicas": int64(2)}, []plan.NodeClaim{ready, {Pool: "st", Initialized: true, Drifted: true}}, true},
		"the other is another's":    {map[string]any{"replicas": int64(2)}, []plan.NodeClaim{ready, {Pool: "other", Initialized: true}}, true},
		"it wants none":             {map[string]any{"replicas": int64(0)}, nil, false},
		"it is dynamic, with nodes": {map[string]any{}, []plan.NodeClaim{ready, ready}, true},
	} {
		t.Run(name, func(t *testing.T) {
			live := plan.NewObject(&unstructured.Unstructured{Object: map[string]any{"spec": c.spec, "status": map[string]any{"conditions": conditions}}})
			look := rollout.Launches{Known: &cluster.Launches{Now: time.Now}, Claims: c.claims, Off: func(context.Context, string) (bool, error) { return false, nil }}
			found, err := look.See(t.Context(), []rollout.Pool{{Name: "st", Live: live}}, &finding.Findings{})
			if err != nil || (len(found) > 0) != c.said {
				t.Errorf("says %v, %v; want something: %t", found, err, c.said)
			}
		})
	}
}

// TestAPoolWhoseClassHasNoAMI shows that this is the reason why it gets no nodes, whatever the reason of an earlier
// failed launch.
func TestAPoolWhoseClassHasNoAMI(t *testing.T) {
	class := func(name string) *plan.Object {
		return plan.NewObject(&unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": name}}})
	}
	known := &cluster.Launches{Now: time.Now}
	known.SeeEvent(&corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: render.NodePool, Name: "web"}, Reason: "NoCompatibleInstanceTypes",
		Message: "NodePool requirements filtered out all compatible available instance types", LastTimestamp: metav1.Now(),
	})
	look := rollout.Launches{Known: known, NoAMI: map[string]string{"default": "AWS publishes no AMI"}, Now: time.Now()}
	pools := []rollout.Pool{{Name: "web"}, {Name: "batch", Class: class("other")}}
	if found, _, err := look.Look(t.Context(), pools); err != nil || len(found) != 1 || !strings.Contains(found[0].Why, "instance type") {
		t.Fatalf("without an answer: %+v, %v", found, err)
	}
	pools[0].Class = class("default")
	found, _, err := look.Look(t.Context(), pools)
	if want := []rollout.LaunchFailure{{Pool: "web", Why: "AWS publishes no AMI"}}; err != nil || !slices.Equal(want, found) {
		t.Errorf("found %+v, %v; want %+v", found, err, want)
	}
}

// TestAStaticPoolThatIsToHaveFewer shows that, if a pool has all its nodes and more NodeClaims, of which Karpenter
// terminates some, the commit waits until it has all nodes again.
func TestAStaticPoolThatIsToHaveFewer(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	claim := func(name string, ready, deleting bool) plan.NodeClaim {
		return plan.NodeClaim{Name: name, UID: types.UID(name), Pool: "st", ProviderID: name, Initialized: ready, Deleting: deleting}
	}
	ref := render.Ref{Kind: render.NodePool, Name: "st"}
	change := plan.Change{
		Ref: ref, Action: plan.Update, Object: render.Object{Defaulted: static("st", 2, nil).Git}, Live: static("st", 3, nil).Git,
		Effect: plan.EffectReplace, Nodes: 1,
	}
	var before *v1alpha1.Rollout
	memory := &rollout.Memory{}
	for i, look := range []struct {
		claims []plan.NodeClaim
		want   string
	}{
		{[]plan.NodeClaim{claim("a", true, false), claim("b", true, false), claim("c", false, false)}, "rev: 0 of 1 nodes replaced"},
		{[]plan.NodeClaim{claim("a", true, false), claim("b", true, false), claim("c", false, false)}, "rev: 0 of 1 nodes replaced"},
		{[]plan.NodeClaim{claim("a", true, false), claim("b", true, false)}, "rev: 1 of 1 nodes replaced"}, // c could not be launched
		{[]plan.NodeClaim{claim("a", true, true), claim("b", true, false), claim("c", false, false)}, "rev: 0 of 1 nodes replaced, 1 of 2 nodes of NodePool/st are Ready"},
		{[]plan.NodeClaim{claim("b", true, false), claim("c", false, false)}, "rev: 1 of 1 nodes replaced, 1 of 2 nodes of NodePool/st are Ready"},
		{[]plan.NodeClaim{claim("b", true, false), claim("c", true, false)}, "rev: 1 of 1 nodes replaced"},
		{[]plan.NodeClaim{claim("b", true, false), claim("c", true, false)}, "rev: 1 of 1 nodes replaced"},
		{[]plan.NodeClaim{claim("b", true, false), claim("c", true, false)}, "none"},
	} {
		pool := static("st", 2, nil)
		r := rollout.Rollouts{Pools: []rollout.Pool{pool}, Live: plan.Live{NodeClaims: look.claims}, Before: before, Reported: before, Events: &spoken{}, Revision: "rev", Now: now.Add(time.Duration(i) * 5 * time.Second), Memory: memory}
		if i == 0 {
			r.Changes = []plan.Change{change}
		}
		before = r.Look(t.Context()).Rollout
		words := "none"
		if before != nil {
			words = before.Revision + ": " + rollout.Words(*before)
		}
		if words != look.want {
			t.Errorf("look %d: %s\nwant %s", i, words, look.want)
		}
	}
}

// TestANodeThatIsNeverInitialized, for example because of a startup taint, is reported after the time that nodes need,
// until another one joins.
func TestANodeThatIsNeverInitialized(t *testing.T) {
	created := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	known, now := &cluster.Launches{}, created
	known.Now = func() time.Time { return now }
	node := func(name string, at time.Time, conditions ...status.Condition) {
		known.See(&karpv1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(at), Labels: map[string]string{karpv1.NodePoolLabelKey: "web"}},
			Status:     karpv1.NodeClaimStatus{ProviderID: "aws:///a/i-" + name, NodeName: "node-" + name, Conditions: conditions},
		})
	}
	node("web-1", created, status.Condition{Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionUnknown})
	claims := []plan.NodeClaim{{Name: "web-1", Pool: "web"}}
	look := func(after time.Duration) ([]rollout.LaunchFailure, time.Time) {
		now = created.Add(after)
		found, wakes, err := rollout.Launches{Known: known, Claims: claims, Now: now}.Look(t.Context(), []rollout.Pool{{Name: "web"}})
		if err != nil {
			t.Fatal(err)
		}
		return found, wakes.WakeAt
	}
	if found, wake := look(time.Minute); len(found) > 0 || !wake.Equal(created.Add(rollout.InitializesWithin)) {
		t.Errorf("in time: %+v, wakes at %s", found, wake)
	}
	if found, _ := look(rollout.InitializesWithin); len(found) != 1 || !strings.HasPrefix(found[0].Why, "the node of NodeClaim/web-1 registered, but is not initialized 15m after its launch began: kubectl describe") {
		t.Errorf("too late: %+v", found)
	}
	there := claims
	claims = nil
	if found, _ := look(rollout.InitializesWithin); len(found) > 0 {
		t.Errorf("deleted while the watch was interrupted: %+v", found)
	}
	claims = there
	node("web-2", created.Add(time.Hour))
	if found, _ := look(2 * time.Hour); len(found) > 0 {
		t.Errorf("another has joined: %+v", found)
	}
}

// TestFewerReplicasWithoutTheGate: Karpenter terminates no node of a static pool while its feature gate is off, and the
// rollout says so.
func TestFewerReplicasWithoutTheGate(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	var claims []plan.NodeClaim
	for _, n := range []string{"1", "2", "3"} {
		claims = append(claims, plan.NodeClaim{Name: n, UID: types.UID(n), Pool: "st", Node: "node-" + n, ProviderID: "aws:///a/i-" + n, Initialized: true, Created: now.Add(-time.Hour)})
	}
	for off, want := range map[bool]string{false: "", true: "Karpenter's feature gate StaticCapacity is off, so it terminates no node of a static NodePool: "} {
		before := &v1alpha1.Rollout{Revision: "a", Since: metav1.NewTime(now.Add(-time.Hour)), LastProgress: metav1.NewTime(now.Add(-time.Hour)), Nodes: 2, Outdated: 2}
		r := rollout.Rollouts{
			Live: plan.Live{NodeClaims: claims}, Pools: []rollout.Pool{static("st", 1, nil)}, Before: before, Reported: before, Revision: "a", Now: now, Memory: &rollout.Memory{}, Events: &spoken{},
			Off: func(_ context.Context, gate string) (bool, error) { return off && gate == rollout.StaticGate, nil },
		}
		if got := r.Look(t.Context()).Rollout; got == nil || got.Outdated != 2 || !strings.HasPrefix(got.Message, want) || want == "" && got.Message != "" {
			t.Errorf("off %t: %+v", off, got)
		}
	}
}
