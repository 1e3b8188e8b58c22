package observe_test

import (
	"errors"
	"testing"
	"time"

	"github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestLoads: what Karpenter's consolidation looks at is read of the NodeClaims that a plan asks for, and their pods are
// counted if it depends on these. Pods of DaemonSets, and those that have ended, do not count.
func TestLoads(t *testing.T) {
	initialized, event := time.Unix(1000, 0), time.Unix(2000, 0)
	claim := func(name, pool string, change func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{karpv1.NodePoolLabelKey: pool}}}
		c.Status.NodeName = "node-" + name
		c.Status.Conditions = []status.Condition{{Type: karpv1.ConditionTypeInitialized, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(initialized)}}
		if change != nil {
			change(c)
		}
		return c
	}
	pod := func(name, node, owner string, phase corev1.PodPhase) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: owner, Name: "a", Controller: ptr.To(true)}}
		return p
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), observe.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		claim("idle", "a", func(c *karpv1.NodeClaim) {
			c.Status.Conditions = append(c.Status.Conditions, status.Condition{Type: karpv1.ConditionTypeConsolidatable, Status: metav1.ConditionTrue})
		}),
		claim("busy", "a", func(c *karpv1.NodeClaim) { c.Status.LastPodEventTime = metav1.NewTime(event) }),
		claim("unasked", "a", nil), claim("elsewhere", "b", nil),
		pod("1", "node-busy", "ReplicaSet", corev1.PodRunning), pod("2", "node-busy", "ReplicaSet", corev1.PodRunning),
		pod("3", "node-idle", "DaemonSet", corev1.PodRunning), pod("4", "node-idle", "Job", corev1.PodSucceeded),
	).WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	asked := []*plan.NodeClaim{{UID: "idle"}, {UID: "busy"}}
	for name, c := range map[string]struct {
		pods bool
		want map[types.UID]plan.Load
	}{
		"without pods": {false, map[types.UID]plan.Load{"idle": {Consolidatable: true, PodEvent: initialized}, "busy": {PodEvent: event}}},
		"with pods":    {true, map[types.UID]plan.Load{"idle": {Consolidatable: true, PodEvent: initialized, Counted: true}, "busy": {PodEvent: event, Pods: 2, Counted: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := observe.Loads(reader)(t.Context(), []plan.LoadQuestion{{Pool: "a", Claims: asked, Pods: c.pods}})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("loads (-want +got):\n%s", diff)
			}
		})
	}
}
