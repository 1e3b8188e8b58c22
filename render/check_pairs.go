package render

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// unlaunchable finds NodePools that can launch no node with the EC2NodeClass that they name. Both are in the Set; of a class
// that is elsewhere nothing is known.
func unlaunchable(objects []Object) Errors {
	classes := map[string]*unstructured.Unstructured{}
	for i := range objects {
		if objects[i].Ref.Kind == EC2NodeClass {
			classes[objects[i].Ref.Name] = objects[i].Desired
		}
	}
	var errs Errors
	for i := range objects {
		kind, _ := KindOf(objects[i].Ref.Kind)
		if kind.RefersTo == "" {
			continue
		}
		name, _, _ := unstructured.NestedString(objects[i].Desired.Object, kind.RefPath...)
		class := classes[name]
		if class == nil {
			continue
		}
		if why := mismatch(requirementsOf(objects[i].Desired), name, class); why != "" {
			errs = append(errs, Error{File: objects[i].Origin.File, Line: objects[i].Origin.Line, Message: fmt.Sprintf("%s: no node could be launched: %s", objects[i].Ref, why)})
		}
	}
	return errs
}

// mismatch is why no node meets requirements with a class; empty if one may.
func mismatch(requirements []map[string]any, name string, class *unstructured.Unstructured) string {
	const capacityType = "karpenter.sh/capacity-type"
	allows := func(key, value string) bool { return fitsAll(requirements, map[string]string{key: value}) }
	family := familyOf(class)
	system := "linux"
	if strings.HasPrefix(family, "windows") {
		system = "windows"
	}
	switch {
	case family != "" && family != "custom" && !allows("kubernetes.io/os", system):
		return fmt.Sprintf("its requirements on kubernetes.io/os do not allow %s, which the AMIs of EC2NodeClass/%s run (%s)", system, name, family)
	case !allows(capacityType, "on-demand") && !allows(capacityType, "spot") && len(list(class, "spec", "capacityReservationSelectorTerms")) == 0:
		return fmt.Sprintf("its requirements on %s allow only reserved, and EC2NodeClass/%s has no capacityReservationSelectorTerms", capacityType, name)
	}
	return ""
}

// familyOf is the AMI family of a class in lower case, as its alias or its amiFamily has it; empty if neither is there.
func familyOf(class *unstructured.Unstructured) string {
	if family, _, _ := unstructured.NestedString(class.Object, "spec", "amiFamily"); family != "" {
		return strings.ToLower(family)
	}
	terms := list(class, "spec", "amiSelectorTerms")
	i := slices.IndexFunc(terms, func(term map[string]any) bool { return term["alias"] != nil })
	if i < 0 {
		return ""
	}
	alias, _ := terms[i]["alias"].(string)
	family, _, _ := strings.Cut(strings.ToLower(alias), "@")
	return family
}
