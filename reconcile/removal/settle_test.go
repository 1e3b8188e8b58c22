package removal

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatARemovalHasLeftIsLookedAtAgain checks that a left pod is checked until it runs or is gone, even by a daemon
// that has just started.
func TestWhatARemovalHasLeftIsLookedAtAgain(t *testing.T) {
	b := newBed(t)
	controller := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", UID: "w1", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "rs1", Controller: &controller}},
	}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	owner := metav1.NewControllerRef(b.sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
	record := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: RecordName("prod"), OwnerReferences: []metav1.OwnerReference{*owner}},
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

// TestWhatWasRecordedInVainIsForgotten checks that the record of a reconcile that was killed before it wrote the status
// is dropped if the entry is in Git again. It is kept if the object was replaced or is terminating: nothing else knows
// its instances.
func TestWhatWasRecordedInVainIsForgotten(t *testing.T) {
	for name, c := range map[string]struct {
		uid     string
		wanted  []render.Ref
		deleted bool
		want    bool
	}{
		"Git has it again":     {uid: "p1", wanted: []render.Ref{general}},
		"Git does not have it": {uid: "p1", want: true},
		"it is being deleted":  {uid: "p1", wanted: []render.Ref{general}, deleted: true, want: true},
		"another has its name": {uid: "p0", wanted: []render.Ref{general}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			owner := metav1.NewControllerRef(b.sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
			record := &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: RecordName("prod"), OwnerReferences: []metav1.OwnerReference{*owner}},
				Data:       map[string]string{c.uid: `{"kind":"NodePool","name":"general","instances":{"aws:///eu-west-1a/i-0123456789abcdef0":""},"growth":{"cpu":"100"},"nodeClaims":1}`},
			}
			if err := b.client.Create(t.Context(), record); err != nil {
				t.Fatal(err)
			}
			if c.deleted {
				pool := b.livePool()
				pool.SetFinalizers([]string{"karpenter.sh/termination"})
				if err := errors.Join(b.client.Update(t.Context(), pool), b.client.Delete(t.Context(), pool)); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := b.step(c.wanted...).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := b.client.Get(t.Context(), client.ObjectKeyFromObject(record), record); client.IgnoreNotFound(err) != nil || (err == nil) != c.want {
				t.Errorf("the record: %v, want it kept: %t", err, c.want)
			}
		})
	}
}
