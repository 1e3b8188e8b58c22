package karpenter

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type crdList = []*apiextensionsv1.CustomResourceDefinition

// crd makes a CRD whose first version is stored, and all of which are served but
// those that begin with a minus.
func crd(name string, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	made := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for i, version := range versions {
		served := version[0] != '-'
		if !served {
			version = version[1:]
		}
		made.Spec.Versions = append(made.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: version, Served: served, Storage: i == 0})
	}
	return made
}

// storing says what a CRD's objects are stored in.
func storing(crd *apiextensionsv1.CustomResourceDefinition, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	crd.Status.StoredVersions = versions
	return crd
}

// installed makes real CRDs live: each stores its storage version, and more.
func installed(crds crdList, more ...string) crdList {
	for _, crd := range crds {
		crd.Status.StoredVersions = append(slices.Clone(more), storageOf(crd))
	}
	return crds
}

func TestMigrations(t *testing.T) {
	cases := map[string]struct {
		live, target crdList
		want         []Migration
		lost         *LostVersionError
	}{
		"nothing lives":     {nil, crdList{crd("a", "v1")}, nil, nil},
		"as it was":         {crdList{storing(crd("a", "v1"), "v1")}, crdList{crd("a", "v1")}, nil, nil},
		"an old version":    {crdList{storing(crd("a", "v1", "v1beta1"), "v1beta1", "v1")}, crdList{crd("a", "v1")}, []Migration{{"a", []string{"v1beta1"}, "v1"}}, nil},
		"migrated already":  {crdList{storing(crd("a", "v1", "v1beta1"), "v1")}, crdList{crd("a", "v1")}, nil, nil},
		"kept, not served":  {crdList{storing(crd("a", "v1", "v1beta1"), "v1beta1", "v1")}, crdList{crd("a", "v1", "-v1beta1")}, nil, nil},
		"a new storage":     {crdList{storing(crd("a", "v1"), "v1")}, crdList{crd("a", "v2", "v1")}, nil, nil},
		"a version too far": {crdList{storing(crd("a", "v1beta1"), "v1beta1")}, crdList{crd("a", "v1")}, nil, &LostVersionError{CRD: "a", Versions: []string{"v1beta1"}, Has: []string{"v1"}, Storage: "v1beta1"}},
		"a downgrade":       {crdList{storing(crd("a", "v2", "v1"), "v1", "v2")}, crdList{crd("a", "v1")}, nil, &LostVersionError{CRD: "a", Versions: []string{"v2"}, Has: []string{"v1"}, Storage: "v2"}},
		"a CRD of others":   {crdList{storing(crd("b", "v1"), "v0")}, crdList{crd("a", "v1")}, nil, nil},
		"1.0 to 1.1, of old objects": {
			installed(crds(t, "1.0.8"), "v1beta1"), crds(t, "1.3.3"),
			[]Migration{{"ec2nodeclasses.karpenter.k8s.aws", []string{"v1beta1"}, "v1"}, {"nodeclaims.karpenter.sh", []string{"v1beta1"}, "v1"}, {"nodepools.karpenter.sh", []string{"v1beta1"}, "v1"}},
			nil,
		},
		"1.0 to 1.1, migrated": {installed(crds(t, "1.0.8")), crds(t, "1.3.3"), nil, nil},
		"1.8 to 1.14":          {installed(crds(t, "1.8.6")), crds(t, "1.14.1"), nil, nil},
		"back to 1.8":          {installed(crds(t, "1.14.1")), crds(t, "1.8.6"), nil, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Migrations(c.live, c.target)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			var lost *LostVersionError
			if errors.As(err, &lost); err != nil && lost == nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.lost, lost); diff != "" {
				t.Error(diff)
			}
		})
	}
	lost := &LostVersionError{CRD: "a", Versions: []string{"v2"}, Has: []string{"v1"}}
	if want := "crd a stores objects as v2, and the new one knows only v1: upgrade by way of a version of karpenter whose CRDs know both"; lost.Error() != want {
		t.Errorf("says %s", lost)
	}
}

func TestWayBack(t *testing.T) {
	cases := map[string]struct {
		live, next, old crdList
		want            []string
	}{
		"the same":          {crdList{crd("a", "v1")}, crdList{crd("a", "v1")}, crdList{crd("a", "v1")}, nil},
		"old not served":    {crdList{crd("a", "v1")}, crdList{crd("a", "v2", "-v1")}, crdList{crd("a", "v1", "v2")}, []string{"crd a: the old controller asks for v1, which the new one no longer serves"}},
		"old left out":      {crdList{crd("a", "v1")}, crdList{crd("a", "v2")}, crdList{crd("a", "v1")}, []string{"crd a: the old controller asks for v1, which the new one no longer serves"}},
		"stored anew":       {crdList{crd("a", "v1")}, crdList{crd("a", "v2", "v1")}, crdList{crd("a", "v1")}, []string{"crd a: the new one stores objects as v2, which the old one does not serve"}},
		"stored, and known": {crdList{crd("a", "v1", "v2")}, crdList{crd("a", "v2", "v1")}, crdList{crd("a", "v1", "v2")}, nil},
		"a new kind":        {crdList{crd("a", "v1")}, crdList{crd("a", "v1"), crd("b", "v1")}, crdList{crd("a", "v1")}, nil},
		"does not live":     {nil, crdList{crd("a", "v2")}, crdList{crd("a", "v1")}, nil},
		"left as it is":     {crdList{crd("a", "v1")}, nil, crdList{crd("a", "v1")}, nil},
		"1.8 from 1.14":     {crds(t, "1.8.6"), crds(t, "1.14.1"), crds(t, "1.8.6"), nil},
		"1.0 from 1.3":      {crds(t, "1.0.8"), crds(t, "1.3.3"), crds(t, "1.0.8"), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, blocker := range WayBack(c.live, c.next, c.old) {
				got = append(got, blocker.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
