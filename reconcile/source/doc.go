// Package source fetches revisions, from a Git host or from a source of Flux. It is the only home of go-git.
//
// In go a URL, a reference to follow and credentials; out comes a
// render.Snapshot: the revision, the commit, and the commit's tree as a
// read-only file system that no symlink leads out of.
//
// NodeSyncs that fetch the same reference of the same URL with the same
// credentials share a store on disk, which holds packs and nothing else, and
// share each fetch that is new enough for them. The first fetch is a clone of
// depth 1, later ones bring only what is new into the same store. After each, the commit and everything below it is shown to be
// present. Where something is missing, the history was rewritten or the store
// has grown, a new clone takes the store's place: a Snapshot of the old one
// then answers every read with a StaleError.
//
// Of a source of Flux (GitRepository, OCIRepository, Bucket or ExternalArtifact) FluxSources have the newest artifact, as
// its status says, and a FluxStore makes a Snapshot of it. The artifact comes from source-controller, over HTTP and
// without credentials, and its digest is verified before anything of it is read. A source is watched from the first
// look at it on, and the NodeSyncs that follow it are woken when it has another artifact. The watch is only for speed:
// each look asks the API server, and nothing waits for a watch.
//
// See https://fluxcd.io/flux/components/source/api/v1/ and
// https://github.com/fluxcd/flux2/tree/main/rfcs/0012-external-artifact.
//
// It never keeps a repository in memory, never runs git, and never lets a
// credential into an error. It writes to a remote in one case only: Revert makes
// a new branch below plumbline/, with one commit that takes files back to what
// they were. It changes and deletes no branch.
package source
