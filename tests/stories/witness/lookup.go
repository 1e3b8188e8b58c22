package witness

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// find returns an object by its kind and name; nil if it does not exist.
func (f *Fleet) find(kind, name string) *unstructured.Unstructured {
	objects := f.Pools
	if kind == "EC2NodeClass" {
		objects = f.Classes
	}
	for i := range objects {
		if objects[i].GetName() == name {
			return &objects[i]
		}
	}
	return nil
}

// owns reports whether a NodeSync owns a pool.
func (f *Fleet) owns(t *Told, pool *unstructured.Unstructured) bool {
	return pool.GetLabels()[ownerLabel] == t.Owner
}

// claimsOf returns the NodeClaims of a NodeSync's pools, except those that are being removed.
func (f *Fleet) claimsOf(t *Told) (claims []*unstructured.Unstructured) {
	removed := t.removed()
	for i := range f.Claims {
		pool := f.find("NodePool", f.Claims[i].GetLabels()["karpenter.sh/nodepool"])
		if pool != nil && f.owns(t, pool) && !removed["NodePool/"+pool.GetName()] {
			claims = append(claims, &f.Claims[i])
		}
	}
	return claims
}

// asMade reports whether a NodeClaim's definitions were not written since it was created, except their status.
func (f *Fleet) asMade(claim *unstructured.Unstructured) bool {
	class, _, _ := unstructured.NestedString(claim.Object, "spec", "nodeClassRef", "name")
	for _, of := range []*unstructured.Unstructured{f.find("NodePool", claim.GetLabels()["karpenter.sh/nodepool"]), f.find("EC2NodeClass", class)} {
		if of == nil {
			return false
		}
		for _, by := range of.GetManagedFields() {
			karpenters := strings.HasPrefix(by.Manager, "karpenter") || strings.HasPrefix(by.Manager, "controller")
			if by.Subresource == "" && !karpenters && by.Time != nil && !by.Time.Time.Before(claim.GetCreationTimestamp().Time) {
				return false
			}
		}
	}
	return true
}

// outdated returns why a NodeClaim is outdated: its Drifted condition, or its annotations with hashes of the same
// version that differ from its definitions'. It is empty if neither applies.
func (f *Fleet) outdated(claim *unstructured.Unstructured) string {
	if drifted := conditionOf(claim, "Drifted"); drifted["status"] == "True" {
		return "is Drifted (" + drifted["reason"] + ")"
	}
	class, _, _ := unstructured.NestedString(claim.Object, "spec", "nodeClassRef", "name")
	for key, of := range map[string]*unstructured.Unstructured{
		"karpenter.sh/nodepool-hash":          f.find("NodePool", claim.GetLabels()["karpenter.sh/nodepool"]),
		"karpenter.k8s.aws/ec2nodeclass-hash": f.find("EC2NodeClass", class),
	} {
		if of == nil {
			continue
		}
		has, wants := claim.GetAnnotations(), of.GetAnnotations()
		if has[key+"-version"] == wants[key+"-version"] && has[key] != "" && wants[key] != "" && has[key] != wants[key] {
			return fmt.Sprintf("has %s %s, and its definition %s", key, has[key], wants[key])
		}
	}
	return ""
}
