package source

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

const (
	// maxHops is how many symlinks one name may lead over, as on Linux.
	maxHops = 40
	// maxTarget is the longest target of a symlink, as on Linux.
	maxTarget = 4096
	// maxSteps is how many parts one name may have with those of all targets on its way:
	// forty links could lead through eighty thousand folders, for each file again.
	maxSteps = 1000
)

// walk finds what stands at a name, following the symlinks on the way, and one
// at the end if follow is set.
func (t *tree) walk(op, name string, follow bool) (entry, error) {
	if !fs.ValidPath(name) {
		return entry{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if e, ok := t.direct(op, name); ok {
		return e, nil
	}
	w := walker{tree: t, op: op, name: name, trail: []entry{{name: ".", mode: filemode.Dir, hash: t.root}}}
	steps := 0
	for rest := strings.Split(name, "/"); len(rest) > 0; {
		if steps++; steps > maxSteps && w.hops > 0 {
			return entry{}, w.astray(fmt.Sprintf("is part of a way of more than %d folders", maxSteps))
		}
		part := rest[0]
		rest = rest[1:]
		next, err := w.step(part, follow || len(rest) > 0)
		if err != nil {
			return entry{}, err
		}
		rest = append(next, rest...)
	}
	return w.trail[len(w.trail)-1], nil
}

// direct finds what stands at a name that no symlink is part of; false where one is, or
// where nothing is found. It is what is asked of every input at every commit.
func (t *tree) direct(op, name string) (entry, bool) {
	here := entry{name: ".", mode: filemode.Dir, hash: t.root}
	if name == "." {
		return here, true
	}
	for rest, more := name, true; more; {
		var part string
		part, rest, more = strings.Cut(rest, "/")
		if here.mode != filemode.Dir {
			return entry{}, false
		}
		entries, err := t.folder(op, name, here)
		if err != nil {
			return entry{}, false // who walks says why
		}
		i, ok := find(entries, part)
		if !ok || entries[i].mode == filemode.Symlink {
			return entry{}, false
		}
		here = entries[i]
	}
	return here, true
}

// find is the place of a name in a folder.
func find(entries []entry, name string) (int, bool) {
	return slices.BinarySearchFunc(entries, name, func(e entry, name string) int { return strings.Compare(e.name, name) })
}

// walker goes from the root to a name.
type walker struct {
	tree     *tree
	op, name string
	trail    []entry // from the root to where it stands
	link     string  // the name of the symlink that it followed last
	target   string  // and where that points
	hops     int
}

// step goes one part further. Where the part is a symlink to be followed, it
// stays and returns the parts of its target.
func (w *walker) step(part string, follow bool) ([]string, error) {
	switch part {
	case "", ".":
		return nil, nil
	case "..":
		if len(w.trail) == 1 {
			return nil, w.astray("leads out of the repository")
		}
		w.trail = w.trail[:len(w.trail)-1]
		return nil, nil
	}
	here := w.trail[len(w.trail)-1]
	if !here.isDir() {
		return nil, w.fail(fs.ErrNotExist)
	}
	entries, err := w.tree.folder(w.op, w.name, here)
	if err != nil {
		return nil, err
	}
	i, ok := find(entries, part)
	if !ok {
		return nil, w.fail(fs.ErrNotExist)
	}
	if e := entries[i]; e.mode != filemode.Symlink || !follow {
		w.trail = append(w.trail, e)
		return nil, nil
	}
	return w.turn(entries[i])
}

// turn follows a symlink.
func (w *walker) turn(link entry) ([]string, error) {
	target, err := w.tree.target(w.op, w.name, link)
	if err != nil {
		return nil, err
	}
	w.link, w.target = w.at(link.name), target
	if w.hops++; w.hops > maxHops {
		return nil, w.astray("is part of a chain of symlinks that does not end")
	}
	if path.IsAbs(target) {
		return nil, w.astray("leads out of the repository")
	}
	return strings.Split(target, "/"), nil
}

func (w *walker) fail(err error) error {
	return &fs.PathError{Op: w.op, Path: w.name, Err: err}
}

func (w *walker) astray(reason string) error {
	return w.fail(&SymlinkError{Name: w.link, Target: w.target, Reason: reason})
}

// at is the name from the root of something in the folder where it stands.
func (w *walker) at(name string) string {
	parts := make([]string, 0, len(w.trail)+1)
	for _, e := range w.trail {
		parts = append(parts, e.name)
	}
	return path.Join(append(parts, name)...)
}

// target reads where a symlink points.
func (t *tree) target(op, name string, link entry) (string, error) {
	size, err := t.store.size(link.hash)
	if err != nil {
		return "", t.failed(op, name, link.hash, err)
	}
	if size > maxTarget {
		return "", &fs.PathError{Op: op, Path: name, Err: &LimitError{What: "the target of the symlink " + link.name, Limit: maxTarget}}
	}
	data, err := t.store.blob(link.hash)
	if err != nil {
		return "", t.failed(op, name, link.hash, err)
	}
	return string(data), nil
}
