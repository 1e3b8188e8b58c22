package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/plumbline-dev/plumbline/redact"
)

// source is one thing that objects come from.
type source struct {
	// name of a file, or of a folder with a kustomization in it.
	name      string
	kustomize bool
	// listed says that a kustomization lists the file, and does no more with it.
	listed bool
}

// kustomizationFiles are the names that kustomize knows its file by.
var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// walk finds the sources below the entries of nodes.
type walk struct {
	tree *tree
	root string
	// charts is a folder that is passed over; empty: there is none.
	charts string
	// values are files that are passed over, as well.
	values  []string
	sources []source
	taken   map[source]bool
	// walked are the folders that were: entries of nodes may be below each other.
	walked map[string]bool
	errs   Errors
	snap   Snapshot
	// warnings are about files that are passed over, and looked how many of them were looked into.
	warnings []string
	looked   int
	// before are the listings of the last render, after those of this one.
	before, after map[string]listing
}

func (w *walk) fail(file, format string, args ...any) {
	w.errs = append(w.errs, Error{File: file, Message: fmt.Sprintf(format, args...)})
}

// entry takes one entry of nodes.
func (w *walk) entry(entry string) error {
	name := path.Join(w.root, entry)
	info, err := w.tree.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w.fail(path.Join(w.root, FileName), "nodes entry %q is not in the repository", entry)
		return nil
	case err != nil:
		return fmt.Errorf("look at %s: %w", name, err)
	case isSubmodule(info):
		w.fail(path.Join(w.root, FileName), "nodes entry %q is a submodule, which is not fetched: put its files into this repository", entry)
		return nil
	case info.IsDir():
		return w.folder(name, 0)
	default:
		w.add(source{name: name})
		return nil
	}
}

func (w *walk) add(s source) {
	if !w.taken[s] {
		w.taken[s] = true
		w.sources = append(w.sources, s)
	}
}

// folder takes the files in a folder and below it; a folder with a
// kustomization is built by kustomize, which then says what belongs to it.
func (w *walk) folder(name string, depth int) error {
	if depth > w.tree.left.limits.Depth {
		return fmt.Errorf("%w: folders nest deeper than %d at %s", errLimit, depth-1, name)
	}
	if w.walked[name] {
		return nil
	}
	w.walked[name] = true
	entries, err := w.tree.ReadDir(name)
	if err != nil {
		return fmt.Errorf("list %s: %w", name, err)
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return slices.Contains(kustomizationFiles, e.Name()) }) {
		return w.kustomization(name)
	}
	for _, entry := range entries {
		w.unread(path.Join(name, entry.Name()), entry, 0)
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if err := w.child(path.Join(name, entry.Name()), entry, depth); err != nil {
			return err
		}
	}
	return nil
}

func (w *walk) child(name string, entry fs.DirEntry, depth int) error {
	folder := entry.IsDir()
	if entry.Type()&fs.ModeSymlink != 0 {
		info, err := w.tree.Stat(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("look at %s: %w", name, err)
		}
		if info == nil || info.IsDir() {
			w.fail(name, "it is a symbolic link that leads to no file: name what it leads to under nodes, or remove it")
			return nil
		}
		folder = false
	}
	switch {
	case isSubmodule(entry):
		// Not passed over: definitions that were moved into it would look removed.
		w.fail(name, "it is a submodule, which is not fetched: put its files into this repository, or list under nodes the folders that have definitions")
	case folder && name == w.charts:
	case folder:
		return w.folder(name, depth+1)
	default:
		w.file(name)
	}
	return nil
}

// file takes a file that has definitions by its name.
func (w *walk) file(name string) {
	switch {
	case !isDefinition(name) && isDefinition(shown(name)):
		w.fail(redact.VisibleName(name), "its name has characters that are not seen, and with them it is no name of a definition: rename it, or remove it")
	case !isDefinition(name), slices.Contains(w.values, name):
	case path.Base(name) == FileName && path.Dir(name) == w.root:
	case path.Base(name) == FileName:
		w.fail(name, "a second %s below %s: say under nodes which folders belong to the upper one", FileName, w.root)
	default:
		w.add(source{name: name})
	}
}

func isDefinition(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	default:
		return false
	}
}

// shown is a name as a person reads it.
func shown(name string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
}
