// Package pg stands where Terraform has its backend of that name, which is a
// module that is in no zip. Nothing here keeps state there.
package pg

import "github.com/hashicorp/terraform/internal/backend"

// New is not called: no configuration here names this backend.
func New() backend.Backend { panic("the backend pg is left out of this build") }
