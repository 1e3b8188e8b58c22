// Package terraform tests examples/terraform.
//
// It always checks that every file is formatted like `terraform fmt`; that the takeover removes from the state exactly
// what was in it before, and that Git contains the same; that the template renders the IAM policy of manifests/ as
// JSON; and that a destroy drains the nodes before it destroys what they need.
//
// With PLUMBLINE_FULL=1 it also uses the real Terraform: fmt, validate, plan and apply of the takeover from a state in
// a file, and of the parts of install/ and teardown/ that need no AWS. The story terraform-takeover runs the first in a
// sandbox.
//
// Terraform is built without the backends for remote states, which are modules without a zip. The helm provider is
// 1.3.2 of 2020, the newest that is a Go module: it supports helm_release as used here, but not the configuration in
// providers.tf, which is for 3.x and is only parsed. No AWS provider is available: what surrounds the module
// ./plumbline in install/ is only parsed, and was never planned.
package terraform
