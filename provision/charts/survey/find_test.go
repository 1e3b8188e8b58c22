package survey

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/owners"
)

// listed returns an object of a Helm release; of none if release is empty.
func listed(namespace, name, release string, labels map[string]string) metav1.PartialObjectMetadata {
	object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}}}
	if release != "" {
		object.Labels["app.kubernetes.io/managed-by"] = "Helm"
		object.Annotations = map[string]string{"meta.helm.sh/release-name": release, "meta.helm.sh/release-namespace": "kube-system"}
	}
	for key, value := range labels {
		object.Labels[key] = value
	}
	return object
}

// TestFind: objects that plumbline has not installed are found; its own, and CRDs of other projects, are not.
func TestFind(t *testing.T) {
	const crd = "nodepools.karpenter.sh"
	flux := map[string]string{"helm.toolkit.fluxcd.io/name": "karpenter", "helm.toolkit.fluxcd.io/namespace": "flux-system"}
	chart := map[string]string{ChartLabel: "karpenter-1.14.1_build", "app.kubernetes.io/version": "1.14.0"}
	release := func(name string) owners.Owner {
		return owners.Owner{Kind: owners.ReleaseKind, Namespace: "kube-system", Name: name}
	}
	cases := map[string]struct {
		listed Listed
		want   Found
	}{
		"ours": {Listed{
			CRDs:        []metav1.PartialObjectMetadata{listed("", crd, charts.CRDChart, nil)},
			Deployments: []metav1.PartialObjectMetadata{listed("kube-system", "karpenter", charts.ControllerChart, chart)},
		}, Found{}},
		"of other projects": {Listed{CRDs: []metav1.PartialObjectMetadata{listed("", "certificates.cert-manager.io", "", nil)}}, Found{}},
		"kept by EKS": {Listed{CRDs: []metav1.PartialObjectMetadata{
			listed("", crd, "", map[string]string{"app.kubernetes.io/managed-by": "eks"}),
			listed("", "nodeclaims.karpenter.sh", "", nil), listed("", "ec2nodeclasses.karpenter.k8s.aws", "", nil), listed("", "nodeclasses.eks.amazonaws.com", "", nil),
		}}, Found{CRDs: []Object{{Kind: crdKind, Name: "ec2nodeclasses.karpenter.k8s.aws"}}}},
		"of our releases, which another client made": {Listed{
			Foreign:     map[string]int{charts.CRDChart: 3, charts.ControllerChart: 4},
			CRDs:        []metav1.PartialObjectMetadata{listed("", crd, charts.CRDChart, nil)},
			Deployments: []metav1.PartialObjectMetadata{listed("kube-system", "karpenter", charts.ControllerChart, chart)},
		}, Found{
			Releases: []Release{
				{Name: charts.CRDChart, Namespace: "kube-system", Revision: 3}, {Name: charts.ControllerChart, Namespace: "kube-system", Revision: 4},
			},
			CRDs:        []Object{{Kind: crdKind, Name: crd, Owner: release(charts.CRDChart)}},
			Controllers: []Object{{Kind: controllerKind, Namespace: "kube-system", Name: "karpenter", Version: "1.14.1+build", Owner: release(charts.ControllerChart)}},
		}},
		"ours, which Flux reconciles": {
			Listed{CRDs: []metav1.PartialObjectMetadata{listed("", crd, charts.CRDChart, flux)}},
			Found{CRDs: []Object{{Kind: crdKind, Name: crd, Owner: owners.Owner{Tool: "Flux", Kind: "HelmRelease", Namespace: "flux-system", Name: "karpenter"}}}},
		},
		"of another release, named once": {
			Listed{CRDs: []metav1.PartialObjectMetadata{listed("", crd, "platform", nil), listed("", "nodeclaims.karpenter.sh", "platform", nil)}},
			Found{
				Releases: []Release{{Name: "platform", Namespace: "kube-system"}},
				CRDs:     []Object{{Kind: crdKind, Name: crd, Owner: release("platform")}, {Kind: crdKind, Name: "nodeclaims.karpenter.sh", Owner: release("platform")}},
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.listed.Namespace = "kube-system"
			got := Find(c.listed)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Find() (-want +got):\n%s", diff)
			}
			if c.want.Empty() != got.Empty() {
				t.Errorf("Empty() = %t", got.Empty())
			}
		})
	}
}

// TestCheckWrite: a release overwrites only its own objects, and others only if it may adopt them.
func TestCheckWrite(t *testing.T) {
	object := func(owner owners.Owner) Object {
		return Object{Kind: "ServiceAccount", Namespace: "kube-system", Name: "karpenter", Owner: owner}
	}
	release := func(namespace, name string) owners.Owner {
		return owners.Owner{Kind: owners.ReleaseKind, Namespace: namespace, Name: name}
	}
	cases := map[string]struct {
		owner owners.Owner
		// refused and adopted are the errors without adopt and with it; nil for none.
		refused, adopted any
	}{
		"its own":                       {release("kube-system", charts.ControllerChart), nil, nil},
		"of the other release":          {release("kube-system", charts.CRDChart), new(*ForeignObjectsError), nil},
		"of no release":                 {owners.Owner{Manager: "kubectl"}, new(*ForeignObjectsError), nil},
		"of a release of another name":  {release("kube-system", "platform"), new(*ForeignObjectsError), new(*ElsewhereError)},
		"of a release elsewhere":        {release("other", charts.ControllerChart), new(*ForeignObjectsError), new(*ElsewhereError)},
		"its own, which Argo CD writes": {owners.Owner{Tool: "Argo CD", Kind: "Application", Name: "karpenter"}, new(*ReconciledError), new(*ReconciledError)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for adopt, want := range map[bool]any{false: c.refused, true: c.adopted} {
				err := CheckWrite([]Object{object(release("kube-system", charts.ControllerChart)), object(c.owner)}, charts.ControllerChart, "kube-system", adopt)
				if want == nil && err != nil || want != nil && (err == nil || !errors.As(err, want)) {
					t.Errorf("CheckWrite(adopt: %t) = %v, want %T", adopt, err, want)
				}
			}
		})
	}
}
