package render

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// source is a file or kustomization that objects come from.
type source struct {
	// name of a file, or of a folder with a kustomization in it.
	name      string
	kustomize bool
	// listed reports whether a kustomization lists the file, and does not change it.
	listed bool
}

// kustomizationFiles are the file names that kustomize accepts.
var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// walk finds the sources below the entries of nodes.
type walk struct {
	tree *tree
	root string
	// charts is a folder that is skipped; empty if there is none.
	charts string
	// values are files that are skipped as well.
	values  []string
	sources []source
	taken   map[source]bool
	// walked are the visited folders: one entry of nodes may be below another.
	walked map[string]bool
	errs   Errors
	snap   Snapshot
	// warnings are about skipped files, and looked counts those that were opened.
	warnings []string
	looked   int
	// before are the listings of the last render, after those of this one.
	before, after map[string]listing
}

func (w *walk) fail(file, format string, args ...any) {
	w.errs = append(w.errs, Error{File: file, Message: fmt.Sprintf(format, args...)})
}

// entry adds one entry of nodes.
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

// folder adds the files in a folder and below it. If the folder has a kustomization, kustomize decides which files
// belong to it.
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
		// It is not skipped: definitions that were moved into it would look removed.
		w.fail(name,
			"it is a submodule, which is not fetched: put its files into this repository, or list under nodes the folders that have definitions")
	case folder && name == w.charts:
	case folder:
		return w.folder(name, depth+1)
	default:
		w.file(name)
	}
	return nil
}

// file adds a file whose name is that of a definition.
func (w *walk) file(name string) {
	switch {
	case !isDefinition(name) && isDefinition(shown(name)):
		w.fail(redact.VisibleName(name),
			"its name has characters that are not seen, and with them it is no name of a definition: rename it, or remove it")
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

// shown returns a name without invisible characters.
func shown(name string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name))
}

// tree is the Snapshot's file system; it records everything that is read.
type tree struct {
	fsys   fs.FS
	inputs Inputs
	left   *allowance
}

var (
	_ fs.ReadFileFS = (*tree)(nil)
	_ fs.ReadDirFS  = (*tree)(nil)
	_ fs.StatFS     = (*tree)(nil)
)

func newTree(fsys fs.FS, left *allowance) *tree {
	return &tree{fsys: fsys, inputs: Inputs{}, left: left}
}

// branch returns the same tree with a record of its own.
func (t *tree) branch() *tree { return newTree(t.fsys, t.left) }

// Open implements fs.FS: it records the name, too.
func (t *tree) Open(name string) (fs.File, error) {
	if _, err := t.Stat(name); err != nil {
		return nil, err
	}
	return t.fsys.Open(name)
}

// ReadFile reads a file within the limits.
func (t *tree) ReadFile(name string) ([]byte, error) {
	data, err := t.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		t.inputs[name] = absent
	}
	if err != nil {
		return nil, err
	}
	identity, err := identify(t.fsys, name, func() (string, error) { return contentIdentity(data), nil })
	if err != nil {
		return nil, err
	}
	t.inputs[name] = identity
	return data, nil
}

func (t *tree) read(name string) ([]byte, error) {
	file, err := t.fsys.Open(name)
	if errors.Is(err, ErrIrregular) {
		return nil, irregular(name)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, irregular(name)
	}
	if err := t.left.read(name, info.Size()); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, t.left.limits.FileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if int64(len(data)) > t.left.limits.FileBytes {
		return nil, tooLarge(name, t.left.limits.FileBytes)
	}
	if bytes.HasPrefix(data, []byte(lfsPointer)) {
		return nil, Error{File: name, Message: "it is a pointer of Git LFS, which is not fetched: commit the file itself"}
	}
	return data, nil
}

// ErrIrregular is a Snapshot's error for a name that is neither a file nor a folder, such as a named pipe, on which
// opening would wait for another process to write.
var ErrIrregular = errors.New("it is not a regular file")

func irregular(name string) Error { return Error{File: name, Message: ErrIrregular.Error()} }

// lfsPointer is the first text of a file that stands for another one in Git LFS:
// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md#the-pointer
const lfsPointer = "version https://git-lfs.github.com/spec/"

// ReadDir lists a folder.
func (t *tree) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := t.left.list(); err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(t.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		t.inputs[name] = absent
	}
	if err != nil {
		return nil, err
	}
	identity, err := identify(t.fsys, name, func() (string, error) { return listingIdentity(entries), nil })
	if err != nil {
		return nil, err
	}
	t.inputs[name] = identity
	return entries, nil
}

// Stat returns the type of a name. It records only that, not the content.
func (t *tree) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(t.fsys, name)
	_, known := t.inputs[name]
	switch {
	case errors.Is(err, fs.ErrNotExist):
		t.inputs[name] = absent
		return nil, err
	case err != nil:
		return nil, err
	case !known:
		t.inputs[name] = shape(info)
	}
	return info, nil
}

// listing is what is known of a folder with a kustomization.
type listing struct {
	inputs        Inputs
	kustomization *kustomize.Kustomization
	// err is why it could not be read; it is reported as one of the folder's errors.
	err error
}

// kustomization adds a folder with a kustomization: as single files if it only lists files, so that each is cached
// separately and errors have their lines, otherwise as a folder to build.
func (w *walk) kustomization(folder string) error {
	found, known := w.before[folder]
	if known {
		unchanged, err := found.inputs.Unchanged(w.snap)
		if err != nil {
			return err
		}
		known = unchanged && found.err == nil
	}
	if !known {
		files := w.tree.branch()
		found = listing{}
		found.kustomization, found.err = kustomize.Read(files, folder)
		found.inputs = files.inputs
	}
	w.after[folder] = found
	w.tree.inputs.add(found.inputs)
	if found.err == nil {
		if names, ok := found.kustomization.Files(); ok {
			for _, name := range names {
				w.add(source{name: name, listed: true})
			}
			return nil
		}
	}
	w.add(source{name: folder, kustomize: true})
	return nil
}

// drawn is a tree that a build reads. It checks the files that define objects, because kustomize ignores those without
// any.
type drawn struct {
	*tree

	kustomization *kustomize.Kustomization
	resources     map[string]bool
	// defined are the objects in the files of resources, by file.
	defined  map[string][]definedAs
	errs     Errors
	warnings []string
}

// ReadFile reads a file, and checks what kustomize does not report.
func (d *drawn) ReadFile(name string) ([]byte, error) {
	data, err := d.tree.ReadFile(name)
	isResource, known := d.resources[name]
	if err != nil || known && !isResource {
		return data, err
	}
	d.resources[name] = false // once: a build reads some files again
	if known {
		d.checkResource(name, data)
	} else {
		d.checkOtherFile(name, data)
	}
	return data, nil
}

// checkOtherFile checks a file that is not a resource: usually a patch.
func (d *drawn) checkOtherFile(name string, data []byte) {
	switch {
	case d.kustomization.IsPatch(name) && (isEmptied(data) || isNull(name, data)):
		d.errs = append(d.errs, Error{
			File: name, Message: "the patch is empty, and what it set would be reverted: restore its text, or remove it from the kustomization",
		})
	case d.kustomization.IsPatch(name) && onlyComments(data):
		d.warnings = append(d.warnings, redact.VisibleName(name)+": the patch has only comments or empty documents: what it set counts as removed; remove it from the kustomization if that is meant")
	case !kustomize.IsKustomization(name):
		if why := kustomize.WhyReserved(data); why != "" {
			d.errs = append(d.errs, Error{File: name, Message: why})
		}
	}
}

// checkResource checks a file that defines objects.
func (d *drawn) checkResource(name string, data []byte) {
	switch {
	case isEmptied(data):
		d.errs = append(d.errs, emptied(name))
	case onlyComments(data):
		d.warnings = append(d.warnings, withoutDefinition(name))
	default:
		if documents, err := parse(name, data); err == nil { // otherwise kustomize reports what is wrong
			drafts := draftsOf(name, documents)
			d.errs = append(append(d.errs, refuseLocal(drafts)...), refuseEmpty(name, documents)...)
			d.define(name, drafts)
		}
	}
}

// definedAs identifies an object in a file.
type definedAs struct{ apiVersion, kind, name string }

func nameOf(value any) definedAs {
	object, _ := value.(map[string]any)
	var as definedAs
	as.apiVersion, _ = object["apiVersion"].(string)
	as.kind, _ = object["kind"].(string)
	as.name, _, _ = unstructured.NestedString(object, "metadata", "name")
	return as
}

// define records the objects of a file.
func (d *drawn) define(file string, drafts []draft) {
	if d.defined == nil {
		d.defined = map[string][]definedAs{}
	}
	for _, one := range drafts {
		d.defined[file] = append(d.defined[file], nameOf(one.value))
	}
}

// has reports whether a file defines an object, possibly under a part of the name that the build gave it.
func (d *drawn) has(file string, object definedAs) bool {
	return slices.ContainsFunc(d.defined[file], func(as definedAs) bool {
		return as.apiVersion == object.apiVersion && as.kind == object.kind && strings.Contains(object.name, as.name)
	})
}

// fileOf returns the file that defines an object; the kustomization's if the file it claims does not define it.
func (d *drawn) fileOf(made kustomize.Resource) string {
	if !d.has(made.File, nameOf(made.Object)) {
		return d.kustomization.File()
	}
	return made.File
}

// refuseChanged refuses objects of other kinds that are left out and that no file defines: they may have been
// definitions, and a missing definition counts as a removal.
func (d *drawn) refuseChanged(leftOut []draft, why string) Errors {
	var errs Errors
	for _, one := range leftOut {
		as := nameOf(one.value)
		_, refusal := classify(as.apiVersion, as.kind)
		if refusal == "" || d.has(one.origin.File, as) || d.kustomization.Generates(as.apiVersion, as.kind, as.name) {
			continue
		}
		errs = append(errs, Error{
			File: one.origin.File,
			Message: fmt.Sprintf("%s/%s %s, and no file has this %s: where the build changes a definition's kind, its nodes would be drained; remove what changes it",
				as.kind, as.name, why, as.kind),
		})
	}
	return errs
}
