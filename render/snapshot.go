package render

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Snapshot is one fetched revision of a source.
type Snapshot struct {
	// Revision is the revision in Flux's form: main@sha1:<commit>.
	Revision string
	// Commit is the full hash of the commit; empty for a folder on disk.
	Commit string
	// Tag is the full hash of the annotated tag of the commit; empty if none was requested.
	Tag string
	// FS is the whole tree, read only, rooted at the repository's root. No symlink in it leads out of it. It may
	// implement Identified.
	FS fs.FS
}

// Identified is implemented by a file system that knows the identity of a file's content, or of a folder's listing,
// without reading it. Equal identities mean equal content.
type Identified interface {
	// Identity returns the current identity of a name. It returns fs.ErrNotExist if the name does not exist.
	Identity(name string) (string, error)
}

// Submodule is implemented by the file info of a folder if it may be a submodule, which is not fetched.
type Submodule interface {
	// Submodule reports whether it is one.
	Submodule() bool
}

func isSubmodule(of any) bool {
	s, ok := of.(Submodule)
	return ok && s.Submodule()
}

// Inputs are the files and folder listings that a render has read, with the identity of each at that time. A file that
// was requested but does not exist has the identity "".
type Inputs map[string]string

// ShortRevision shortens the hash of a revision for people: main@sha1:<40 digits> becomes main@sha1:<8 digits>.
func ShortRevision(revision string) string {
	const keep = 8
	if at := strings.LastIndex(revision, ":"); at >= 0 && len(revision) > at+1+keep {
		return revision[:at+1+keep]
	}
	return revision
}

// CommitOf returns the commit of a revision; empty if it has none.
func CommitOf(revision string) string {
	if i := strings.LastIndex(revision, ":"); i >= 0 {
		return revision[i+1:]
	}
	return ""
}

// FileName is the file that makes a folder a path of plumbline's.
const FileName = "plumbline.yaml"

// cleanPath returns a path as fs.FS requires it: ./clusters/prod → clusters/prod.
func cleanPath(name string) (string, error) {
	cleaned := path.Clean(strings.TrimLeft(name, "/"))
	if cleaned == ".." || strings.HasPrefix(cleaned, "../") {
		return "", Errors{{File: name, Message: "the path leads out of the repository"}}
	}
	return cleaned, nil
}

// ConfigFile returns the plumbline.yaml of a folder, as in Inputs; empty if the folder is outside of the repository.
func ConfigFile(folder string) string {
	cleaned, err := cleanPath(folder)
	if err != nil {
		return ""
	}
	return path.Join(cleaned, FileName)
}

// Compared is implemented by a file system that knows how it differs from an earlier one.
type Compared interface {
	Identified
	// Since returns where it may differ from an earlier file system, apart from links; false if unknown.
	Since(before fs.FS) (Difference, bool)
	// Direct reports whether a name involves no symlink, whether or not it exists.
	Direct(name string) bool
}

// Difference is where two file systems may differ. Everything else is the same in both, unless a symlink leads to it.
type Difference struct {
	// At are names: that of a file stands for its content, that of a folder for its listing.
	At []string
	// Below are folders below which anything may differ.
	Below []string
}

// below reports whether a name is below one of d.Below.
func (d Difference) below(name string) bool {
	for _, folder := range d.Below {
		if rest, found := strings.CutPrefix(name, folder); found && strings.HasPrefix(rest, "/") {
			return true
		}
	}
	return false
}

// Among returns the inputs that may differ. linked are those that symlinks lead to.
func (d Difference) Among(in Inputs, linked []string) Inputs {
	some := Inputs{}
	add := func(name string) {
		if identity, is := in[name]; is {
			some[name] = identity
		}
	}
	for _, name := range d.At {
		add(name)
	}
	for _, name := range linked {
		add(name)
	}
	if len(d.Below) > 0 {
		for name := range in {
			if d.below(name) {
				add(name)
			}
		}
	}
	return some
}

// Read is what a Set was made from.
type Read struct {
	Inputs Inputs
	// Linked are the Inputs that symlinks lead to; they are known only if Known is true.
	Linked []string
	Known  bool
}

// Read returns what the Set was made from.
func (s *Set) Read() Read { return Read{Inputs: s.Inputs, Linked: s.Linked, Known: s.LinksKnown} }

// differs returns where a Snapshot may differ from earlier files; false if unknown.
func (s Snapshot) differs(before fs.FS) (Difference, bool) {
	now, ok := s.FS.(Compared)
	if !ok || before == nil {
		return Difference{}, false
	}
	return now.Since(before)
}

// linked returns the inputs that symlinks lead to; false if unknown.
func (s Snapshot) linked(in Inputs) ([]string, bool) {
	files, ok := s.FS.(Compared)
	if !ok {
		return nil, false
	}
	var linked []string
	for name := range in {
		if !files.Direct(name) {
			linked = append(linked, name)
		}
	}
	slices.Sort(linked)
	return linked, true
}
