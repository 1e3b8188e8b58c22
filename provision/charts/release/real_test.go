package release

import (
	"flag"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plumbline-dev/plumbline/provision/charts"
)

// tests/property sets both.
var (
	kubeconfig = flag.String("kubeconfig", "", "of an API server to install Karpenter's own charts in")
	repository = flag.String("repository", "", "where they are, at version 1.14.1")
)

// TestRealCharts: Karpenter's own charts are not drift once a real API server has set defaults in their objects; and
// each kind of object that another client changes is corrected by one revision.
func TestRealCharts(t *testing.T) {
	if *kubeconfig == "" {
		t.Skip("there is no API server: tests/property runs this with one")
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := charts.NewStore(charts.StoreOptions{Dir: t.TempDir()}).Resolve(t.Context(), charts.Ref{Repository: *repository, Version: "1.14.1"}, charts.Access{})
	if err != nil {
		t.Fatal(err)
	}
	installer, err := NewInstaller(InstallerOptions{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	wanted := Request{Installation: charts.Installation{Namespace: "kube-system", Cluster: "real", Region: "eu-west-1"}}
	ensure := func(what string, want Step, moved ...string) {
		t.Helper()
		var step Step
		var found []string
		for _, bring := range []func() (Result, error){
			func() (Result, error) { return installer.EnsureCRDs(t.Context(), pulled, wanted) },
			func() (Result, error) { return installer.EnsureController(t.Context(), pulled, wanted) },
		} {
			result, err := bring()
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if step == "" || step == Keep {
				step = result.Step
			}
			for _, move := range result.Drifted {
				found = append(found, move.String())
			}
		}
		if step != want || !slices.Equal(found, moved) {
			t.Errorf("%s: %s %v, want %s %v", what, step, found, want, moved)
		}
	}
	ensure("at first", Install)
	ensure("once installed", Keep)

	deployments := objects.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}).Namespace("kube-system")
	roles := objects.Resource(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"})
	crds := objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	patch := func(client dynamic.ResourceInterface, name string, kind types.PatchType, body string) {
		t.Helper()
		if _, err := client.Patch(t.Context(), name, kind, []byte(body), metav1.PatchOptions{FieldManager: "somebody"}); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(client dynamic.ResourceInterface, name string) {
		t.Helper()
		if err := client.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const (
		unkept = " was deleted by an unknown client"
		image  = `Deployment kube-system/karpenter: spec.template.spec.containers[name="controller"].image was edited by somebody (Update)`
		crd    = `CustomResourceDefinition nodepools.karpenter.sh: spec.versions[name="v1"].additionalPrinterColumns was edited by somebody (Update)`
	)
	patch(deployments, "karpenter", types.MergePatchType, `{"metadata":{"annotations":{"a":"b"}},"spec":{"replicas":0}}`)
	ensure("scaled, and annotated", Keep)
	patch(deployments, "karpenter", types.JSONPatchType, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"example.com/other:1"}]`)
	ensure("another image", Repair, image)
	ensure("put right", Keep)
	remove(deployments, "karpenter")
	remove(roles, "karpenter")
	ensure("a Deployment and a role deleted", Repair, "ClusterRole karpenter"+unkept, "Deployment kube-system/karpenter"+unkept)
	patch(crds, "nodepools.karpenter.sh", types.JSONPatchType, `[{"op":"remove","path":"/spec/versions/0/additionalPrinterColumns"}]`)
	ensure("a CRD changed", Repair, crd)
	remove(crds, "nodeoverlays.karpenter.sh")
	ensure("a CRD deleted", Repair, "CustomResourceDefinition nodeoverlays.karpenter.sh"+unkept)
	ensure("all put right", Keep)
}
