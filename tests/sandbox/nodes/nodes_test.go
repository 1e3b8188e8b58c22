package nodes_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes"
	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes/ebs"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

const (
	patience = 60 * time.Second
	poll     = 50 * time.Millisecond
	// podDelete is long enough to be told apart from at once.
	podDelete = 700 * time.Millisecond
)

// cloud stands for the simulator: what is attached, and a way to tell of instances.
type cloud struct {
	mu       sync.Mutex
	tell     func(awssim.Event)
	volumes  []string
	attached map[string]string // volume to instance
}

var (
	errAttached = errors.New("VolumeInUse: it is attached")
	errDetached = errors.New("IncorrectState: it is not attached there")
)

func (c *cloud) Subscribe(f func(awssim.Event)) { c.tell = f }

func (c *cloud) CreateVolume(string, int, map[string]string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.volumes = append(c.volumes, "vol-1")
	return "vol-1"
}

func (c *cloud) DeleteVolume(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached[id] != "" {
		return errAttached
	}
	c.volumes = slices.DeleteFunc(c.volumes, func(v string) bool { return v == id })
	return nil
}

func (c *cloud) AttachVolume(instance, volume, _ string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached[volume] != "" {
		return errAttached
	}
	c.attached[volume] = instance
	return nil
}

func (c *cloud) DetachVolume(instance, volume string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached[volume] != instance {
		return errDetached
	}
	delete(c.attached, volume)
	return nil
}

func (c *cloud) state() (volumes int, attached map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	attached = map[string]string{}
	for volume, instance := range c.attached {
		attached[volume] = instance
	}
	return len(c.volumes), attached
}

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
	builder := &binaries.Builder{Source: "../bin", Cache: cache, Progress: os.Stderr}
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
		Client:     plane.Client,
		Kubeconfig: plane.Kubeconfig,
		Simulator:  c.cloud,
		Cluster:    "demo",
		Endpoint:   plane.Endpoint,
		KwokBinary: built[binaries.Kwok],
		Dir:        filepath.Join(dir, "nodes"),
		BootTime:   200 * time.Millisecond,
		PodDelete:  podDelete,
		Command:    group.Command,
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

// instance is a machine whose user data give it a label and a taint.
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

func TestNodes(t *testing.T) {
	c := start(t)
	eventually(t, "pods can be created", func(ctx context.Context) bool {
		_, err := c.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	t.Run("an instance becomes a node, runs pods and goes", func(t *testing.T) { testLife(t, c) })
	t.Run("another cluster's instance stays out", func(t *testing.T) { testForeign(t, c) })
	t.Run("a finalizer is waited for", func(t *testing.T) { testFinalizer(t, c) })
	t.Run("volumes follow their pods", func(t *testing.T) { testVolumes(t, c) })
}

func testLife(t *testing.T, c *cluster) {
	i := instance("life")
	c.launch(t, i)
	node, err := c.client.CoreV1().Nodes().Get(t.Context(), i.PrivateDNSName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if node.Labels["pool"] != "a" || node.Spec.ProviderID != "aws:///eu-west-1a/i-life" {
		t.Errorf("labels %v, provider ID %q", node.Labels, node.Spec.ProviderID)
	}
	want := corev1.Taint{Key: "team", Value: "data", Effect: corev1.TaintEffectNoSchedule}
	if !slices.Contains(node.Spec.Taints, want) {
		t.Errorf("taints %v lack %v", node.Spec.Taints, want)
	}

	c.createPod(t, "web", "")
	eventually(t, "the pod runs", func(ctx context.Context) bool { return c.phase(ctx, "web") == corev1.PodRunning })
	began := time.Now()
	c.deletePod(t, "web")
	if took := time.Since(began); took < podDelete {
		t.Errorf("the pod was gone after %s, want at least %s", took, podDelete)
	}

	c.tell(awssim.ShuttingDown, i)
	c.tell(awssim.Terminated, i)
	eventually(t, "the node is gone", func(ctx context.Context) bool {
		_, err := c.client.CoreV1().Nodes().Get(ctx, i.PrivateDNSName, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func testForeign(t *testing.T, c *cluster) {
	foreign := instance("foreign")
	foreign.UserData = "bootstrap.sh --apiserver-endpoint 'https://elsewhere.example.com'"
	c.tell(awssim.Launched, foreign)
	c.tell(awssim.Running, foreign)
	// Both boot equally long: when the second one is there, the first one would be too.
	own := instance("own")
	c.launch(t, own)
	_, err := c.client.CoreV1().Nodes().Get(t.Context(), foreign.PrivateDNSName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("another cluster's instance: %v, want no node", err)
	}
	c.tell(awssim.ShuttingDown, own)
	c.tell(awssim.Terminated, own)
}

func testFinalizer(t *testing.T, c *cluster) {
	i := instance("held")
	c.launch(t, i)
	c.patchNode(t, i.PrivateDNSName, `{"metadata":{"finalizers":["example.com/held"]}}`)
	c.tell(awssim.Terminated, i)
	eventually(t, "the node is to be deleted", func(ctx context.Context) bool {
		node, err := c.client.CoreV1().Nodes().Get(ctx, i.PrivateDNSName, metav1.GetOptions{})
		return err == nil && node.DeletionTimestamp != nil
	})
	if got := c.ready(t.Context(), i.PrivateDNSName); got != corev1.ConditionUnknown {
		t.Errorf("Ready is %q, want Unknown", got)
	}
	c.patchNode(t, i.PrivateDNSName, `{"metadata":{"finalizers":null}}`)
}

func (c *cluster) patchNode(t *testing.T, name, patch string) {
	t.Helper()
	if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func testVolumes(t *testing.T, c *cluster) {
	if err := c.nodes.InstallEBS(t.Context(), ebs.Install{}); err != nil {
		t.Fatal(err)
	}
	i := instance("volumes")
	// The daemonset does not tolerate what only this test's other pods do.
	i.UserData = "kubelet --node-labels=pool=a"
	c.launch(t, i)
	c.createClaim(t)
	c.createPod(t, "db", "data")
	eventually(t, "the pod runs", func(ctx context.Context) bool { return c.phase(ctx, "db") == corev1.PodRunning })
	volumes, attached := c.cloud.state()
	if diff := cmp.Diff(map[string]string{"vol-1": i.ID}, attached); diff != "" || volumes != 1 {
		t.Errorf("%d volumes, attached (-want +got):\n%s", volumes, diff)
	}

	// The daemonset leaves the node, then the pod: nobody can unmount.
	c.patchNode(t, i.PrivateDNSName, `{"metadata":{"labels":{"kubernetes.io/os":"none"}}}`)
	c.selectDaemonSet(t, `{"kubernetes.io/os":"linux"}`)
	eventually(t, "the daemonset has left the node", func(ctx context.Context) bool { return c.daemonPods(ctx, i.PrivateDNSName) == 0 })
	c.deletePod(t, "db")
	c.staysAttached(t)

	c.patchNode(t, i.PrivateDNSName, `{"metadata":{"labels":{"kubernetes.io/os":"linux"}}}`)
	eventually(t, "the volume is detached", func(context.Context) bool { _, attached := c.cloud.state(); return len(attached) == 0 })

	if err := c.client.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the volume is deleted", func(context.Context) bool { volumes, _ := c.cloud.state(); return volumes == 0 })
}

// staysAttached looks for two seconds, many times longer than a detachment takes.
func (c *cluster) staysAttached(t *testing.T) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), poll, 2*time.Second, true, func(ctx context.Context) (bool, error) {
		_, attached := c.cloud.state()
		list, err := c.client.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
		return len(attached) == 0 || len(list.Items) == 0, err
	})
	if err == nil {
		t.Error("the volume was released though nobody could unmount it")
	}
}

func (c *cluster) selectDaemonSet(t *testing.T, selector string) {
	t.Helper()
	patch := []byte(`{"spec":{"template":{"spec":{"nodeSelector":` + selector + `}}}}`)
	_, err := c.client.AppsV1().DaemonSets(ebs.Namespace).Patch(t.Context(), ebs.NodeDaemonSet, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) daemonPods(ctx context.Context, node string) int {
	list, err := c.client.CoreV1().Pods(ebs.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: "app=" + ebs.NodeDaemonSet, FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil {
		return -1
	}
	return len(list.Items)
}

func (c *cluster) createClaim(t *testing.T) {
	t.Helper()
	class := ebs.StorageClass
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	claim.Spec.StorageClassName = &class
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	if _, err := c.client.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
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
