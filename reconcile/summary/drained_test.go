package summary_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// TestADrain shows that the text says that the pools are kept, and in the end how to get nodes again.
func TestADrain(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	sync.Name, sync.Namespace, sync.Spec.Drain = "dev", "plumbline-system", true
	done := v1alpha1.Removal{Kind: "NodePool", Name: "a", Phase: v1alpha1.RemovalVerifyingCloud, Reason: v1alpha1.ReasonDrained}
	sync.Status.Removals = []v1alpha1.Removal{done, {Kind: "NodePool", Name: "b", Phase: v1alpha1.RemovalVerifyingCloud, Reason: "InstancesLeaving"}}
	conditions.MarkUnknown(sync, meta.ReadyCondition, v1alpha1.ReasonRemoving, "draining")
	if state, next := summary.StateOf(sync), summary.Next(sync); state != summary.Removing || next != "keeps NodePool/b without nodes once EC2 reports that every instance is terminated" {
		t.Errorf("%s: %s", state, next)
	}
	conditions.MarkTrue(sync, meta.ReadyCondition, v1alpha1.ReasonDrained, "drained")
	if state, next := summary.StateOf(sync), summary.Next(sync); state != summary.Drained || !strings.Contains(next, "plumbline resume dev -n plumbline-system") {
		t.Errorf("%s: %s", state, next)
	}
	if got := summary.PhaseWord(done); got != "Drained" {
		t.Errorf("its pool is %s", got)
	}
}

// TestWhatARemovalWaitsFor shows that the text of a stalled one has since when.
func TestWhatARemovalWaitsFor(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	at := metav1.NewTime(now.Add(-time.Hour))
	r := v1alpha1.Removal{Message: "a pod\nof web", LastProgress: at}
	if got := summary.WaitsFor(r, 30*time.Second, now); got != "a pod …" {
		t.Errorf("it goes on: %q", got)
	}
	r.Stalled = &at
	if got := summary.WaitsFor(r, 30*time.Second, now); got != "no progress since 14:00 UTC (60m): a pod …" {
		t.Errorf("stalled: %q", got)
	}
}

// TestARemovalCountsDown until its grace is over.
func TestARemovalCountsDown(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	for since, want := range map[time.Duration]string{
		0: "starts in 30s, unless it is put back into Git", 18 * time.Second: "starts in 12s, unless it is put back into Git",
		30 * time.Second: "as recorded", time.Hour: "as recorded",
	} {
		r := v1alpha1.Removal{Phase: v1alpha1.RemovalPacing, Reason: v1alpha1.ReasonGrace, RecordedAt: metav1.NewTime(now.Add(-since)), Message: "as recorded"}
		if got := summary.WaitsFor(r, 30*time.Second, now); got != want {
			t.Errorf("after %s: %q, want %q", since, got, want)
		}
		r.Reason = "PodsPending"
		if got := summary.WaitsFor(r, 30*time.Second, now); got != "as recorded" {
			t.Errorf("for another reason: %q", got)
		}
	}
}

// TestATerminationThatIsStalled is the headline of a NodeSync that is Ready.
func TestATerminationThatIsStalled(t *testing.T) {
	sync := &v1alpha1.NodeSync{}
	sync.Status.LastAttemptedRevision, sync.Status.LastAppliedRevision = "main@sha1:1", "main@sha1:1"
	conditions.MarkTrue(sync, meta.ReadyCondition, meta.SucceededReason, "applied")
	if state := summary.StateOf(sync); state != summary.InSync {
		t.Errorf("before: %s", state)
	}
	conditions.MarkTrue(sync, v1alpha1.TerminationStalledCondition, v1alpha1.ReasonTerminating, "1 node is terminating")
	sync.Status.Terminations = []v1alpha1.Termination{{Kind: "NodeClaim", Name: "general-1"}}
	if state := summary.StateOf(sync); state != summary.Stuck || summary.Since(sync) == nil || !strings.Contains(summary.Next(sync), "plumbline never forces it") {
		t.Errorf("%s since %v: %s", state, summary.Since(sync), summary.Next(sync))
	}
	if status := summary.Of(sync); status.Stuck != "1 node is terminating" || len(status.Terminations) != 1 {
		t.Errorf("%+v", status)
	}
	if message := summary.Message(sync); message != "termination stalled: 1 node is terminating" {
		t.Errorf("message %q", message)
	}
	conditions.MarkFalse(sync, v1alpha1.RolledOutCondition, v1alpha1.ReasonRollingOut, "0 of 1 nodes replaced")
	if message := summary.Message(sync); message != "termination stalled: 1 node is terminating; rolling out: 0 of 1 nodes replaced" {
		t.Errorf("message of a rollout that waits for it: %q", message)
	}
	conditions.MarkFalse(sync, meta.ReadyCondition, v1alpha1.ReasonHeld, "held")
	conditions.MarkStalled(sync, v1alpha1.ReasonHeld, "held")
	if state := summary.StateOf(sync); state != summary.Held {
		t.Errorf("what needs a person first: %s", state)
	}
}
