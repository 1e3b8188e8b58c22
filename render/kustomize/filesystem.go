package kustomize

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/plumbline-dev/plumbline/render/document"
)

var errReadOnly = errors.New("the file system is read-only")

// locked presents an fs.FS to kustomize as a disk with the same root and nothing else on it.
type locked struct {
	fsys fs.FS
	// instead are files whose content differs from the file system's.
	instead map[string][]byte
	// failure is the first read error other than a missing file: kustomize treats every error as a missing file.
	failure error
}

var _ filesys.FileSystem = (*locked)(nil)

// inside converts a path of kustomize into one of the fs.FS. The parent of the root is the root.
func inside(name string) string {
	cleaned := strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(name)), "/")
	if cleaned == "" {
		return "."
	}
	return cleaned
}

func (l *locked) ReadFile(name string) ([]byte, error) {
	at := inside(name)
	if text, ok := l.instead[at]; ok {
		return text, nil
	}
	data, err := fs.ReadFile(l.fsys, at)
	if err == nil {
		err = readable(at, data)
	}
	if err != nil {
		if !l.IsDir(name) {
			l.note(err)
		}
		return nil, err
	}
	return data, nil
}

// note keeps the first error other than a missing file.
func (l *locked) note(err error) {
	if l.failure == nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		l.failure = err
	}
}

func (l *locked) stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(l.fsys, inside(name))
	if err != nil {
		l.note(err)
	}
	return info, err
}

func (l *locked) IsDir(name string) bool {
	info, err := l.stat(name)
	return err == nil && info.IsDir()
}

func (l *locked) Exists(name string) bool {
	_, err := l.stat(name)
	return err == nil
}

func (l *locked) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	at := inside(name)
	info, err := l.stat(at)
	if err != nil {
		return "", "", err
	}
	full := path.Join("/", at)
	if info.IsDir() {
		return filesys.ConfirmedDir(full), "", nil
	}
	return filesys.ConfirmedDir(path.Dir(full)), path.Base(full), nil
}

func (l *locked) ReadDir(name string) ([]string, error) {
	entries, err := fs.ReadDir(l.fsys, inside(name))
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, nil
}

func (l *locked) Open(name string) (filesys.File, error) {
	return nil, fmt.Errorf("open %s: %w", name, errReadOnly)
}

func (l *locked) Glob(pattern string) ([]string, error) {
	return nil, fmt.Errorf("match %s: patterns are not supported", pattern)
}

func (l *locked) Walk(name string, _ filepath.WalkFunc) error {
	return fmt.Errorf("walk %s: not supported", name)
}

func (l *locked) Create(name string) (filesys.File, error) {
	return nil, fmt.Errorf("create %s: %w", name, errReadOnly)
}

func (l *locked) Mkdir(name string) error { return fmt.Errorf("make %s: %w", name, errReadOnly) }

func (l *locked) MkdirAll(name string) error { return fmt.Errorf("make %s: %w", name, errReadOnly) }

func (l *locked) RemoveAll(name string) error { return fmt.Errorf("remove %s: %w", name, errReadOnly) }

func (l *locked) WriteFile(name string, _ []byte) error {
	return fmt.Errorf("write %s: %w", name, errReadOnly)
}

// maxKustomizations limits the folders that one build may use. A folder that several others use counts as often as
// kustomize builds it: two that use two that use two, and so on, soon are millions.
const maxKustomizations = 1000

// guard walks the kustomizations that a build would read, before the build.
type guard struct {
	fsys *locked
	// builds is how many folders kustomize builds for each folder.
	builds   map[string]int
	refusals []Refusal
	// kustomizations are those that were read, by folder.
	kustomizations map[string]*types.Kustomization
	// resources are the files under their resources.
	resources map[string]bool
	// patches are the files that they use as patches.
	patches map[string]bool
	// ownTypes reports whether a kustomization has an OpenAPI schema of its own.
	ownTypes bool
}

func newGuard(files *locked) *guard {
	return &guard{
		fsys: files, builds: map[string]int{}, kustomizations: map[string]*types.Kustomization{}, resources: map[string]bool{},
		patches: map[string]bool{},
	}
}

// folder checks the kustomization of a folder and those it uses. It returns its file.
func (g *guard) folder(name string) string {
	if g.builds[name] > 0 {
		return ""
	}
	g.builds[name] = 1
	file, data := g.read(name)
	if file == "" {
		g.refuse(name, 0, "the folder", "it has no kustomization.yaml")
		return ""
	}
	if len(g.builds) > maxKustomizations {
		g.refuseMany(file)
		return ""
	}
	c := g.decode(name, file, data)
	if c == nil {
		return ""
	}
	g.kustomizations[name] = c.kustomization
	c.check()
	for _, next := range c.folders {
		g.folder(next)
		g.builds[name] += g.builds[next]
	}
	if g.builds[name] > maxKustomizations {
		g.refuseMany(file)
		g.builds[name] = 1 // reported once, not for each folder that uses it
	}
	return file
}

func (g *guard) refuseMany(file string) {
	g.refuse(file, 0, "the file",
		fmt.Sprintf("more than %d kustomizations would be built for it, those that several draw upon once for each", maxKustomizations))
}

// read returns the kustomization under any of the names that kustomize accepts.
func (g *guard) read(folder string) (string, []byte) {
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		name := path.Join(folder, base)
		if data, err := g.fsys.ReadFile(name); err == nil {
			return name, data
		}
	}
	return "", nil
}

// decode decodes the text as kustomize does, so that no other spelling of a field bypasses the checks: kustomize
// ignores case.
func (g *guard) decode(folder, file string, data []byte) *checker {
	documents, err := document.Parse(data)
	if err != nil {
		line := 0
		var unreadable *document.Error
		if errors.As(err, &unreadable) {
			line = unreadable.Line
		}
		g.refuse(file, line, "the file", err.Error())
		return nil
	}
	c := &checker{guard: g, folder: folder, file: file, kustomization: &types.Kustomization{}}
	if len(documents) > 0 {
		c.lineOf = documents[0].LineOf
	}
	if err := c.kustomization.Unmarshal(data); err != nil {
		g.refuse(file, 0, "the file", strings.ReplaceAll(err.Error(), "\n", " "))
		return nil
	}
	c.kustomization.FixKustomization()
	return c
}

func (g *guard) refuse(file string, line int, field, why string) {
	g.refusals = append(g.refusals, Refusal{File: file, Line: line, Field: field, Why: why})
}

// isFolder reports whether a reference is to a folder.
func (g *guard) isFolder(name string) bool {
	return g.fsys.IsDir(name)
}

// listed returns the files that a folder's kustomization lists; none if it does more than that.
func listed(g *guard, folder string) []string {
	l := &listing{guard: g, seen: map[string]bool{}}
	if !l.folder(folder) {
		return nil
	}
	return l.files
}

// listing collects files from kustomizations that have been read.
type listing struct {
	guard *guard
	seen  map[string]bool
	files []string
}

// folder reports whether a folder's kustomization only lists files. It is false for duplicates, so that kustomize
// reports them.
func (l *listing) folder(name string) bool {
	k := l.guard.kustomizations[name]
	if k == nil || l.seen[name] || !onlyLists(k) || !l.onlyOne(name) {
		return false
	}
	l.seen[name] = true
	for _, resource := range k.Resources {
		at := path.Join(name, resource)
		if l.guard.kustomizations[at] != nil {
			if !l.folder(at) {
				return false
			}
			continue
		}
		if l.seen[at] || l.guard.isFolder(at) {
			return false
		}
		l.seen[at] = true
		l.files = append(l.files, at)
	}
	return true
}

// onlyOne reports whether a folder has one kustomization: kustomize refuses two.
func (l *listing) onlyOne(folder string) bool {
	found := 0
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		if l.guard.fsys.Exists(path.Join(folder, base)) {
			found++
		}
	}
	return found == 1
}

// onlyLists reports whether a kustomization contains nothing but resources.
func onlyLists(k *types.Kustomization) bool {
	rest := *k
	rest.TypeMeta, rest.MetaData, rest.Resources = types.TypeMeta{}, nil, nil
	return k.Kind == types.KustomizationKind && reflect.DeepEqual(rest, types.Kustomization{})
}

// IsKustomization reports whether kustomize builds a file of this name.
func IsKustomization(name string) bool {
	return slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name))
}

// Which objects kustomize leaves out is known only at the end of a build, and not from its text: a map that is copied,
// or a list of fields, may add the annotation. So nothing is left out: the last transformer renames LocalAnnotation,
// and the objects that have it are marked.

const (
	// heldAnnotation has the value of LocalAnnotation until an object is read.
	heldAnnotation = "plumbline.dev/local-config"
	holdName       = "plumbline-hold-local-config"
	// transformations lists the transformers that changed an object, if this is enabled:
	// api/internal/utils/annotations.go.
	transformations = "alpha.config.kubernetes.io/transformations"
)

// prepared returns a kustomization with which kustomize adds the origin to each object, and leaves none out. Those with
// transformers of their own are refused.
func prepared(kustomization *types.Kustomization) ([]byte, error) {
	asking := *kustomization
	if !slices.Contains(asking.BuildMetadata, types.OriginAnnotations) {
		asking.BuildMetadata = append(slices.Clone(asking.BuildMetadata), types.OriginAnnotations)
	}
	hold, err := json.Marshal(map[string]any{
		"apiVersion": "builtin", "kind": "PatchTransformer", "metadata": map[string]any{"name": holdName},
		"target": map[string]any{"annotationSelector": LocalAnnotation},
		"patch":  `[{"op": "move", "from": "` + pointer(LocalAnnotation) + `", "path": "` + pointer(heldAnnotation) + `"}]`,
	})
	if err != nil {
		return nil, err
	}
	asking.Transformers = []string{string(hold)}
	return json.Marshal(asking)
}

// pointer returns the JSON pointer to an annotation.
func pointer(annotation string) string {
	return "/metadata/annotations/" + strings.ReplaceAll(annotation, "/", "~1")
}

// release removes what prepared has added to an object's annotations, and reports whether kustomize would have left the
// object out.
func release(annotations map[string]any) (local bool) {
	if list, ok := annotations[transformations].(string); ok {
		if last := strings.LastIndex("\n"+list, "\n- "); last >= 0 && strings.Contains(list[last:], holdName) {
			annotations[transformations] = list[:last]
		}
		if annotations[transformations] == "" {
			delete(annotations, transformations)
		}
	}
	held, ok := annotations[heldAnnotation]
	if !ok {
		return false
	}
	delete(annotations, heldAnnotation)
	annotations[LocalAnnotation] = held
	return held != "false"
}
