// Package rbaccharts holds the policies of the deletion guard for the releases that plumbline installs.
package rbaccharts

import _ "embed"

//go:embed guard.yaml
var guard string

// Policies are ValidatingAdmissionPolicies and their bindings, as files of YAML.
func Policies() []string { return []string{guard} }
