package installtest

import (
	"os"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// PoolCRD returns the CRD of NodePools with one field, in one or two versions.
func PoolCRD(field string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd := &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "nodepools.karpenter.sh", UID: "p"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "karpenter.sh", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: "NodePool", ListKind: "NodePoolList", Plural: "nodepools", Singular: "nodepool",
			},
		},
	}
	for i, version := range versions {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: version, Served: true, Storage: i == 0,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{field: {Type: "integer"}}},
				},
			}},
		})
	}
	return crd
}

// ChartFolder returns both charts: one with the given CRDs, and a main chart with one value.
func ChartFolder(t *testing.T, version string, crds ...*apiextensionsv1.CustomResourceDefinition) *charts.Charts {
	t.Helper()
	dir := t.TempDir()
	definitions := ""
	for _, crd := range crds {
		definition, err := yaml.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		definitions += "---\n" + string(definition)
	}
	for name, content := range map[string]string{
		"karpenter-crd/Chart.yaml":             "apiVersion: v2\nname: karpenter-crd\nversion: " + version + "\n",
		"karpenter-crd/templates/pools.yaml":   definitions,
		"karpenter/Chart.yaml":                 "apiVersion: v2\nname: karpenter\nversion: " + version + "\n",
		"karpenter/values.yaml":                "replicas: 2\nsettings:\n  clusterName: \"\"\n",
		"karpenter/templates/nothing-yet.yaml": "",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, err := charts.FromFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Installed returns the CRDs and Karpenter's Deployment after an installation.
func Installed() []client.Object {
	objects := []client.Object{&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "karpenter", UID: "d", Generation: 1,
		Labels: map[string]string{"helm.sh/chart": "karpenter-1.14.1"},
	}}}
	for key, value := range cluster.ControllerLabels() {
		objects[0].GetLabels()[key] = value
	}
	for _, kind := range cluster.Kinds() {
		crd := Served(kind.CRD)
		crd.UID, crd.Generation = "c", 1
		objects = append(objects, crd)
	}
	return objects
}

// Served returns one of the CRDs of cluster.CRDNames as it is when the API server serves its kind.
func Served(name string) *apiextensionsv1.CustomResourceDefinition {
	return Serve(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// Serve changes one of Karpenter's CRDs to what it is when the API server serves its kind.
func Serve(crd *apiextensionsv1.CustomResourceDefinition) *apiextensionsv1.CustomResourceDefinition {
	for _, kind := range cluster.Kinds() {
		if kind.CRD != crd.Name {
			continue
		}
		if len(crd.Spec.Versions) == 0 {
			anything := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type: "object", XPreserveUnknownFields: ptr.To(true),
			}}
			crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: kind.GVK.Version, Served: true, Storage: true, Schema: anything,
			}}
		}
		crd.Spec.Group, crd.Spec.Names = kind.GVK.Group, apiextensionsv1.CustomResourceDefinitionNames{
			Kind: kind.GVK.Kind, ListKind: kind.GVK.Kind + "List",
		}
		crd.Status.AcceptedNames = crd.Spec.Names
	}
	crd.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{
		Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue,
	}}
	return crd
}
