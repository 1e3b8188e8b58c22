package karpenter

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Migration is what has to be done to a CRD's objects before its new definition
// can be written: the API server refuses one that leaves out a version which
// status.storedVersions lists.
type Migration struct {
	CRD string `json:"crd"`
	// Drop are the versions to take out of status.storedVersions, once each object
	// was written again and is stored as Storage.
	Drop    []string `json:"drop"`
	Storage string   `json:"storage"`
}

// LostVersionError says that a CRD would lose a version that objects are stored
// in, and that they cannot be stored in another one first.
type LostVersionError struct {
	CRD string
	// Versions would be lost; the new definition has only Has.
	Versions, Has []string
	// Storage is the version that objects are written in now.
	Storage string
}

// Error says why there is no way, and what the way is.
func (e *LostVersionError) Error() string {
	return fmt.Sprintf("crd %s stores objects as %s, and the new one knows only %s: upgrade by way of a version of karpenter whose CRDs know both",
		e.CRD, strings.Join(e.Versions, " and "), strings.Join(e.Has, ", "))
}

// Migrations returns what has to happen to the objects of live CRDs before the
// target's CRDs can be written, by name of CRD as the target has them. CRDs that
// do not live yet need nothing. Errors: *LostVersionError.
func Migrations(live, target []*apiextensionsv1.CustomResourceDefinition) ([]Migration, error) {
	var found []Migration
	for _, next := range target {
		now := named(live, next.Name)
		if now == nil {
			continue
		}
		has := versions(next)
		lost := without(now.Status.StoredVersions, has)
		if len(lost) == 0 {
			continue
		}
		storage := storageOf(now)
		if !slices.Contains(has, storage) {
			return nil, &LostVersionError{CRD: now.Name, Versions: lost, Has: has, Storage: storage}
		}
		found = append(found, Migration{CRD: now.Name, Drop: lost, Storage: storage})
	}
	return found, nil
}

// named finds a CRD.
func named(crds []*apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinition {
	for _, crd := range crds {
		if crd.Name == name {
			return crd
		}
	}
	return nil
}

// versions are all that a CRD knows, served or not.
func versions(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var names []string
	for _, v := range crd.Spec.Versions {
		names = append(names, v.Name)
	}
	return names
}

// served are the versions that clients can ask for.
func served(crd *apiextensionsv1.CustomResourceDefinition) []string {
	var names []string
	for _, v := range crd.Spec.Versions {
		if v.Served {
			names = append(names, v.Name)
		}
	}
	return names
}

// storageOf is the version that objects are written in.
func storageOf(crd *apiextensionsv1.CustomResourceDefinition) string {
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// without returns what one list has and another has not.
func without(list, other []string) []string {
	var rest []string
	for _, one := range list {
		if !slices.Contains(other, one) {
			rest = append(rest, one)
		}
	}
	return rest
}
