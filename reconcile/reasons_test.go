package reconcile

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestALongApplyReadsNoLog shows that Karpenter's log is read only for an EC2NodeClass that stays not Ready, not
// counting the time that the reconcile takes to write all objects.
func TestALongApplyReadsNoLog(t *testing.T) {
	b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Namespace: "kube-system"}
	}), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-1", Labels: cluster.ControllerLabels()},
		Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	})
	reads := 0
	b.Cluster.Logs = func(context.Context, string, string, string, bool) (string, error) {
		reads++
		return "", nil
	}
	class := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "default", "uid": "1", "generation": int64(2)}}}
	class.SetAPIVersion("karpenter.k8s.aws/v1")
	class.SetKind(render.EC2NodeClass)
	ref := render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	look := func(writes time.Duration) {
		t.Helper()
		p := b.pass()
		p.stages.CRDs.Ready = true
		p.want.Set = &render.Set{Objects: []render.Object{{Ref: ref}}}
		p.live.Objects = map[render.Ref]*plan.Object{ref: plan.NewObject(class)}
		b.clock.forward(writes)
		if p.takes(t.Context(), p.observe); len(p.Waits) != 1 {
			t.Fatalf("it waits for %+v", p.Waits)
		}
	}
	look(20 * time.Second)
	if look(time.Second); reads != 0 {
		t.Errorf("the log is read %d times a second after the class was seen not Ready", reads)
	}
	if look(20 * time.Second); reads != 1 {
		t.Errorf("the log is read %d times 21 s after the class was seen not Ready", reads)
	}
}
