package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
	"github.com/plumbline-dev/plumbline/render"
)

// TestReplacing shows that only what was written replaces nodes, through the pool or its class.
func TestReplacing(t *testing.T) {
	pool, class := render.Ref{Kind: render.NodePool, Name: "general"}, render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	changes := []plan.Change{{Ref: pool, Effect: plan.EffectReplace}, {Ref: class, Effect: plan.EffectReplace}, {Ref: render.Ref{Kind: render.NodePool, Name: "calm"}}}
	claims := []plan.NodeClaim{{Pool: "batch", Class: "default"}, {Pool: "other", Class: "else"}}
	for name, c := range map[string]struct {
		written map[render.Ref]bool
		want    []string
	}{
		"nothing written": {nil, nil},
		"the pool":        {map[render.Ref]bool{pool: true}, []string{"general"}},
		"the class":       {map[render.Ref]bool{class: true}, []string{"batch"}},
	} {
		if diff := cmp.Diff(c.want, rollout.Replacing(changes, c.written, claims)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestUnexpectedDrift names the nodes of Git's pools that were not expected to be replaced, and schedules a reconcile
// for the end of the watch.
func TestUnexpectedDrift(t *testing.T) {
	now := time.Unix(1000, 0)
	until := metav1.NewTime(now.Add(time.Minute))
	k := v1alpha1.KarpenterStatus{Version: "1.14.1", NodeDrift: &v1alpha1.NodeDriftWatch{From: "1.8.6", To: "1.14.1", Since: metav1.NewTime(now.Add(-time.Minute)), Until: &until}}
	claims := []cluster.Claim{{NodeClaim: "general-1", Node: "ip-1", Pool: "general", Drifted: "NodePoolDrifted", Since: metav1.NewTime(now)}}
	pools := []rollout.Pool{{Name: "general"}}
	why := func(c cluster.Claim) string { return c.Drifted + ": a → b" }

	_, words, found := rollout.UnexpectedDrift(k, claims, pools, nil, why, now)
	if !strings.HasPrefix(words, "unexpected node drift since Karpenter changed from 1.8.6 to 1.14.1: ip-1 of general (NodeClaim general-1: NodePoolDrifted: a → b)") {
		t.Errorf("words: %s", words)
	}
	if !found.WakeAt.Equal(until.Time) {
		t.Errorf("the next pass is wanted at %s", found.WakeAt)
	}
	for name, c := range map[string]struct{ pools, replacing []string }{
		"a commit has them replaced": {[]string{"general"}, []string{"general"}},
		"another's pool":             {[]string{"batch"}, nil},
	} {
		pools := []rollout.Pool{{Name: c.pools[0]}}
		if _, words, _ := rollout.UnexpectedDrift(k, claims, pools, c.replacing, why, now); words != "" {
			t.Errorf("%s: %s", name, words)
		}
	}
}

// TestWhatEndedBeforeTheChangeIsNotItsDoing shows that NodeClaims that a removal has already deleted are not attributed
// to the change.
func TestWhatEndedBeforeTheChangeIsNotItsDoing(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	created := metav1.NewTime(now.Add(-time.Hour))
	ending := func(name string, since time.Time) cluster.Claim {
		return cluster.Claim{NodeClaim: name, Pool: "a", Created: created, Terminating: true, TerminatingSince: metav1.NewTime(since)}
	}
	claims := []cluster.Claim{{NodeClaim: "a-1", Pool: "a", Created: created}, {NodeClaim: "a-2", Pool: "a", Created: created}, ending("a-3", now.Add(-time.Minute))}
	k := rollout.Watch(v1alpha1.KarpenterStatus{Version: "1.8.6"}, "1.14.1", nil, claims, now)
	if got := rollout.Outcome(k, claims); got != ", and no NodeClaim has drifted or been deleted since the change began" {
		t.Errorf("what ended before: %q", got)
	}
	claims[1] = ending("a-2", now.Add(time.Minute))
	if got := rollout.Outcome(k, claims); got != ", and of 2 NodeClaims 1 drifted or were deleted since the change began: a-2" {
		t.Errorf("what ends since: %q", got)
	}
}
