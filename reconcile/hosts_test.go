package reconcile

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestHosts shows which NodePools have nodes that run Karpenter's controller or the daemon.
func TestHosts(t *testing.T) {
	controllerPod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: cluster.ControllerLabels()},
			Spec:       corev1.PodSpec{NodeName: node},
		}
	}
	sync := nodeSync(func(n *v1alpha1.NodeSync) { n.Status.Karpenter = &v1alpha1.KarpenterStatus{Namespace: "kube-system"} })
	b := newBed(t, sync, controllerPod("karpenter-1", "system"), controllerPod("karpenter-2", "n1"), controllerPod("karpenter-3", ""),
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: cluster.ControllerLabels()}})
	b.Settings.Own = plan.Host{Workload: "plumbline", Pod: namespace + "/plumbline-1", Node: "n2"}
	controller := plan.Host{NodePool: "general", Node: "n1", Workload: "Karpenter's controller", Pod: "kube-system/karpenter-2"}
	daemon := plan.Host{NodePool: "batch", Node: "n2", Workload: "plumbline", Pod: namespace + "/plumbline-1"}
	hosts := func() []plan.Host {
		t.Helper()
		p := b.pass()
		p.live.NodeClaims = []plan.NodeClaim{{Pool: "general", Node: "n1"}, {Pool: "batch", Node: "n2"}, {Pool: "batch"}}
		found, err := p.policyStep().Hosts(t.Context(), p.live.NodeClaims)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if diff := cmp.Diff([]plan.Host{controller, daemon}, hosts()); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}

	// The pod moves, and the Deployment's status changes.
	if err := b.client.Delete(t.Context(), controllerPod("karpenter-2", "n1")); err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: cluster.ControllerLabels()}}
	deployment.Status.ReadyReplicas = 1
	if err := b.client.Update(t.Context(), deployment); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]plan.Host{daemon}, hosts()); diff != "" {
		t.Errorf("hosts after the move (-want +got):\n%s", diff)
	}
}
