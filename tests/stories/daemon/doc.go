// Package daemon puts plumbline into a sandbox as manifests/ puts it into a
// cluster, and runs its daemon as a process.
//
// Install applies the manifests but for the Deployment, which a sandbox has no
// container runtime for. Start runs bin/plumbline in the Deployment's place:
// with the token of its ServiceAccount, and so with just the rights that
// manifests/ gives it, and with AWS credentials of its own. The process can be
// stopped, killed and frozen. It never outlives the one that started it.
package daemon
