package nodes_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

// cluster is a control plane with nodes.
type cluster struct {
	client kubernetes.Interface
	nodes  *nodes.Nodes
	cloud  *cloud
}

func start(t *testing.T) *cluster {
	t.Helper()
	cache, err := binaries.DefaultCache()
	if err != nil {
		t.Fatal(err)
	}
	builder := &binaries.Builder{Source: "../bin", Cache: cache, Progress: &binaries.Progress{Out: os.Stderr}}
	built, err := builder.Build(t.Context(), binaries.Kubernetes, binaries.Kwok)
	if err != nil {
		t.Fatal(err)
	}
	group := process.NewGroup()
	t.Cleanup(group.Close)
	dir := t.TempDir()
	plane, err := kube.Start(t.Context(), kube.Options{Binary: built[binaries.Kubernetes], Dir: filepath.Join(dir, "kube"), Programs: group})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Kill)
	c := &cluster{client: plane.Client, cloud: &cloud{attached: map[string]string{}}}
	began := time.Now()
	c.nodes, err = nodes.Start(t.Context(), nodes.Options{
		Client:      plane.Client,
		Kubeconfig:  plane.Kubeconfig,
		Simulator:   c.cloud,
		Cluster:     "demo",
		Endpoint:    plane.Endpoint,
		KwokBinary:  built[binaries.Kwok],
		Dir:         filepath.Join(dir, "nodes"),
		BootTime:    200 * time.Millisecond,
		PodDelete:   podDelete,
		UnmountTime: unmountTime,
		Command:     group.Command,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("system nodes Ready after %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(c.nodes.Close)
	return c
}

func eventually(t *testing.T, what string, done func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), poll, patience, true, func(ctx context.Context) (bool, error) { return done(ctx), nil })
	if err != nil {
		t.Fatalf("wait until %s: %v", what, err)
	}
}

// instance returns a machine whose user data gives it a label and a taint.
func instance(name string) awssim.Instance {
	return awssim.Instance{
		ID: "i-" + name, Type: "m5.large", Zone: "eu-west-1a", ZoneID: "euw1-az1", Arch: "x86_64", VCPU: 2, MemoryMiB: 8 << 10, MaxPods: 29,
		PrivateDNSName: name + ".eu-west-1.compute.internal", PrivateIP: "10.0.1.7",
		UserData: "kubelet --node-labels=pool=a --register-with-taints=team=data:NoSchedule",
	}
}

func (c *cluster) tell(kind awssim.EventKind, i awssim.Instance) {
	c.cloud.tell(awssim.Event{Kind: kind, Instance: i})
}

// launch returns when the instance's Node is Ready.
func (c *cluster) launch(t *testing.T, i awssim.Instance) {
	t.Helper()
	c.tell(awssim.Launched, i)
	c.tell(awssim.Running, i)
	eventually(t, i.PrivateDNSName+" is Ready", func(ctx context.Context) bool { return c.ready(ctx, i.PrivateDNSName) == corev1.ConditionTrue })
}

func (c *cluster) ready(ctx context.Context, name string) corev1.ConditionStatus {
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}

func (c *cluster) createPod(t *testing.T, name, claim string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pod.Spec.NodeSelector = map[string]string{"pool": "a"}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app"}}
	if claim != "" {
		pod.Spec.Volumes = []corev1.Volume{{Name: "data"}}
		pod.Spec.Volumes[0].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
	}
	if _, err := c.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) phase(ctx context.Context, name string) corev1.PodPhase {
	pod, err := c.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return pod.Status.Phase
}

// deletePod returns when the pod is gone.
func (c *cluster) deletePod(t *testing.T, name string) {
	t.Helper()
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pod "+name+" is gone", func(ctx context.Context) bool {
		_, err := c.client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
