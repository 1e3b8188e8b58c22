package upgrade_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// TestFeatureGates checks which gates the controller's environment enables and disables; a gate that it does not
// contain is neither. The last value of a name counts, in the list and of the variables, as in Karpenter and the kubelet.
// A value of the chart can rename the container.
func TestFeatureGates(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	controller := corev1.Container{Name: "renamed", Env: []corev1.EnvVar{
		{Name: "FEATURE_GATES", Value: "TerminateFirstDrift=false,NodeRepair=true"},
		{Name: "FEATURE_GATES", Value: "TerminateFirstDrift=false,StaticCapacity=false,TerminateFirstDrift=true"},
	}}
	server := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: cluster.ControllerLabels()},
		Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{controller}}}},
	}).Build()
	for gate, want := range map[string][2]bool{"TerminateFirstDrift": {true, false}, "StaticCapacity": {false, true}, "NodeRepair": {false, false}} {
		sync := &v1alpha1.NodeSync{}
		s := &upgrade.Step{Sync: sync, View: &cluster.View{Cached: server, Uncached: server, Memory: &cluster.Memory{}}}
		if on, err := s.On(t.Context(), gate); on || err != nil {
			t.Errorf("%s of no Karpenter: %t, %v", gate, on, err)
		}
		sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Namespace: "kube-system"}
		on, err := s.On(t.Context(), gate)
		off, errOff := s.Off(t.Context(), gate)
		if [2]bool{on, off} != want || err != nil || errOff != nil {
			t.Errorf("%s: on %t, off %t (%v, %v)", gate, on, off, err, errOff)
		}
	}
}
