package render

import "io/fs"

// Snapshot is one fetched revision of a source.
type Snapshot struct {
	// Revision is the revision in Flux's form: main@sha1:<commit>.
	Revision string
	// Commit is the full hash of the commit; empty for a folder on disk.
	Commit string
	// Tag is the full hash of the annotated tag that names the commit; empty where none
	// was asked for.
	Tag string
	// FS is the whole tree, read only, rooted at the repository's root. No
	// symlink in it leads out of it. Files opened from it may implement
	// Identified.
	FS fs.FS
}

// Identified is implemented by a file system that knows the identity of a
// file's content, or of a folder's listing, without reading it. Two equal
// identities mean equal content.
type Identified interface {
	// Identity returns the identity of what stands at name now. An error that
	// is fs.ErrNotExist means that nothing does.
	Identity(name string) (string, error)
}

// Submodule is implemented by what a file system says of a folder, where that
// may stand for another repository, which is not fetched.
type Submodule interface {
	// Submodule says whether it does.
	Submodule() bool
}

func isSubmodule(of any) bool {
	s, ok := of.(Submodule)
	return ok && s.Submodule()
}

// Inputs are the files and folder listings that a render has read, with the
// identity of each at that time. An absent file that was asked for has the
// identity "".
type Inputs map[string]string
