// Package daemon installs plumbline in a sandbox as manifests/ installs it in a cluster, and runs its daemon as a
// process.
//
// Install applies the manifests except the Deployment, because a sandbox has no container runtime. Start runs
// bin/plumbline in place of the Deployment: with the token of its ServiceAccount, and thus with exactly the permissions
// of manifests/, and with its own AWS credentials. The process can be stopped, killed and frozen. It never outlives the
// process that started it.
package daemon
