package kube_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
	"github.com/plumbline-dev/plumbline/tests/sandbox/process"
)

const deadline = 30 * time.Second

// start starts a control plane in dir, which may contain an earlier one.
func start(t *testing.T, dir, emulated string) *kube.ControlPlane {
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
	began := time.Now()
	c, err := kube.Start(t.Context(), kube.Options{
		Binary: paths[binaries.Kubernetes], Dir: dir, Programs: group, EmulatedVersion: emulated,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %s", time.Since(began))
	return c
}

func TestControlPlane(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir, "")
	if !serves(t, c, newerResource) {
		t.Errorf("a server that emulates nothing does not serve %s", newerResource)
	}
	t.Run("service accounts have no rights of their own", func(t *testing.T) { rights(t, c) })
	t.Run("the garbage collector follows owners", func(t *testing.T) { garbage(t, c) })
	t.Run("the audit tells who wrote what", func(t *testing.T) { writes(t, c) })
	authority := string(c.CertificateAuthority)
	c.Stop()

	copied := t.TempDir()
	if err := kube.Copy(dir, copied); err != nil {
		t.Fatal(err)
	}
	again := start(t, copied, "")
	if got := string(again.CertificateAuthority); got != authority {
		t.Error("the copy has another certificate authority")
	}
	if _, err := again.Client.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Errorf("the copy lost an object: %v", err)
	}
	again.Kill()
}

// newerResource was added to admissionregistration.k8s.io/v1 in Kubernetes 1.36, and is served by default.
const newerResource = "mutatingadmissionpolicies"

// serves reports whether the server has a resource of admissionregistration.k8s.io/v1.
func serves(t *testing.T, c *kube.ControlPlane, resource string) bool {
	t.Helper()
	list, err := c.Client.Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource })
}

// TestAnOlderVersionIsEmulated checks that the server reports the emulated version, as Karpenter reads it, and does not
// serve a newer API.
func TestAnOlderVersionIsEmulated(t *testing.T) {
	const older = "1.34"
	c := start(t, t.TempDir(), older)
	defer c.Kill()
	version, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	if got := version.Major + "." + version.Minor; got != older || version.GitVersion != "v"+older+".0" {
		t.Errorf("the server reports %s, %s, want %s", got, version.GitVersion, older)
	}
	if serves(t, c, newerResource) {
		t.Errorf("the server serves %s, which %s does not have", newerResource, older)
	}
}

func rights(t *testing.T, c *kube.ControlPlane) {
	ctx := t.Context()
	eventually(t, "the default ServiceAccount", func(ctx context.Context) bool {
		_, err := c.Client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.ServiceAccountKubeconfig(ctx, path, "default", "default", nil); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list nodes as a ServiceAccount: got %v, want Forbidden", err)
	}
}

func garbage(t *testing.T, c *kube.ControlPlane) {
	ctx, maps := t.Context(), c.Client.CoreV1().ConfigMaps("default")
	owner, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
	}}}
	for _, m := range []*corev1.ConfigMap{owned, {ObjectMeta: metav1.ObjectMeta{Name: "kept"}}} {
		if _, err := maps.Create(ctx, m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := maps.Delete(ctx, owner.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the owned object to be collected", func(ctx context.Context) bool {
		_, err := maps.Get(ctx, "owned", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func eventually(t *testing.T, what string, ok func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, deadline, true,
		func(ctx context.Context) (bool, error) { return ok(ctx), nil })
	if err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}
