package upgrade

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

var replicaLabels = map[string]string{"app.kubernetes.io/name": "karpenter"}

func controllerSpec(image string) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar", Image: "x"}, {Name: "controller", Image: image}}}
}

// replica is a ready pod of the controller, changed.
func replica(name string, change ...func(*corev1.Pod)) client.Object {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: replicaLabels}, Spec: controllerSpec("controller:1.14.1")}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, c := range change {
		c(p)
	}
	return p
}

func older(p *corev1.Pod) { p.Spec = controllerSpec("controller:1.8.6") }

func ending(p *corev1.Pod) {
	now := metav1.Unix(1, 0)
	p.DeletionTimestamp, p.Finalizers = &now, []string{"x/y"}
}

func unready(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }

func unscheduled(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules"}}
}

func leaseOf(holder string) client.Object {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter-leader-election"}}
	l.Spec.HolderIdentity = &holder
	return l
}

// controller is the Deployment of two replicas; one of them is ready.
func controller(change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	two := int32(2)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter"}}
	d.Spec.Selector, d.Spec.Replicas = &metav1.LabelSelector{MatchLabels: replicaLabels}, &two
	d.Spec.Template.Spec = controllerSpec("controller:1.14.1")
	d.Status = appsv1.DeploymentStatus{Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 1, AvailableReplicas: 1}
	for _, c := range change {
		c(d)
	}
	return d
}

func withEnv(name, value string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[1].Env = []corev1.EnvVar{{Name: name, Value: value}}
	}
}

func withArgument(argument string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[1].Args = []string{argument} }
}

// leadership is what Leads or OneLeads is asked of, and says.
type leadership struct {
	objects    []client.Object
	deployment *appsv1.Deployment
	ready      bool
	message    string
}

func (c leadership) check(t *testing.T, ask func(client.Reader, *appsv1.Deployment) (observe.Readiness, error)) {
	t.Helper()
	if c.deployment == nil {
		c.deployment = controller()
	}
	reader := fake.NewClientBuilder().WithObjects(append(c.objects, c.deployment.DeepCopy())...).Build()
	got, err := ask(reader, c.deployment)
	if err != nil || got.Ready != c.ready || !strings.Contains(got.Message, c.message) {
		t.Errorf("%+v, %v, want ready %t with %q", got, err, c.ready, c.message)
	}
}

// TestLeads: a replica that is ready does not lead yet.
func TestLeads(t *testing.T) {
	onHost := func(node string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.NodeName = true, node }
	}
	for name, c := range map[string]leadership{
		"the new one leads":             {objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a")}, ready: true},
		"no lease":                      {message: "no replica of deployment/karpenter leads yet"},
		"given up":                      {objects: []client.Object{leaseOf("")}, message: "leads yet"},
		"its holder is gone":            {objects: []client.Object{leaseOf("karpenter-b_1f"), replica("karpenter-a")}, message: "held by karpenter-b, which is gone"},
		"the one before leads":          {objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a", older)}, message: "pod/karpenter-a still leads, with image controller:1.8.6"},
		"one that ends leads":           {objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a", ending)}, message: "pod/karpenter-a still leads, and is terminating"},
		"on the host's network":         {objects: []client.Object{leaseOf("ip-10-0-0-1.ec2.internal_1f"), replica("karpenter-a", onHost("ip-10-0-0-1.ec2.internal"))}, ready: true},
		"by a short host name":          {objects: []client.Object{leaseOf("ip-10-0-0-1_1f"), replica("karpenter-a", onHost("ip-10-0-0-1.ec2.internal"))}, ready: true},
		"the election is off":           {deployment: controller(withEnv("DISABLE_LEADER_ELECTION", "true")), ready: true},
		"by an argument":                {deployment: controller(withArgument("--disable-leader-election")), ready: true},
		"by an argument with a value":   {deployment: controller(withArgument("-disable-leader-election=1")), ready: true},
		"the election is said to be on": {deployment: controller(withEnv("DISABLE_LEADER_ELECTION", "false")), message: "leads yet"},
	} {
		t.Run(name, func(t *testing.T) {
			c.check(t, func(reader client.Reader, d *appsv1.Deployment) (observe.Readiness, error) {
				return Leads(t.Context(), reader, d)
			})
		})
	}
}

// TestOneLeads: one of two replicas is enough where it is the one that works.
func TestOneLeads(t *testing.T) {
	stuck := replica("karpenter-b", unscheduled)
	beside := func(d *appsv1.Deployment) { d.Status.Replicas = 3 }
	for name, c := range map[string]leadership{
		"it leads, and the other has no place": {
			objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a"), stuck}, ready: true,
			message: "1 of 2 replicas updated and available; pod/karpenter-b is not scheduled: 0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules",
		},
		"the other is not there":          {objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a")}, ready: true, message: "1 of 2 replicas"},
		"none leads":                      {objects: []client.Object{replica("karpenter-a"), stuck}, message: "1 of 2 replicas updated and available; no replica of deployment/karpenter leads yet"},
		"the one that leads is not ready": {objects: []client.Object{leaseOf("karpenter-b_1f"), replica("karpenter-a"), replica("karpenter-b", unready)}, message: "pod/karpenter-b leads, and is not ready"},
		"an earlier one is left":          {deployment: controller(beside), objects: []client.Object{leaseOf("karpenter-a_1f"), replica("karpenter-a")}, message: "1 of 2"},
		"none is ready":                   {deployment: controller(func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0 }), message: "0 of 2"},
		"it was scaled to 0":              {deployment: controller(func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 }), message: "scaled to 0"},
		"its newest spec is not observed": {deployment: controller(func(d *appsv1.Deployment) { d.Generation = 2 }), message: "not observed"},
		"the election is off":             {deployment: controller(withEnv("DISABLE_LEADER_ELECTION", "true")), objects: []client.Object{replica("karpenter-a"), stuck}, ready: true, message: "pod/karpenter-b is not scheduled"},
	} {
		t.Run(name, func(t *testing.T) {
			c.check(t, func(reader client.Reader, d *appsv1.Deployment) (observe.Readiness, error) {
				return OneLeads(t.Context(), reader, d)
			})
		})
	}
}
