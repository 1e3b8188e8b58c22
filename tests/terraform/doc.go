// Package terraform holds that examples/terraform is what it says.
//
// Always: every file is formatted as `terraform fmt` wants it; what the takeover
// forgets is what there was before, and Git says the same of it; the IAM policy
// of manifests/ comes out of the template as JSON; a destroy tears the nodes down
// before what they need goes.
//
// With PLUMBLINE_FULL=1 the real Terraform looks at it, too: fmt, validate, plan
// and apply of the takeover from a state in a file, and of the parts of install/
// and teardown/ that need no AWS. The story terraform-takeover plays the first on a sandbox.
//
// Terraform is built without
// the backends of its remote states, which are modules in no zip. The helm
// provider is 1.3.2 of 2020, the newest that is a module: it knows helm_release
// as it is used here, and not the configuration in providers.tf, which is of 3.x
// and is parsed alone. No AWS provider can be had: what stands beside the module
// ./plumbline in install/ is parsed, and was never planned.
package terraform
