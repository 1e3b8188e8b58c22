package status

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/report"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

// rolling returns a conclusion about a rollout that started at 0, a number of seconds later.
func rolling(at int64, timeout time.Duration, r v1alpha1.Rollout) *Step {
	sync := &v1alpha1.NodeSync{}
	r.Since = metav1.Unix(0, 0)
	sync.Status.Rollout = &r
	if timeout > 0 {
		sync.Spec.Rollout.Timeout = &metav1.Duration{Duration: timeout}
	}
	return &Step{Sync: sync, Before: sync.DeepCopy(), Memory: &Memory{}, Began: time.Unix(at, 0), Found: Found{Rollout: &r, Commit: "a"}}
}

// TestTheCommitWaitsForItsNodes, and fails when that takes too long, even while something else is waited for; other
// failures stay as they are.
func TestTheCommitWaitsForItsNodes(t *testing.T) {
	of := v1alpha1.Rollout{Revision: "main@sha1:a", Nodes: 3, Outdated: 2}
	for name, c := range map[string]struct {
		at      int64
		timeout time.Duration
		class   State
		want    report.State
		text    string
	}{
		"it goes on":                {at: 1, class: Done, want: report.Pending, text: "rolling out: 1 of 3 nodes replaced"},
		"it is in time":             {at: 59, timeout: time.Minute, class: Done, want: report.Pending, text: "rolling out: 1 of 3 nodes replaced"},
		"it takes too long":         {at: 60, timeout: time.Minute, class: Done, want: report.Failure, text: "not rolled out within 1m0s: 1 of 3 nodes replaced"},
		"and Karpenter is away":     {at: 60, timeout: time.Minute, class: Working, want: report.Failure, text: "not rolled out within 1m0s: 1 of 3 nodes replaced"},
		"something else is waited":  {at: 1, timeout: time.Minute, class: Working, want: report.Pending, text: "waiting"},
		"something else went wrong": {at: 60, timeout: time.Minute, class: Stuck, want: report.Failure, text: "waiting"},
	} {
		v := rolling(c.at, c.timeout, of).withRollout(Verdict{Class: c.class, Message: "waiting"})
		if v.CommitState() != c.want || v.CommitText() != c.text {
			t.Errorf("%s: %s %q", name, v.CommitState(), v.CommitText())
		}
	}
}

// TestNoNodeIsLate if all match, and Karpenter may still find others.
func TestNoNodeIsLate(t *testing.T) {
	v := rolling(60, time.Minute, v1alpha1.Rollout{Revision: "main@sha1:a", Nodes: 3}).withRollout(Verdict{Class: Done})
	if v.CommitState() != report.Pending || v.CommitText() != "rolling out: 3 of 3 nodes replaced" {
		t.Errorf("%s %q", v.CommitState(), v.CommitText())
	}
}

// TestTheCommitNamesWhatKeepsADrain while it waits, and when that takes too long.
func TestTheCommitNamesWhatKeepsADrain(t *testing.T) {
	of := v1alpha1.Rollout{
		Revision: "main@sha1:a", Nodes: 40, Outdated: 28, Draining: 2, Reasons: []string{"AMIDrift"},
		Message: "waits for PodDisruptionBudget web/web, which allows no disruption (healthy: 2 of 2, 2 needed) of pod web/web-0 (node ip-10-0-0-7.eu-west-1.compute.internal, NodeClaim/default-x1)",
	}
	for text, c := range map[string]struct {
		at   int64
		want report.State
	}{
		"rolling out: 12 of 40 nodes replaced (AMIDrift), 2 draining: waits for PodDisruptionBudget web/web, which allows no disruption (healthy: 2…": {59, report.Pending},
		"not rolled out within 1m0s: 12 of 40 nodes replaced (AMIDrift), 2 draining: waits for PodDisruptionBudget web/web, which allows no…":         {60, report.Failure},
	} {
		s := rolling(c.at, time.Minute, of)
		s.SawRollout = true
		if v := s.withRollout(Verdict{Class: Done}); v.CommitState() != c.want || v.CommitText() != text {
			t.Errorf("%s %q\nwant %q", v.CommitState(), v.CommitText(), text)
		}
		s.setRolledOut()
		if got := conditions.GetMessage(s.Sync, v1alpha1.RolledOutCondition); !strings.HasSuffix(got, of.Message) {
			t.Errorf("the condition: %s", got)
		}
	}
}

// TestTheCommitReportsThatItWillTakeTooLong as soon as that is expected: it stays pending, the condition has its own reason,
// one event is sent, and the failure follows when the time is over.
func TestTheCommitReportsThatItWillTakeTooLong(t *testing.T) {
	since := metav1.Unix(20, 0)
	of := v1alpha1.Rollout{
		Revision: "main@sha1:a", Nodes: 40, Outdated: 31, Draining: 2, Message: "waits for PodDisruptionBudget web/web",
		Estimate: &v1alpha1.RolloutEstimate{LimitedBy: v1alpha1.LimitPods, Pool: "general", ExceedsSince: &since, ExceedsBy: &metav1.Duration{Duration: 48 * time.Hour}},
	}
	const late = "will exceed rollout.timeout by 2d: 31 of 40 nodes wait for PodDisruptionBudget web/web"
	before := &v1alpha1.NodeSync{}
	for _, c := range []struct {
		at     int64
		want   report.State
		text   string
		reason string
		events int
	}{
		{30, report.Pending, late, v1alpha1.ReasonRolloutLate, 1},
		{40, report.Pending, late, v1alpha1.ReasonRolloutLate, 0},
		{60, report.Failure, "not rolled out within 1m0s: 9 of 40 nodes replaced, 2 draining: waits for PodDisruptionBudget web/web", v1alpha1.ReasonRolloutTimedOut, 0},
	} {
		s := rolling(c.at, time.Minute, of)
		s.SawRollout, s.Before = true, before
		if v := s.withRollout(Verdict{Class: Done}); v.CommitState() != c.want || v.CommitText() != c.text {
			t.Errorf("at %d: %s %q", c.at, v.CommitState(), v.CommitText())
		}
		s.setRolledOut()
		if got := conditions.Get(s.Sync, v1alpha1.RolledOutCondition); got.Reason != c.reason || got.Message != c.text {
			t.Errorf("at %d the condition: %s %s", c.at, got.Reason, got.Message)
		}
		if len(s.Notes) != c.events {
			t.Errorf("at %d: events %v", c.at, s.Notes)
		}
		before = s.Sync
	}
	withoutTimeout := rolling(30, 0, of)
	if v := withoutTimeout.withRollout(Verdict{Class: Done}); !strings.HasPrefix(v.CommitText(), "rolling out: ") {
		t.Errorf("without a timeout: %q", v.CommitText())
	}
}

// TestTheCommitWaitsForStaticPools, although they have nodes already, and reports what blocks the others.
func TestTheCommitWaitsForStaticPools(t *testing.T) {
	s := rolling(1, 0, v1alpha1.Rollout{Revision: "main@sha1:a", StaticPools: []v1alpha1.StaticPool{{Pool: "st", Ready: 2, Replicas: 6}}, Message: "NodePool/st launches no node: Unauthorized"})
	s.SawRollout, s.Missing, s.LaunchFailures = true, map[string]rollout.Shortage{"st": {Ready: 2, Replicas: 6}}, []rollout.LaunchFailure{{Pool: "st", Why: "Unauthorized"}}
	const words = "2 of 6 nodes of NodePool/st are Ready: NodePool/st launches no node: Unauthorized"
	v := s.withRollout(s.doneVerdict())
	if v.CommitState() != report.Pending || v.CommitText() != "rolling out: "+words {
		t.Errorf("the commit: %s %q", v.CommitState(), v.CommitText())
	}
	s.setRolledOut()
	if c := conditions.Get(s.Sync, v1alpha1.RolledOutCondition); c == nil || c.Status != metav1.ConditionFalse || c.Message != words {
		t.Errorf("the condition: %+v", c)
	}
	s.Drifts = []Drift{}
	if drift, known := s.reportDrift(report.Update{}); !known || drift.State != report.Success {
		t.Errorf("the drift of a commit: %+v", drift)
	}
	s.Sync.Status.Rollout.Revision = ""
	if drift, known := s.reportDrift(report.Update{}); !known || drift.State != report.Success {
		t.Errorf("the drift where another client's replicas are corrected: %+v", drift)
	}
}

// TestNumbersAreReportedOnceAMinute because hosts limit the number of statuses on a commit. What a rollout waits for,
// and its end, are reported at once.
func TestNumbersAreReportedOnceAMinute(t *testing.T) {
	memory := &Memory{}
	for _, c := range []struct {
		at       int64
		outdated int32
		waits    string
		want     string
		wakes    int64
	}{
		{at: 0, outdated: 9, want: "rolling out: 0 of 9 nodes replaced"},
		{at: 10, outdated: 8, want: "rolling out: 0 of 9 nodes replaced", wakes: 60},
		{at: 20, outdated: 7, waits: "a window", want: "rolling out: 2 of 9 nodes replaced: a window"},
		{at: 30, outdated: 6, waits: "a window", want: "rolling out: 2 of 9 nodes replaced: a window", wakes: 80},
		{at: 80, outdated: 5, waits: "a window", want: "rolling out: 4 of 9 nodes replaced: a window"},
	} {
		s := rolling(c.at, 0, v1alpha1.Rollout{Revision: "main@sha1:a", Nodes: 9, Outdated: c.outdated, Message: c.waits})
		s.Memory = memory
		if got := s.pacedText(s.withRollout(Verdict{Class: Done})); got != c.want {
			t.Errorf("at %d: %q, want %q", c.at, got, c.want)
		}
		if c.wakes > 0 != !s.WakeAt.IsZero() || c.wakes > 0 && s.WakeAt.Unix() != c.wakes {
			t.Errorf("at %d: wakes at %v, want %d", c.at, s.WakeAt, c.wakes)
		}
	}
	done := &Step{Sync: &v1alpha1.NodeSync{}, Memory: memory, Began: time.Unix(81, 0)}
	if got := done.pacedText(Verdict{Class: Done}); got != "applied, Ready, no removal open, each node matches" || memory.counted != (counted{}) {
		t.Errorf("the end: %q", got)
	}
}
