package status

import (
	"errors"
	"strings"
	"testing"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// TestOutcome: what a cluster tells the others about a commit. Only a complete rollout is a success, and only what is wrong
// with the commit or the nodes is a failure.
func TestOutcome(t *testing.T) {
	at := metav1.Unix(5, 0)
	stopped := v1alpha1.PoolRollout{Pool: "general", Reason: v1alpha1.BrakeFailedLaunches, Message: "no node joins", BrakedAt: &at}
	held := v1alpha1.PoolRollout{Pool: "general", Reason: v1alpha1.BrakeHeldByCondition, Message: "errors: the query has a result", BrakedAt: &at}
	for name, c := range map[string]struct {
		change    func(s *Step)
		rolledOut bool
		failed    string
	}{
		"each node matches":    {change: func(s *Step) { s.Sync.Status.Rollout = nil }, rolledOut: true},
		"it rolls out":         {change: func(*Step) {}},
		"it was not looked at": {change: func(s *Step) { s.Sync.Status.Rollout, s.SawRollout = nil, false }},
		"another one applies":  {change: func(s *Step) { s.Sync.Status.Rollout = nil; s.Sync.Status.LastAppliedRevision = "main@sha1:z" }},
		"it is braked":         {change: func(s *Step) { s.Sync.Status.PoolRollouts = []v1alpha1.PoolRollout{stopped} }, failed: "rollout stopped until a revert"},
		"an alert holds it":    {change: func(s *Step) { s.Sync.Status.PoolRollouts = []v1alpha1.PoolRollout{held} }},
		"it is invalid": {
			change: func(s *Step) {
				s.Sync.Status.Rollout, s.Fault = nil, &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonInvalid, Err: errors.New("a.yaml:1: wrong")}
			},
			failed: "a.yaml:1: wrong",
		},
		"it is held": {
			change: func(s *Step) {
				s.Sync.Status.Rollout, s.Fault = nil, &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonHeld, Err: errors.New("held")}
			},
		},
		"the chart registry is away": {
			change: func(s *Step) {
				s.Sync.Status.Rollout, s.Fault = nil, &fault.Error{Class: fault.Transient, Reason: v1alpha1.ReasonChartFailed, Err: errors.New("no route")}
			},
		},
		"the host is away": {
			change: func(s *Step) {
				s.Sync.Status.Rollout = nil
				s.Unfetched = &fault.Error{Class: fault.Transient, Reason: v1alpha1.ReasonSourceFailed, Err: errors.New("no route")}
			},
		},
		"another Karpenter terminates its nodes": {
			change: func(s *Step) {
				s.Sync.Status.Rollout = nil
				s.Sync.Status.IdentityConflict = &v1alpha1.IdentityConflict{Proven: true, Since: metav1.Unix(1, 0)}
			},
			failed: "identity conflict",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := rolling(1, 0, v1alpha1.Rollout{Revision: "main@sha1:a", Nodes: 3, Outdated: 2})
			s.SawRollout, s.Sync.Status.LastAppliedRevision = true, "main@sha1:a"
			c.change(s)
			s.setRolledOut()
			rolledOut, failed := s.Outcome()
			if rolledOut != c.rolledOut || (failed == "") != (c.failed == "") || !strings.Contains(failed, c.failed) {
				t.Errorf("rolled out %t, failed %q; want %t, %q", rolledOut, failed, c.rolledOut, c.failed)
			}
		})
	}
}

// TestPromoted: the condition has what the newest commit waits for, and why that cannot be decided.
func TestPromoted(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	s := &Step{Sync: sync, Before: sync.DeepCopy(), Memory: &Memory{}}
	expect := func(want string) {
		t.Helper()
		s.setPromoted()
		got := ""
		if c := conditions.Get(sync, v1alpha1.PromotedCondition); c != nil {
			got = string(c.Status) + " " + c.Reason + ": " + c.Message
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	expect("")
	sync.Spec.Promotion = &v1alpha1.Promotion{}
	sync.Status.Promotion = &v1alpha1.PromotionStatus{Taken: strings.Repeat("a", 40)}
	expect("True NewestTaken: aaaaaaa is taken, and no newer commit is known")
	sync.Status.Promotion.Waits = []v1alpha1.PromotionWait{{Commit: strings.Repeat("b", 40), Reason: "Soaking", Message: "soaks in ring canary"}}
	expect("False Soaking: bbbbbbb is not taken: soaks in ring canary")
	if waits := s.commitWaits(); len(waits) != 1 || waits[0].Description != "soaks in ring canary" {
		t.Errorf("commit statuses: %+v", waits)
	}
	s.Unfetched = fault.Unpromoted(errors.New("rings.yaml has cluster eu/eu in no ring"))
	expect("False PromotionFailed: rings.yaml has cluster eu/eu in no ring")
	if v := s.Verdict(); v.Class != Stuck || v.Reason != v1alpha1.ReasonPromotionFailed {
		t.Errorf("the verdict is %+v", v)
	}
	sync.Spec.Promotion, s.Unfetched = nil, nil
	expect("")
}
