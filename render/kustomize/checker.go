package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// checker checks the fields of one kustomization.
type checker struct {
	guard         *guard
	folder, file  string
	kustomization *types.Kustomization
	lineOf        func(path string) int
	// folders are the kustomizations that it uses.
	folders []string
}

func (c *checker) check() {
	c.programs()
	k := c.kustomization
	c.each("resources", k.Resources)
	for _, reference := range k.Resources {
		if name := path.Join(c.folder, reference); !c.guard.isFolder(name) {
			c.guard.resources[name] = true
		}
	}
	c.reserved("commonAnnotations", slices.Collect(maps.Keys(k.CommonAnnotations))...)
	c.each("components", k.Components)
	c.each("crds", k.Crds)
	c.each("configurations", k.Configurations)
	for i, patch := range k.Patches {
		c.patch(fmt.Sprintf("patches[%d].path", i), patch.Path)
		c.inline(fmt.Sprintf("patches[%d].patch", i), patch.Patch)
	}
	for i, patch := range k.PatchesJson6902 { //nolint:staticcheck // deprecated, and still loaded
		c.patch(fmt.Sprintf("patchesJson6902[%d].path", i), patch.Path)
		c.inline(fmt.Sprintf("patchesJson6902[%d].patch", i), patch.Patch)
	}
	for i, patch := range k.PatchesStrategicMerge { //nolint:staticcheck // deprecated, and still loaded
		c.strategicMerge(fmt.Sprintf("patchesStrategicMerge[%d]", i), string(patch))
	}
	for i, replacement := range k.Replacements {
		c.path(fmt.Sprintf("replacements[%d].path", i), replacement.Path)
		for j, target := range replacement.Targets {
			for l, at := range target.FieldPaths {
				c.reserved(fmt.Sprintf("replacements[%d].targets[%d].fieldPaths[%d]", i, j, l), at)
			}
		}
	}
	for i, generator := range k.ConfigMapGenerator {
		c.generated(fmt.Sprintf("configMapGenerator[%d]", i), generator.KvPairSources)
	}
	for i, generator := range k.SecretGenerator {
		c.generated(fmt.Sprintf("secretGenerator[%d]", i), generator.KvPairSources)
	}
	if own, ok := k.OpenAPI["path"]; ok {
		c.guard.ownTypes = true
		c.path("openapi.path", own)
	}
}

// programs refuses the fields that run something.
func (c *checker) programs() {
	k := c.kustomization
	for _, field := range []struct {
		name  string
		given bool
	}{
		{"generators", len(k.Generators) > 0},
		{"transformers", len(k.Transformers) > 0},
		{"validators", len(k.Validators) > 0},
		{"helmCharts", len(k.HelmCharts) > 0},
		{"helmChartInflationGenerator", len(k.HelmChartInflationGenerator) > 0},
		{"helmGlobals", k.HelmGlobals != nil},
	} {
		if field.given {
			c.refuse(field.name, "a render runs no plugin and no chart: write out what it would make")
		}
	}
}

func (c *checker) refuse(field, why string) {
	line := 0
	if c.lineOf != nil {
		line = c.lineOf(field)
	}
	c.guard.refuse(c.file, line, field, why)
}

func (c *checker) each(field string, references []string) {
	for i, reference := range references {
		c.path(fmt.Sprintf("%s[%d]", field, i), reference)
	}
}

// path checks a reference, and queues the folder if it is one.
func (c *checker) path(field, reference string) {
	if reference == "" {
		return
	}
	if why := checkReference(c.guard.fsys, c.folder, reference); why != "" {
		c.refuse(field, why)
		return
	}
	if name := path.Join(c.folder, reference); c.guard.isFolder(name) {
		c.folders = append(c.folders, name)
	}
}

// inline checks an inline patch.
func (c *checker) inline(field, patch string) {
	if err := readable(c.file, []byte(patch)); err != nil {
		c.refuse(field, err.Error())
	}
	if why := WhyReserved([]byte(patch)); why != "" {
		c.refuse(field, why)
	}
}

// reserved refuses names and paths that lead to a reserved annotation.
func (c *checker) reserved(field string, names ...string) {
	if why := whyReserved(names...); why != "" {
		c.refuse(field, why)
	}
}

// patch checks a patch file.
func (c *checker) patch(field, reference string) {
	c.path(field, reference)
	c.guard.patches[path.Join(c.folder, reference)] = true
}

// strategicMerge checks an inline patch or a patch file.
func (c *checker) strategicMerge(field, patch string) {
	if strings.ContainsAny(patch, "\n{") {
		c.inline(field, patch)
		return
	}
	c.patch(field, patch)
}

// generated checks the files that keys and values are read from.
func (c *checker) generated(field string, sources types.KvPairSources) {
	for i, source := range sources.FileSources {
		_, file, named := strings.Cut(source, "=")
		if !named {
			file = source
		}
		c.path(fmt.Sprintf("%s.files[%d]", field, i), file)
	}
	for i, source := range sources.EnvSources {
		c.path(fmt.Sprintf("%s.envs[%d]", field, i), source)
	}
	c.path(field+".env", sources.EnvSource)
}

// remote matches everything that kustomize may treat as remote. It is wider than kustomize's own rule
// (api/internal/git/repospec.go, and api/internal/loader/fileloader.go for plain URLs), which tries a clone before it
// looks for a folder of that name.
var remote = regexp.MustCompile(`(?i)^[a-z][a-z0-9+.-]*:|^[^/]*@|^github\.com[/:]|^git::|://|\?|_git/|\.git(/|$)`)

// checkReference returns why a reference to a file or folder is refused, or "".
func checkReference(files *locked, folder, reference string) string {
	name := path.Join(folder, reference)
	switch {
	case remote.MatchString(reference):
		return quote(reference) + " is not in this repository: copy it in, or fetch it another way; a render opens no connection"
	case strings.HasPrefix(reference, "/"):
		return quote(reference) + " is an absolute path: write it from the folder of this file"
	case name == ".." || strings.HasPrefix(name, "../"):
		return quote(reference) + " leads out of the repository"
	}
	if !files.Exists(name) {
		return quote(reference) + " is not in the repository"
	}
	return ""
}

func quote(text string) string {
	if runes := []rune(text); len(runes) > 100 {
		text = string(runes[:99]) + "…"
	}
	return `"` + text + `"`
}

// readable refuses text that parses differently than a person reads it, and text that exceeds the memory once kustomize
// expands its aliases.
func readable(name string, data []byte) error {
	var unreadable *weigh.Error
	if err := weigh.Breaks(data); errors.As(err, &unreadable) {
		return Refusal{File: name, Line: unreadable.Line, Field: "the file", Why: unreadable.Message}
	}
	if err := weigh.YAML(data); err != nil {
		return Refusal{File: name, Field: "the file", Why: err.Error()}
	}
	return nil
}

// remoteFiles is the parent's file system as a child sees it. It requests each name once.
type remoteFiles struct {
	talk  *confine.Talk
	known map[string]*remoteFile
}

var (
	_ fs.ReadFileFS = (*remoteFiles)(nil)
	_ fs.ReadDirFS  = (*remoteFiles)(nil)
	_ fs.StatFS     = (*remoteFiles)(nil)
)

// remoteFile is the parent's reply about a name.
type remoteFile struct {
	there, folder bool
	data          *string
	names         []any
}

// request sends a request unless the reply is cached. Existence checks do not read the file: the parent records them as
// different inputs.
func (r *remoteFiles) request(ask, name string) (*remoteFile, error) {
	known := r.known[name]
	switch {
	case known == nil:
	case !known.there, ask == askStat, ask == askRead && known.data != nil, ask == askList && known.names != nil:
		return known, nil
	}
	if err := r.talk.Send(map[string]any{"ask": ask, "name": name}); err != nil {
		return nil, err
	}
	message, err := r.talk.Receive()
	if err != nil {
		return nil, err
	}
	said, _ := message.(map[string]any)
	f := &remoteFile{}
	f.there, _ = said["there"].(bool)
	f.folder, _ = said["folder"].(bool)
	f.names, _ = said["names"].([]any)
	if data, ok := said["data"].(string); ok {
		f.data = &data
	}
	r.known[name] = f
	return f, nil
}

// ReadFile reads a file.
func (r *remoteFiles) ReadFile(name string) ([]byte, error) {
	f, err := r.request(askRead, name)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	case !f.there:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fs.ErrNotExist}
	case f.data == nil:
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	return []byte(*f.data), nil
}

// ReadDir lists a folder. The entries know only their names.
func (r *remoteFiles) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := r.request(askList, name)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "list", Path: name, Err: err}
	case !f.there:
		return nil, &fs.PathError{Op: "list", Path: name, Err: fs.ErrNotExist}
	}
	entries := make([]fs.DirEntry, 0, len(f.names))
	for _, one := range f.names {
		base, _ := one.(string)
		entries = append(entries, fs.FileInfoToDirEntry(remoteInfo{name: base}))
	}
	return entries, nil
}

// Stat reports whether a name is a file or a folder.
func (r *remoteFiles) Stat(name string) (fs.FileInfo, error) {
	f, err := r.request(askStat, name)
	switch {
	case err != nil:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	case !f.there:
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return remoteInfo{name: path.Base(name), folder: f.folder}, nil
}

// Open implements fs.FS: kustomize opens nothing.
func (r *remoteFiles) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: errors.ErrUnsupported}
}

// remoteInfo is what is known of a file.
type remoteInfo struct {
	name   string
	folder bool
}

func (i remoteInfo) Name() string       { return i.name }
func (i remoteInfo) Size() int64        { return 0 }
func (i remoteInfo) ModTime() time.Time { return time.Time{} }
func (i remoteInfo) IsDir() bool        { return i.folder }
func (i remoteInfo) Sys() any           { return nil }

func (i remoteInfo) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

// unmatched returns warnings about the kustomization's patches that change nothing because no object matches their
// target. kustomize does not report them. A patch may itself change what its target selects, or delete the object; so
// if a target matches none of the built objects, they are built again with only the resources, under their names
// without a prefix.
func (w work) unmatched(files *locked, made resmap.ResMap) ([]string, error) {
	var own types.Kustomization
	if err := yaml.Unmarshal(w.text, &own); err != nil {
		return nil, fmt.Errorf("read the kustomization: %w", err)
	}
	patches := slices.Concat(own.Patches, own.PatchesJson6902) //nolint:staticcheck // repositories still use the deprecated field
	missed := w.missing(made, patches)
	if len(missed) == 0 {
		return nil, nil
	}
	bare := types.Kustomization{
		TypeMeta: own.TypeMeta, Resources: own.Resources, Components: own.Components, Crds: own.Crds, OpenAPI: own.OpenAPI,
		Configurations: own.Configurations,
	}
	text, err := yaml.Marshal(bare)
	if err != nil {
		return nil, fmt.Errorf("write the kustomization without its patches: %w", err)
	}
	files.instead = map[string][]byte{w.file: text}
	before, err := w.run(files)
	if err != nil {
		return nil, nil //nolint:nilerr // a later step needs what a patch adds: then it is not known what a target matches
	}
	var warnings []string
	for _, p := range w.missing(before, missed) {
		warnings = append(warnings,
			fmt.Sprintf("%s: a patch changes nothing: no object matches its target %s", path.Clean(w.file), target(p.Target)))
	}
	return warnings, nil
}

// missing returns the patches whose target matches no object. kustomize also matches the name that an object had in a
// base: if a base changes names, that name is lost, and any object whose name contains the target's matches.
func (w work) missing(made resmap.ResMap, patches []types.Patch) []types.Patch {
	return slices.DeleteFunc(slices.Clone(patches), func(p types.Patch) bool {
		if p.Target == nil {
			return true // kustomize itself refuses one that matches nothing
		}
		wanted, name := *p.Target, p.Target.Name
		if w.renamed {
			wanted.Name = ""
		}
		found, err := made.Select(wanted)
		return err != nil || slices.ContainsFunc(found, func(r *resource.Resource) bool {
			matches, err := regexp.MatchString(name, r.GetName())
			return !w.renamed || matches || err != nil
		})
	})
}

// target formats a selector for messages.
func target(s *types.Selector) string {
	var parts []string
	for _, part := range [][2]string{
		{"group", s.Group},
		{"version", s.Version},
		{"kind", s.Kind},
		{"name", s.Name},
		{"namespace", s.Namespace},
		{"labelSelector", s.LabelSelector},
		{"annotationSelector", s.AnnotationSelector},
	} {
		if part[1] != "" {
			parts = append(parts, part[0]+": "+part[1])
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
