package removal

import (
	"strings"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/render"
)

// TestDriveDiagnosesAStall checks that a stalled removal names the node, the pod and the budget that it reads at that
// moment, with the same message in every reconcile.
func TestDriveDiagnosesAStall(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{NodeName: "node-a"}}
	elsewhere := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-2"}, Spec: corev1.PodSpec{NodeName: "node-b"}}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}), pod, elsewhere, budget)
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.pass()
	if s.sync.Status.Removals[0].Stalled != nil {
		t.Fatal("stalled before its time")
	}
	s.now = s.now.Add(10 * time.Minute)
	s.pass()
	stalled := s.sync.Status.Removals[0]
	if stalled.Stalled == nil || !strings.Contains(stalled.Message, "node node-a (NodeClaim/a) waits for pod shop/web-1, of which PodDisruptionBudget shop/web allows no disruption") {
		t.Errorf("removal %+v", stalled)
	}
	s.pass()
	if again := s.sync.Status.Removals[0]; again.Message != stalled.Message || !again.Stalled.Equal(stalled.Stalled) {
		t.Errorf("written again without a cause: %+v", again)
	}
	s.karpenter("terminated")
	s.pass()
	if r := s.sync.Status.Removals[0]; r.Stalled != nil {
		t.Errorf("still stalled after progress: %+v", r)
	}
}

// TestDriveNamesARefusedTermination checks that a refused termination of a drained node is reported within seconds, not
// after a minute or a stall.
func TestDriveNamesARefusedTermination(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	for range 3 {
		s.pass()
	}
	conditions := func(types ...string) {
		t.Helper()
		claim := s.claims()[0]
		if claim.DeletionTimestamp == nil {
			t.Fatalf("it is not ended: %+v", s.sync.Status.Removals)
		}
		claim.Status.Conditions = nil
		for _, name := range types {
			claim.Status.Conditions = append(claim.Status.Conditions, status.Condition{Type: name, Status: "True", LastTransitionTime: metav1.NewTime(s.now)})
		}
		if err := s.client.Update(t.Context(), &claim); err != nil {
			t.Fatal(err)
		}
	}
	says := func(what string, want bool) {
		t.Helper()
		if r := s.sync.Status.Removals[0]; strings.Contains(r.Message, "EC2 to accept the termination of") != want || r.Stalled != nil {
			t.Errorf("%s: %+v", what, r)
		}
	}
	conditions(karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached)
	s.pass()
	says("11 seconds after the drain", true)
	if r := s.sync.Status.Removals[0]; !strings.Contains(r.Message, "although the instance is not protected") {
		t.Errorf("unprotected: %+v", r)
	}
	conditions(karpv1.ConditionTypeDrained, karpv1.ConditionTypeVolumesDetached, karpv1.ConditionTypeInstanceTerminating)
	s.pass()
	says("it is taken", false)
}

func TestDriveWhileTheControllerIsGone(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}))
	s.launch("a", "batch", "batch-uid")
	s.controller = Gate{Message: "deployment/karpenter is scaled to 0"}
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.now = s.now.Add(10 * time.Minute)
	s.pass()
	r := s.sync.Status.Removals[0]
	if claims := s.claims(); r.Stalled == nil || r.Message != s.controller.Message || !claims[0].DeletionTimestamp.IsZero() {
		t.Errorf("removal %+v, NodeClaim %v", r, claims[0].ObjectMeta)
	}
}

// TestDriveNamesWhatKeepsASlowDrain checks that what blocks a node is named a minute after its drain started, long
// before the removal is stalled, and is not read in every reconcile.
func TestDriveNamesWhatKeepsASlowDrain(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{NodeName: "node-a"}}
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"limits": map[string]any{"cpu": "0"}}), pod, budget)
	s.now = time.Now() // the fake client's deletion time
	s.launch("a", "batch", "batch-uid")
	s.find(render.NodePool, "batch", "batch-uid")
	s.pass()
	s.pass()
	s.pass()
	if r := s.sync.Status.Removals[0]; strings.Contains(r.Message, "shop/web") {
		t.Fatalf("named at once: %s", r.Message)
	}
	if wake := s.claims()[0].DeletionTimestamp.Add(slowDrain); s.last.Again.After(wake) {
		t.Errorf("the next pass is at %v, want one at %v", s.last.Again, wake)
	}
	s.now = s.now.Add(time.Minute)
	s.pass()
	want := "node node-a (NodeClaim/a) waits for pod shop/web-1, of which PodDisruptionBudget shop/web allows no disruption"
	r := s.sync.Status.Removals[0]
	if r.Message != want || r.Stalled != nil {
		t.Errorf("after a minute: %+v", r)
	}
	began := s.claims()[0].DeletionTimestamp.Time
	for _, kept := range []time.Duration{3 * time.Minute, 5 * time.Minute} {
		live := &counting{Reader: s.client}
		s.live = live
		every := blocker.ReadAgain(kept)
		s.now = began.Add(kept)
		s.diagnosed = s.now.Add(-every + time.Second)
		s.passAfter(0)
		if again := s.sync.Status.Removals[0]; again.Message != want || live.lists > 0 || s.last.Again.After(s.now.Add(2*time.Second)) {
			t.Errorf("after %s, a second early, it says %q, after %d LISTs; next at %s", kept, again.Message, live.lists, s.last.Again)
		}
		s.diagnosed = s.now.Add(-every)
		s.passAfter(0)
		if again := s.sync.Status.Removals[0]; again.Message != want || live.lists == 0 || s.last.Again.After(s.now.Add(every)) {
			t.Errorf("after %s, once that is due, it says %q, after %d LISTs; next at %s", kept, again.Message, live.lists, s.last.Again)
		}
	}
}
