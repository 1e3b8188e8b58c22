package karpenter_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/karpenter"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

func pods(ctx context.Context, t *testing.T, c *kube.ControlPlane) int {
	t.Helper()
	list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: karpenter.Selector})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.Items)
}

func deployment() *appsv1.Deployment {
	one := int32(1)
	labels := map[string]string{"app.kubernetes.io/name": "karpenter"}
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	amount := func(name, divisor string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
			ContainerName: "controller", Resource: name, Divisor: resource.MustParse(divisor),
		}}
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &one,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "controller", Image: "public.ecr.aws/karpenter/controller:1.14.1@sha256:" + strings.Repeat("0", 64),
					Args:                     []string{"--for=$(CLUSTER_NAME)"},
					TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
					Env: []corev1.EnvVar{
						{Name: "PLAY_CONTROLLER", Value: "1"},
						{Name: "CLUSTER_NAME", Value: "prod"},
						{Name: "METRICS_PORT", Value: "8080"},
						{Name: "HEALTH_PROBE_PORT", Value: "8081"},
						{Name: "SYSTEM_NAMESPACE", ValueFrom: field("metadata.namespace")},
						{Name: "MEMORY_LIMIT", ValueFrom: amount("limits.memory", "0")},
						{Name: "CPU_REQUESTS", ValueFrom: amount("requests.cpu", "1m")},
					},
					Resources: corev1.ResourceRequirements{
						Requests: corev1.ResourceList{"cpu": resource.MustParse("250m")},
						Limits:   corev1.ResourceList{"memory": resource.MustParse("1Gi")},
					},
				}}},
			},
		},
	}
}

// controlPlane starts one with a Ready node, whose kubelet listens on the port.
func controlPlane(t *testing.T, kubelet int) (*kube.ControlPlane, *process.Group) {
	t.Helper()
	builder, err := binaries.Here(os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	paths, err := builder.Build(t.Context(), binaries.Kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	group := process.NewGroup()
	t.Cleanup(group.Close)
	c, err := kube.Start(t.Context(), kube.Options{Binary: paths[binaries.Kubernetes], Dir: t.TempDir(), Programs: group})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Kill)
	size := corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("50")}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "system-0"},
		Status: corev1.NodeStatus{
			Capacity: size, Allocatable: size,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "10.255.0.10"},
				{Type: corev1.NodeExternalIP, Address: "127.0.0.1"},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(kubelet)}},
			Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	if _, err := c.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c, group
}

func eventually(t *testing.T, what string, ok func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, deadline, true,
		func(ctx context.Context) (bool, error) { return ok(ctx), nil })
	if err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}
