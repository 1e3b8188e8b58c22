package source

import (
	"io/fs"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/plumbline-dev/plumbline/render"
)

var _ render.Compared = (*tree)(nil)

// Since says where this commit may differ from another one, by the hashes of their folders:
// what is below two equal ones is not looked at. Of the other commit only those folders are
// known that were read while it was the newest: nothing below the others was asked for.
func (t *tree) Since(before fs.FS) (render.Difference, bool) {
	old, ok := before.(*tree)
	if !ok {
		return render.Difference{}, false
	}
	c := comparison{now: t, before: old}
	known := c.folder(".", old.root, t.root)
	return c.found, known
}

// Direct says whether a name leads over no symlink, whether or not anything stands there.
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

// mostDiffering is the number of places beyond which it costs as much to look everywhere.
const mostDiffering = 1000

// comparison is the work of one Since.
type comparison struct {
	now, before *tree
	// reads says that folders of the earlier commit are read, too.
	reads bool
	found render.Difference
}

// folder compares a folder with what it was; false where that is not known, or is too much.
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
		if !ok || len(c.found.At) > mostDiffering {
			return false
		}
		listed = listed && same
	}
	if !listed {
		c.found.At = append(c.found.At, name)
	}
	return true
}

// earlier are the entries that a folder had, where they are known.
func (c *comparison) earlier(name string, folder plumbing.Hash) ([]entry, bool) {
	entries, known := c.before.listings.known(folder)
	if known || !c.reads {
		return entries, known
	}
	entries, err := c.before.folder("compare", name, entry{mode: filemode.Dir, hash: folder})
	return entries, err == nil
}

// first says which of two sorted lists has the name that comes first: negative for the one before,
// 0 for both.
func first(before, now []entry) int {
	switch {
	case len(before) == 0:
		return 1
	case len(now) == 0:
		return -1
	}
	return strings.Compare(before[0].name, now[0].name)
}

// entry compares an entry with what it was; nil for one that is not there. listed says whether
// the folder's listing is the same by it.
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

// below notes that anything may differ at a name and below it.
func (c *comparison) below(name string) {
	c.found.At, c.found.Below = append(c.found.At, name), append(c.found.Below, name)
}

// known are the entries of a folder that was read.
func (l *listings) known(hash plumbing.Hash) ([]entry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, found := l.of[hash]
	return entries, found
}
