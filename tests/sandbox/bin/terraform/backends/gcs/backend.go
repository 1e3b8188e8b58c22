// Package gcs replaces Terraform's backend of that name, which is a module without a zip. No configuration here stores
// state there.
package gcs

import "github.com/hashicorp/terraform/internal/backend"

// New is not called: no configuration here names this backend.
func New() backend.Backend { panic("the backend gcs is left out of this build") }
