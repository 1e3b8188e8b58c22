// Package rbaccharts contains the policies of the deletion guard for the releases that plumbline installs, and those
// that limit what plumbline writes.
package rbaccharts

import _ "embed"

//go:embed guard.yaml
var guard string

// Policies returns ValidatingAdmissionPolicies and their bindings, as YAML files.
func Policies() []string { return []string{guard} }

//go:embed policy.yaml
var limits string

// Limits returns the policies that limit what plumbline's ServiceAccount may write, and their bindings, as a YAML file.
func Limits() string { return limits }
