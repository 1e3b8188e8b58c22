package source

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// entriesOf are the entries of a tree by name; none of the zero hash.
func (s *store) entriesOf(tree plumbing.Hash) (map[string]object.TreeEntry, error) {
	named := map[string]object.TreeEntry{}
	if tree.IsZero() {
		return named, nil
	}
	entries, err := s.folder(tree)
	for _, e := range entries {
		named[e.Name] = e
	}
	return named, err
}

// lookup finds files of trees by their path. It keeps what it has read of folders, as thousands of
// names may be asked for in one.
type lookup struct {
	store *store
	known map[plumbing.Hash]map[string]object.TreeEntry
	// entries are those of known.
	entries int
}

// at is the file at a path of a tree; nil where there is none. The error may be the context's.
func (l *lookup) at(ctx context.Context, root plumbing.Hash, name string) (*object.TreeEntry, error) {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		there, err := l.folder(ctx, root)
		if err != nil {
			return nil, err
		}
		e, is := there[part]
		switch last := i == len(parts)-1; {
		case !is, last && !e.Mode.IsFile(), !last && e.Mode != filemode.Dir:
			return nil, nil
		case last:
			return &e, nil
		}
		root = e.Hash
	}
	return nil, nil
}

// mostKnown is how many entries of folders are kept, unless one folder has more.
const mostKnown = 100_000

func (l *lookup) folder(ctx context.Context, tree plumbing.Hash) (map[string]object.TreeEntry, error) {
	if there, known := l.known[tree]; known {
		return there, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	there, err := l.store.entriesOf(tree)
	if err != nil {
		return nil, err
	}
	if l.known == nil || l.entries+len(there) > mostKnown {
		l.known, l.entries = map[plumbing.Hash]map[string]object.TreeEntry{}, 0
	}
	l.known[tree] = there
	l.entries += len(there)
	return there, nil
}

// difference walks what differs between two trees.
type difference struct {
	store   *store
	entries int
	// file is called with each file that differs; nil for one that is not there. Submodules are not files.
	file func(name string, before, now *object.TreeEntry)
}

// walk compares two trees; the zero hash is an empty one.
func (d *difference) walk(at string, before, now plumbing.Hash, depth int) error {
	if before == now {
		return nil
	}
	if depth > maxDepth {
		return &LimitError{What: "the depth of folders within folders", Limit: maxDepth, Unit: "folders"}
	}
	was, err := d.store.entriesOf(before)
	if err != nil {
		return err
	}
	is, err := d.store.entriesOf(now)
	if err != nil {
		return err
	}
	if d.entries += len(was) + len(is); d.entries > maxEntries {
		return tooManyEntries()
	}
	for _, name := range names(was, is) {
		a, b := was[name], is[name]
		if a == b {
			continue
		}
		folders := [2]plumbing.Hash{}
		for i, e := range []object.TreeEntry{a, b} {
			if e.Mode == filemode.Dir {
				folders[i] = e.Hash
			}
		}
		if err := d.walk(path.Join(at, name), folders[0], folders[1], depth+1); err != nil {
			return err
		}
		if one, other := fileIn(a), fileIn(b); one != nil || other != nil {
			d.file(path.Join(at, name), one, other)
		}
	}
	return nil
}

// fileIn is an entry that is a file, or a symlink.
func fileIn(e object.TreeEntry) *object.TreeEntry {
	if !e.Mode.IsFile() {
		return nil
	}
	return &e
}

func names(lists ...map[string]object.TreeEntry) []string {
	var all []string
	for _, list := range lists {
		for name := range list {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func sameFile(a, b *object.TreeEntry) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Mode == b.Mode && a.Hash == b.Hash
}
