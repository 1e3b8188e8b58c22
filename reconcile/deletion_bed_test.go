package reconcile

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

const instance = "aws:///eu-west-1a/i-0123456789abcdef0"

// leaving returns a NodeSync that is being deleted, in a cluster with Karpenter, a pool of ours and its one node.
func leaving(t *testing.T, change func(*v1alpha1.NodeSync)) *bed {
	t.Helper()
	now := metav1.Now()
	sync := nodeSync(func(n *v1alpha1.NodeSync) {
		n.DeletionTimestamp = &now
		n.Status.LastAppliedRevision = "main@sha1:1"
		n.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: "Managed", Version: "1.14.1", Namespace: "kube-system", Cluster: "prod-eu", Region: "eu-west-1"}
		change(n)
	})
	objects := []client.Object{
		ownedPool(),
		&karpv1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: "general-1", UID: "c1", Finalizers: []string{"karpenter.sh/termination"}, Labels: map[string]string{karpv1.NodePoolLabelKey: "general"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "karpenter.sh/v1", Kind: render.NodePool, Name: "general", UID: "p1"}},
			},
			Status: karpv1.NodeClaimStatus{ProviderID: instance, NodeName: "node-1"},
		},
		&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter", Labels: cluster.ControllerLabels()},
			Status:     appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1},
		},
	}
	objects = append(objects, leader()...)
	for _, name := range cluster.CRDNames() {
		objects = append(objects, installtest.Served(name))
	}
	b := newBed(t, sync, objects...)
	b.Cluster.CertificateAuthority = []byte(certificate)
	b.Settings.CloudInterval = time.Second
	b.cloud.err, b.cloud.cluster = nil, cloud.Cluster{Name: "prod-eu", CertificateAuthority: []byte(certificate)}
	b.cloud.running = []cloud.Instance{{ID: "i-0123456789abcdef0", Zone: "eu-west-1a", State: "running", Pool: "general"}}
	return b
}

// leader returns a pod of Karpenter's controller that holds its lease at any time.
func leader() []client.Object {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-a", Labels: cluster.ControllerLabels()}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	holder, renewed := "karpenter-a_1f", metav1.NewMicroTime(time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC))
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-leader-election"}}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &renewed
	return []client.Object{pod, lease}
}

// ownedPool returns a pool that plumbline has applied.
func ownedPool() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": render.NodePool,
		"spec": map[string]any{"limits": map[string]any{"cpu": "100"}, "weight": int64(1)},
	}}
	u.SetName("general")
	u.SetUID("p1")
	u.SetLabels(map[string]string{v1alpha1.OwnerLabel: namespace + ".prod", "team": "a"})
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "karpenter.sh/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:limits":{"f:cpu":{}},"f:weight":{}},"f:metadata":{"f:labels":{"f:plumbline.dev/nodesync":{}}}}`),
	}})
	return u
}
