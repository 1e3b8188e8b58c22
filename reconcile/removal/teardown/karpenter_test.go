package teardown_test

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
)

// TestCRDsOfTheChart checks that a CRD that another tool applies under the chart's name belongs to that tool.
func TestCRDsOfTheChart(t *testing.T) {
	helm := map[string]string{"meta.helm.sh/release-name": "karpenter-crd", "meta.helm.sh/release-namespace": "kube-system"}
	managed := map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	with := func(key, value string) map[string]string {
		return map[string]string{"app.kubernetes.io/managed-by": "Helm", key: value, "helm.toolkit.fluxcd.io/namespace": "flux-system", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}
	}
	for name, c := range map[string]struct {
		labels, annotations map[string]string
		want                bool
	}{
		"a release":                 {managed, helm, true},
		"Flux's HelmRelease":        {with("helm.toolkit.fluxcd.io/name", "karpenter-crd"), helm, false},
		"Flux's Kustomization":      {with("kustomize.toolkit.fluxcd.io/name", "karpenter-crd"), nil, false},
		"Argo CD's Application":     {nil, map[string]string{"argocd.argoproj.io/tracking-id": "karpenter-crd:apiextensions.k8s.io/CustomResourceDefinition:/nodepools.karpenter.sh"}, false},
		"a release of another name": {managed, map[string]string{"meta.helm.sh/release-name": "crds", "meta.helm.sh/release-namespace": "kube-system"}, false},
	} {
		if got := teardown.OfCRDChart(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Labels: c.labels, Annotations: c.annotations}}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// object returns an object of one of Karpenter's kinds, with or without a NodeSync (namespace.name), and with a
// NodePool.
func object(kind, name, owner, pool string) unstructured.Unstructured {
	o := unstructured.Unstructured{}
	o.SetKind(kind)
	o.SetName(name)
	labels := map[string]string{}
	if owner != "" {
		labels[v1alpha1.OwnerLabel] = owner
	}
	if pool != "" {
		labels["karpenter.sh/nodepool"] = pool
	}
	o.SetLabels(labels)
	return o
}

// TestTeardownLeavesAutoMode: neither what AWS manages nor a CRD that EKS keeps is deleted with Karpenter.
func TestTeardownLeavesAutoMode(t *testing.T) {
	ofAWS := func(kind, name string, path ...string) unstructured.Unstructured {
		o := object(kind, name, "", "")
		o.Object["spec"] = map[string]any{}
		if err := unstructured.SetNestedField(o.Object, "eks.amazonaws.com", path...); err != nil {
			t.Fatal(err)
		}
		return o
	}
	left := teardown.WithoutAutoMode([]unstructured.Unstructured{
		ofAWS("NodePool", "system", "spec", "template", "spec", "nodeClassRef", "group"), object("NodePool", "general", "", ""),
		ofAWS("NodeClaim", "system-abcde", "spec", "nodeClassRef", "group"),
	})
	if len(left) != 1 || left[0].GetName() != "general" {
		t.Errorf("WithoutAutoMode() = %v", left)
	}
	crd := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Labels:        map[string]string{"app.kubernetes.io/managed-by": "Helm"},
		Annotations:   map[string]string{"meta.helm.sh/release-name": "karpenter-crd", "meta.helm.sh/release-namespace": "kube-system"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "eks", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}},
	}}
	if teardown.OfCRDChart(crd) {
		t.Error("a CRD that EKS writes counts as the chart's")
	}
}

// TestObjectsNeedKarpenter checks that each object counts except those of the deleted NodeSync and the NodeClaims of
// its NodePools.
func TestObjectsNeedKarpenter(t *testing.T) {
	leaves := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "prod"}}
	claim, pool, other := object("NodeClaim", "a", "", "general"), object("NodePool", "general", "fleet.prod", ""), object("NodePool", "theirs", "fleet.stage", "")
	for name, c := range map[string]struct {
		objects []unstructured.Unstructured
		leaves  *v1alpha1.NodeSync
		applied map[string]types.UID
		want    string
	}{
		"nothing":                     {},
		"its own":                     {objects: []unstructured.Unstructured{claim, pool}, leaves: leaves},
		"of a pool that it applied":   {objects: []unstructured.Unstructured{claim}, leaves: leaves, applied: map[string]types.UID{"general": "1"}},
		"of a pool of nobody":         {objects: []unstructured.Unstructured{claim}, leaves: leaves, want: "NodeClaim/a"},
		"after the NodeSync is gone":  {objects: []unstructured.Unstructured{claim, pool}, want: "NodePool/general of NodeSync fleet.prod, NodeClaim/a"},
		"one of another NodeSync too": {objects: []unstructured.Unstructured{claim, other, pool}, leaves: leaves, want: "NodePool/theirs of NodeSync fleet.stage"},
	} {
		got, want := "", ""
		if err := teardown.ObjectsNeed(c.objects, c.leaves, c.applied); err != nil {
			got = err.Error()
		}
		if c.want != "" {
			want = "karpenter cannot be removed while objects of its kinds exist in the cluster: " + c.want + "; delete them first, then run the command again"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestNotInstalled checks that without a Deployment and without a reason there is no Karpenter to uninstall.
func TestNotInstalled(t *testing.T) {
	one := []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "karpenter"}}}
	if err := teardown.NotInstalled(nil, nil); err != nil {
		t.Error(err)
	}
	if teardown.NotInstalled(one, nil) == nil || teardown.NotInstalled(nil, errors.New("External")) == nil {
		t.Error("what another tool has installed is no error")
	}
}

// TestOthersNeed checks that any NodeSync except the deleted one counts.
func TestOthersNeed(t *testing.T) {
	sync := func(name, uid string) v1alpha1.NodeSync {
		return v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name, UID: types.UID(uid)}}
	}
	prod, again := sync("prod", "1"), sync("prod", "2")
	for name, c := range map[string]struct {
		all    []v1alpha1.NodeSync
		leaves *v1alpha1.NodeSync
		needed bool
	}{
		"only this one":       {[]v1alpha1.NodeSync{prod}, &prod, false},
		"it is gone":          {nil, nil, false},
		"another one":         {[]v1alpha1.NodeSync{prod, sync("stage", "3")}, &prod, true},
		"a new one like it":   {[]v1alpha1.NodeSync{again}, &prod, true},
		"gone, and a new one": {[]v1alpha1.NodeSync{again}, nil, true},
	} {
		if err := teardown.ToCRDs.OthersNeed(c.all, c.leaves); (err != nil) != c.needed {
			t.Errorf("%s: %v", name, err)
		}
	}
}
