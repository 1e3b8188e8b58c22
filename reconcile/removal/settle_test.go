package removal

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/teardown"
)

// TestWhatARemovalHasLeftIsLookedAtAgain: by a daemon that has only begun as well, and until the
// pod runs or has gone.
func TestWhatARemovalHasLeftIsLookedAtAgain(t *testing.T) {
	b := newBed(t)
	controller := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "w1", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "rs1", Controller: &controller}},
	}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	owner := metav1.NewControllerRef(b.sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
	record := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: teardown.RecordName("prod"), OwnerReferences: []metav1.OwnerReference{*owner}},
		Data:       map[string]string{"p0": `{"kind":"NodePool","name":"batch","left":[{"namespace":"default","name":"web","uid":"w1","since":"` + now.UTC().Format("2006-01-02T15:04:05Z") + `"}]}`},
	}
	for _, object := range []client.Object{pod, record} {
		if err := b.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	run := func() (step *Step, recorded bool) {
		t.Helper()
		step = b.step(general)
		if _, err := step.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := b.client.Get(t.Context(), client.ObjectKeyFromObject(record), &corev1.ConfigMap{})
		return step, err == nil
	}
	if step, recorded := run(); !recorded || step.WakeAt.IsZero() || step.WakeAt.After(now.Add(leftEvery)) {
		t.Errorf("the pod is Pending: recorded %t, next pass at %v", recorded, step.WakeAt)
	}
	if err := b.client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if step, recorded := run(); recorded || !step.WakeAt.IsZero() {
		t.Errorf("it has gone: recorded %t, next pass at %v", recorded, step.WakeAt)
	}
}
