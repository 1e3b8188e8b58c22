// Package guard contains the policies of the deletion guard as they are installed, to compare a cluster with them.
// Those for Approvals and for emergencies are not included: package approval has the former, and the latter do not
// allow deletions.
package guard

import _ "embed"

//go:embed charts.yaml
var charts string

//go:embed crds.yaml
var crds string

//go:embed definitions.yaml
var definitions string

//go:embed finalizers.yaml
var finalizers string

//go:embed namespaces.yaml
var namespaces string

//go:embed ownership.yaml
var ownership string

// Policies returns ValidatingAdmissionPolicies and their bindings, as YAML files.
func Policies() []string {
	return []string{crds, definitions, finalizers, namespaces, ownership, charts}
}
