// Package flux follows sources of Flux: GitRepository, OCIRepository, Bucket and ExternalArtifact.
//
// In goes the name of a source; out come its newest artifact, as its status says, and from the
// request for that a render.Snapshot, as reconcile/source has one of a repository. The artifact
// comes from source-controller, over HTTP and without credentials, and its digest is verified before
// anything of it is read. Nothing is fetched from where Flux has it.
//
// A source is watched from the first look at it on, and the NodeSyncs that follow it are woken when it has
// another artifact. The watch is only for speed: each look asks the API server, and nothing waits for a watch.
//
// See https://fluxcd.io/flux/components/source/api/v1/ and
// https://github.com/fluxcd/flux2/tree/main/rfcs/0012-external-artifact.
package flux
