package render

import (
	"fmt"
	"slices"
	"strings"
)

// ignorable are the kinds that Karpenter's two charts make.
func ignorable() []string {
	return []string{
		"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Deployment", "PodDisruptionBudget",
		"Role", "RoleBinding", "Secret", "Service", "ServiceAccount", "ServiceMonitor",
	}
}

// checkIgnored finds entries of ignoreDifferences that would ignore nothing, or
// everything.
func (k *Karpenter) checkIgnored() []problem {
	var found []problem
	for n, i := range k.IgnoreDifferences {
		at := fmt.Sprintf("ignoreDifferences[%d]", n)
		if !slices.Contains(ignorable(), i.Kind) {
			found = append(found, problem{at + ".kind", fmt.Sprintf("%s.kind is %q, and the charts make none: give one of %s", at, i.Kind, strings.Join(ignorable(), ", "))})
		}
		if len(i.JSONPointers)+len(i.ManagedFieldsManagers) == 0 {
			found = append(found, problem{at, fmt.Sprintf("%s ignores nothing: give jsonPointers, managedFieldsManagers or both", at)})
		}
		for m, pointer := range i.JSONPointers {
			field := fmt.Sprintf("%s.jsonPointers[%d]", at, m)
			switch {
			case !leadsToField(pointer):
				found = append(found, problem{field, fmt.Sprintf("%s is %q: give the path of a field, such as /spec/template/spec/tolerations", field, pointer)})
			case i.Kind == "CustomResourceDefinition" && strings.HasPrefix(pointer, "/spec/versions"):
				found = append(found, problem{field, fmt.Sprintf("%s is %q: a CRD whose schema is not the chart's does not fit its controller", field, pointer)})
			}
		}
		for m, manager := range i.ManagedFieldsManagers {
			if manager == "" {
				found = append(found, problem{fmt.Sprintf("%s.managedFieldsManagers[%d]", at, m), fmt.Sprintf("%s.managedFieldsManagers[%d] is empty: give the name of a field manager", at, m)})
			}
		}
	}
	return found
}

// leadsToField says whether a JSON pointer is one, and leads to less than a whole
// object or its name.
func leadsToField(pointer string) bool {
	whole := []string{"/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace", "/spec"}
	return strings.HasPrefix(pointer, "/") && !strings.HasSuffix(pointer, "/") && !slices.Contains(whole, pointer)
}
