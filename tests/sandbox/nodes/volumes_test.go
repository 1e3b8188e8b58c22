package nodes_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/plumbline-dev/plumbline/tests/sandbox/nodes/ebs"
)

func testVolumes(t *testing.T, c *cluster) {
	if err := c.nodes.InstallEBS(t.Context(), ebs.Install{}); err != nil {
		t.Fatal(err)
	}
	i := instance("volumes")
	// Only this test's other pods tolerate the taint, not the daemonset.
	i.UserData = "kubelet --node-labels=pool=a"
	c.launch(t, i)
	c.createClaim(t)
	c.createPod(t, "db", "data")
	eventually(t, "the pod runs", func(ctx context.Context) bool { return c.phase(ctx, "db") == corev1.PodRunning })
	volumes, attached := c.cloud.state()
	if diff := cmp.Diff(map[string]string{"vol-1": i.ID}, attached); diff != "" || volumes != 1 {
		t.Errorf("%d volumes, attached (-want +got):\n%s", volumes, diff)
	}

	// The daemonset leaves the node, then the pod: nothing can unmount.
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

// staysAttached checks for two seconds, many times longer than a detachment takes.
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
