package source

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/plumbline-dev/plumbline/render"
)

var _ render.Compared = (*tree)(nil)

// Since returns where this commit may differ from another one, by comparing the hashes of their folders: it skips
// everything below two equal ones. Of the other commit, only the folders that were read while it was the newest are
// known; nothing below the others was used.
func (t *tree) Since(before fs.FS) (render.Difference, bool) {
	old, ok := before.(*tree)
	if !ok {
		return render.Difference{}, false
	}
	c := comparison{now: t, before: old}
	known := c.folder(".", old.root, t.root)
	return c.found, known
}

// Direct reports whether a name contains no symlink, whether or not it exists.
func (t *tree) Direct(name string) bool {
	here := entry{name: ".", mode: filemode.Dir, hash: t.root}
	if name == "." {
		return true
	}
	for rest, more := name, true; more && here.mode == filemode.Dir; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		entries, err := t.folder("lstat", name, here)
		if err != nil {
			return false
		}
		i, found := find(entries, part)
		if !found {
			return true
		}
		here = entries[i]
	}
	return here.mode != filemode.Symlink
}

// maxDiffering is the number of differences beyond which checking everything costs no more.
const maxDiffering = 1000

// comparison is the state of one Since.
type comparison struct {
	now, before *tree
	// reads reports whether unread folders of the earlier commit are read too.
	reads bool
	found render.Difference
}

// folder compares a folder with its earlier state; false if that is unknown or there are too many differences.
func (c *comparison) folder(name string, before, now plumbing.Hash) bool {
	if before == now {
		return true
	}
	old, known := c.earlier(name, before)
	if !known {
		c.below(name)
		return name != "."
	}
	entries, err := c.now.folder("compare", name, entry{mode: filemode.Dir, hash: now})
	if err != nil {
		return false
	}
	listed := true
	for len(old) > 0 || len(entries) > 0 {
		var was, is *entry
		order := first(old, entries)
		if order <= 0 {
			was, old = &old[0], old[1:]
		}
		if order >= 0 {
			is, entries = &entries[0], entries[1:]
		}
		same, ok := c.entry(name, was, is)
		if !ok || len(c.found.At) > maxDiffering {
			return false
		}
		listed = listed && same
	}
	if !listed {
		c.found.At = append(c.found.At, name)
	}
	return true
}

// earlier returns the entries that a folder had, if they are known.
func (c *comparison) earlier(name string, folder plumbing.Hash) ([]entry, bool) {
	entries, known := c.before.listings.known(folder)
	if known || !c.reads {
		return entries, known
	}
	entries, err := c.before.folder("compare", name, entry{mode: filemode.Dir, hash: folder})
	return entries, err == nil
}

// first reports which of two sorted lists has the lower first name: negative for before, positive for now, 0 for both.
func first(before, now []entry) int {
	switch {
	case len(before) == 0:
		return 1
	case len(now) == 0:
		return -1
	}
	return strings.Compare(before[0].name, now[0].name)
}

// entry compares an entry with its earlier state; nil if it does not exist. listed reports whether the entry leaves the
// folder's listing unchanged.
func (c *comparison) entry(folder string, was, is *entry) (listed, ok bool) {
	if was != nil && is != nil && was.mode == is.mode {
		name := path.Join(folder, is.name)
		switch {
		case was.hash == is.hash:
		case is.mode == filemode.Dir:
			return true, c.folder(name, was.hash, is.hash)
		case is.mode == filemode.Symlink:
			c.below(name)
		default:
			c.found.At = append(c.found.At, name)
		}
		return true, true
	}
	name, files := "", true
	for _, e := range []*entry{was, is} {
		if e != nil {
			name, files = path.Join(folder, e.name), files && e.mode.IsFile() && e.mode != filemode.Symlink
		}
	}
	if files {
		c.found.At = append(c.found.At, name)
	} else {
		c.below(name)
	}
	return false, true
}

// below records that anything may differ at a name and below it.
func (c *comparison) below(name string) {
	c.found.At, c.found.Below = append(c.found.At, name), append(c.found.Below, name)
}

// known returns the entries of a folder that was read.
func (l *listings) known(hash plumbing.Hash) ([]entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, found := l.of[hash]
	return entries, found
}

// entriesOf returns the entries of a tree by name; there are none for the zero hash.
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

// lookup finds files of trees by their path. It caches the folders that it reads, because thousands of names may be in
// one.
type lookup struct {
	store *store
	known map[plumbing.Hash]map[string]object.TreeEntry
	// entries is the number of entries in known.
	entries int
}

// at returns the file at a path of a tree; nil if there is none. The error may be the context's.
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

// maxKnown limits the cached entries of folders, unless one folder has more.
const maxKnown = 100_000

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
	if l.known == nil || l.entries+len(there) > maxKnown {
		l.known, l.entries = map[plumbing.Hash]map[string]object.TreeEntry{}, 0
	}
	l.known[tree] = there
	l.entries += len(there)
	return there, nil
}

// difference walks the differences between two trees.
type difference struct {
	store   *store
	entries int
	// file is called for each file that differs, with nil if it does not exist. Submodules are not files.
	file func(name string, before, now *object.TreeEntry)
}

// walk compares two trees; the zero hash is an empty tree.
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

// fileIn returns an entry if it is a file or a symlink; otherwise nil.
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
