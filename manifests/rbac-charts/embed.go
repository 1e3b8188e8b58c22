// Package rbaccharts holds the policies of the deletion guard for the releases that plumbline installs, and those that limit
// what plumbline writes.
package rbaccharts

import _ "embed"

//go:embed guard.yaml
var guard string

// Policies are ValidatingAdmissionPolicies and their bindings, as files of YAML.
func Policies() []string { return []string{guard} }

//go:embed policy.yaml
var limits string

// Limits are the policies that limit what plumbline's ServiceAccount may write, and their bindings, as a file of YAML.
func Limits() string { return limits }
