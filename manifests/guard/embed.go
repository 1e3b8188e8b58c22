// Package guard holds the policies of the deletion guard as they are installed, for who compares
// what a cluster has with them. Those of Approvals and of emergencies
// are apart: package approval knows the one, and the other lets nothing be deleted.
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

//go:embed nodesyncs.yaml
var nodeSyncs string

//go:embed ownership.yaml
var ownership string

// Policies are ValidatingAdmissionPolicies and their bindings, as files of YAML.
func Policies() []string {
	return []string{crds, definitions, finalizers, namespaces, ownership, charts}
}

// Limits are the policy of what plumbline itself may change of NodeSyncs, and its binding: it is installed without the
// deletion guard, too.
func Limits() string { return nodeSyncs }
