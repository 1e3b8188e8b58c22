package nodes_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

const (
	patience = 60 * time.Second
	poll     = 50 * time.Millisecond
	// podDelete is long enough to be distinguishable from immediately.
	podDelete = 700 * time.Millisecond
	// unmountTime likewise.
	unmountTime = 500 * time.Millisecond
)

func TestNodes(t *testing.T) {
	c := start(t)
	eventually(t, "pods can be created", func(ctx context.Context) bool {
		_, err := c.client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	t.Run("an instance becomes a node, runs pods and goes", func(t *testing.T) { testLife(t, c) })
	t.Run("the instances of another cluster, and without a route, stay out", func(t *testing.T) { testForeign(t, c) })
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
	isolated := instance("isolated")
	isolated.Isolated = true
	for _, one := range []awssim.Instance{foreign, isolated} {
		c.tell(awssim.Launched, one)
		c.tell(awssim.Running, one)
	}
	// Both boot equally long: when the second one exists, the first one would, too.
	own := instance("own")
	c.launch(t, own)
	for _, one := range []awssim.Instance{foreign, isolated} {
		_, err := c.client.CoreV1().Nodes().Get(t.Context(), one.PrivateDNSName, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("instance %s: %v, want no node", one.ID, err)
		}
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
