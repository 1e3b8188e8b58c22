// Package source fetches revisions from a Git host or from a Flux source. Only this package imports go-git.
//
// The input is a URL, a reference to follow and credentials. The output is a render.Snapshot: the revision, the commit,
// and the commit's tree as a read-only file system whose symlinks cannot lead out of it.
//
// NodeSyncs that fetch the same reference of the same URL with the same credentials share a store on disk, which
// contains only packs. They also share each fetch that is recent enough for them. The first fetch is a clone of depth
// 1; later ones add only new objects to the same store. After each fetch, the package verifies that the commit and
// everything below it is present. If something is missing, the history was rewritten or the store has grown too large,
// a new clone replaces the store: a Snapshot of the old store then answers every read with a StaleError.
//
// For a Flux source (GitRepository, OCIRepository, Bucket or ExternalArtifact), FluxSources returns the newest artifact
// in its status, and a FluxStore makes a Snapshot of it. The artifact comes from source-controller, over HTTP and
// without credentials; its digest is verified before anything in it is read. A source is watched once it has been
// looked up, and the NodeSyncs that follow it are enqueued when its artifact changes. The watch only saves time: each
// lookup queries the API server, and nothing waits for a watch.
//
// See https://fluxcd.io/flux/components/source/api/v1/ and
// https://github.com/fluxcd/flux2/tree/main/rfcs/0012-external-artifact.
//
// The package never keeps a repository in memory, never runs git, and never puts a credential into an error. It writes
// to a remote in one case only: Revert creates a new branch below plumbline/, with one commit that restores files to
// their previous content. It never changes or deletes a branch.
package source
