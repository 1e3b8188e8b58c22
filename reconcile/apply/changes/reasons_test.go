package changes

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// TestReasonsFromTheLog: Karpenter's log is read once an EC2NodeClass stays not Ready and no condition has a reason, at
// most every half minute, and an error counts for the generation after which it was logged.
func TestReasonsFromTheLog(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const log = `{"level":"ERROR","time":"2026-03-01T12:00:05.000Z","logger":"controller","message":"Reconciler error","controller":"nodeclass","controllerGroup":"karpenter.k8s.aws","controllerKind":"EC2NodeClass","EC2NodeClass":{"name":"default"},"namespace":"","name":"default","reconcileID":"1","error":"creating instance profile, operation error IAM: AddRoleToInstanceProfile, https response error StatusCode: 404, RequestID: 6f, NoSuchEntity: The role with name x cannot be found."}`
	const explained = "EC2NodeClass/default is not Ready: creating instance profile, operation error IAM: AddRoleToInstanceProfile, NoSuchEntity: The role with name x cannot be found. (Karpenter's log)"
	const unexplained = "EC2NodeClass/default is not Ready: ReconcilingDependents: object is awaiting reconciliation"
	ref := render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	reasons, reads, since := Reasons{}, 0, time.Time{}
	generation, conditions := int64(1), []any{map[string]any{"type": "Ready", "status": "Unknown", "reason": "ReconcilingDependents", "message": "object is awaiting reconciliation", "observedGeneration": int64(1)}}
	look := func(after time.Duration) (string, finding.Findings) {
		u := object("default")
		u.SetKind(render.EC2NodeClass)
		u.SetGeneration(generation)
		_ = unstructured.SetNestedSlice(u.Object, conditions, "status", "conditions")
		live := plan.Live{Objects: map[render.Ref]*plan.Object{ref: plan.NewObject(u)}}
		set := &render.Set{Objects: []render.Object{{Ref: ref}}}
		ready, found := Ready(set, live, nil)
		reasons.Explain(Waiting{Live: live, Ready: ready, Found: &found, Namespace: "kube-system", StallAfter: 15 * time.Minute, Now: start.Add(after), Since: func(string) time.Time { return since }}, func() string {
			reads++
			return log
		})
		if len(found.Waits) == 0 {
			return "", found
		}
		if ready[ref] != (cluster.Readiness{Message: found.Waits[0].Message}) {
			t.Errorf("the readiness is %+v, and the wait %+v", ready[ref], found.Waits[0])
		}
		return found.Waits[0].Message, found
	}
	step := func(name string, after time.Duration, want string, wantReads int, wake time.Duration) {
		t.Helper()
		got, found := look(after)
		if got != want || reads != wantReads || wake > 0 && !found.WakeAt.Equal(start.Add(wake)) {
			t.Errorf("%s: %q after %d reads, next at %s\nwant %q after %d reads", name, got, reads, found.WakeAt, want, wantReads)
		}
		if stalls := len(found.Waits) > 0 && !found.Waits[0].Stalls.IsZero(); stalls != (want == explained) {
			t.Errorf("%s: it may stall: %t", name, stalls)
		}
	}
	step("at first", 0, unexplained, 0, 10*time.Second)
	step("a moment later", 9*time.Second, unexplained, 0, 10*time.Second)
	step("after ten seconds", 10*time.Second, explained, 1, 40*time.Second)
	step("between reads", 39*time.Second, explained, 1, 40*time.Second)
	step("again", 40*time.Second, explained, 2, 70*time.Second)
	generation = 2
	conditions[0].(map[string]any)["observedGeneration"] = int64(2)
	step("another generation", 50*time.Second, unexplained, 2, 70*time.Second)
	step("its error is older", 70*time.Second, unexplained+"; see Karpenter's log for the reason: kubectl logs -n kube-system -l app.kubernetes.io/name=karpenter", 3, 100*time.Second)
	conditions = append(conditions, map[string]any{"type": "SubnetsReady", "status": "False", "reason": "SubnetsNotFound", "message": "no subnet"})
	step("a condition has a reason", 100*time.Second, unexplained+"; SubnetsReady: SubnetsNotFound: no subnet", 3, 0)
	conditions = []any{map[string]any{"type": "Ready", "status": "True", "observedGeneration": int64(2)}}
	step("it is Ready", 101*time.Second, "", 3, 0)

	generation, since, reasons = 3, start.Add(-time.Hour), Reasons{} // the daemon restarts
	conditions = []any{map[string]any{"type": "Ready", "status": "Unknown", "reason": "ReconcilingDependents", "message": "object is awaiting reconciliation", "observedGeneration": int64(3)}}
	step("after a restart", 200*time.Second, unexplained, 3, 210*time.Second)
	step("ten seconds after it", 210*time.Second, explained, 4, 240*time.Second)
	if _, found := look(210 * time.Second); !found.Waits[0].Stalls.Equal(since.Add(15*time.Minute)) || !found.Waits[0].Since.Equal(since) {
		t.Errorf("it is not Ready since %s and stalls at %s", found.Waits[0].Since, found.Waits[0].Stalls)
	}
}

// TestSelectorsThatMatchNothing: a class for whose current spec Karpenter finds none of what it needs may not become Ready by itself. It
// stalls at a time that a restart does not change.
func TestSelectorsThatMatchNothing(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	since := now.Add(-5 * time.Minute)
	condition := func(kind, status string, generation int64) any {
		return map[string]any{"type": kind, "status": status, "reason": "NotFound", "message": "none matches", "observedGeneration": generation}
	}
	for name, c := range map[string]struct {
		conditions []any
		since      time.Time
		want       time.Time
	}{
		"no subnet":             {conditions: []any{condition("Ready", "False", 2), condition("SubnetsReady", "False", 2)}, since: since, want: since},
		"no security group":     {conditions: []any{condition("Ready", "False", 2), condition("SecurityGroupsReady", "False", 2)}, since: since, want: since},
		"no AMI":                {conditions: []any{condition("Ready", "False", 2), condition("AMIsReady", "False", 2)}, since: since, want: since},
		"since when is unknown": {conditions: []any{condition("Ready", "False", 2), condition("SubnetsReady", "False", 2)}, want: now},
		"of an older spec":      {conditions: []any{condition("Ready", "False", 2), condition("SubnetsReady", "False", 1)}, since: since},
		"another reason":        {conditions: []any{condition("Ready", "False", 2), condition("InstanceProfileReady", "False", 2)}, since: since},
	} {
		u := object("default")
		u.SetKind(render.EC2NodeClass)
		u.SetGeneration(2)
		_ = unstructured.SetNestedSlice(u.Object, c.conditions, "status", "conditions")
		ref := render.Ref{Kind: render.EC2NodeClass, Name: "default"}
		live := plan.Live{Objects: map[render.Ref]*plan.Object{ref: plan.NewObject(u)}}
		ready, found := Ready(&render.Set{Objects: []render.Object{{Ref: ref}}}, live, nil)
		message := ready[ref].Message
		(&Reasons{}).Explain(Waiting{Live: live, Ready: ready, Found: &found, StallAfter: 15 * time.Minute, Now: now, Since: func(string) time.Time { return c.since }}, func() string {
			t.Errorf("%s: the log is read", name)
			return ""
		})
		want := finding.Wait{On: ref.String(), Message: message}
		if !c.want.IsZero() {
			want.Since, want.Stalls = c.want, c.want.Add(15*time.Minute)
		}
		if len(found.Waits) != 1 || found.Waits[0] != want || !found.WakeAt.Equal(want.Stalls) {
			t.Errorf("%s: %+v, next at %s, want %+v", name, found.Waits, found.WakeAt, want)
		}
	}
}

// TestTheLogMayNotBeRead: without charts.controllerLogs the daemon has no right to Karpenter's log, and the message names the command.
func TestTheLogMayNotBeRead(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "karpenter", Name: "karpenter-1", Labels: cluster.ControllerLabels()},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	reader, denied := fake.NewClientBuilder().WithObjects(pod).Build(), 0
	logs := func(_ context.Context, namespace, name, _ string, _ bool) (string, error) {
		denied++
		return "", apierrors.NewForbidden(schema.GroupResource{Resource: "pods/log"}, namespace+"/"+name, nil)
	}
	u := object("default")
	u.SetKind(render.EC2NodeClass)
	u.SetGeneration(1)
	_ = unstructured.SetNestedSlice(u.Object, []any{map[string]any{"type": "Ready", "status": "Unknown", "reason": "ReconcilingDependents", "message": "object is awaiting reconciliation", "observedGeneration": int64(1)}}, "status", "conditions")
	ref := render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	live := plan.Live{Objects: map[render.Ref]*plan.Object{ref: plan.NewObject(u)}}
	var reasons Reasons
	var got string
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(10, 0)} {
		ready, found := Ready(&render.Set{Objects: []render.Object{{Ref: ref}}}, live, nil)
		reasons.Explain(
			Waiting{Live: live, Ready: ready, Found: &found, Namespace: "karpenter", Now: at, Since: func(string) time.Time { return time.Time{} }},
			func() string { return upgrade.ControllerLog(t.Context(), reader, logs, "karpenter") },
		)
		got = ready[ref].Message
	}
	const want = "EC2NodeClass/default is not Ready: ReconcilingDependents: object is awaiting reconciliation; see Karpenter's log for the reason: kubectl logs -n karpenter -l app.kubernetes.io/name=karpenter"
	if got != want || denied != 1 {
		t.Errorf("%q after %d denials, want %q", got, denied, want)
	}
}
