package kustomize

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/render/document"
)

// Resource is one object that a build makes.
type Resource struct {
	Object map[string]any
	// File that the object itself says it was first written in, from the root of the file
	// system. A build can make it say anything.
	File string
	// Local reports whether kustomize would leave it out, by LocalAnnotation.
	Local bool
}

// Build makes the objects of the kustomization, in a child process of runner, or in this
// one where that is nil. The file system is the one that it was read from, or another
// with the same files of its own. The warnings are sentences about patches that change nothing. Errors: *RefusedError, *BuildError, that of the
// file system, or one of the Runner.
func (k *Kustomization) Build(ctx context.Context, runner *confine.Runner, fsys fs.FS) (resources []Resource, warnings []string, err error) {
	if len(k.refusals) > 0 {
		return nil, nil, &RefusedError{Refusals: k.refusals}
	}
	own := k.read[k.folder]
	if err := own.CheckEmpty(); err != nil {
		return nil, nil, &BuildError{File: k.file, Err: err}
	}
	text, err := prepared(own)
	if err != nil {
		return nil, nil, &BuildError{File: k.file, Err: err}
	}
	w := work{
		folder: k.folder, file: k.file, text: text, ownTypes: k.ownTypes,
		keepOrigins: slices.Contains(own.BuildMetadata, types.OriginAnnotations),
	}
	for folder, drawn := range k.read {
		w.renamed = w.renamed || folder != k.folder && drawn.NamePrefix+drawn.NameSuffix != ""
	}
	files := &locked{fsys: fsys}
	if runner == nil {
		resources, warnings, err = w.here(files)
	} else {
		resources, warnings, err = w.confined(ctx, runner, files)
	}
	if files.failure != nil {
		return nil, nil, files.failure
	}
	return resources, warnings, err
}

// work is one build, as plain data.
type work struct {
	folder string
	// file is the kustomization of the folder, and text what is built in its place.
	file string
	text []byte
	// ownTypes reports whether it brings its own OpenAPI.
	ownTypes bool
	// keepOrigins reports whether objects keep the annotation that tells where they are from.
	keepOrigins bool
	// renamed reports whether a base gives its objects other names.
	renamed bool
}

// one lets one build run at a time: kustomize keeps types in package variables,
// and two builds at once are a data race
// (https://github.com/kubernetes-sigs/kustomize/issues/3659).
var one sync.Mutex

// here builds in this process.
func (w work) here(files *locked) (resources []Resource, warnings []string, err error) {
	warnings, err = w.build(files, func(r Resource) error {
		resources = append(resources, r)
		return nil
	})
	return resources, warnings, err
}

// build hands out what kustomize makes, object by object. Errors: *BuildError, and those
// of made.
func (w work) build(files *locked, made func(Resource) error) (warnings []string, err error) {
	files.instead = map[string][]byte{w.file: w.text}
	all, err := w.run(files)
	if err != nil {
		return nil, &BuildError{File: w.file, Err: err}
	}
	if warnings, err = w.unmatched(files, all); err != nil {
		return nil, &BuildError{File: w.file, Err: err}
	}
	for _, r := range all.Resources() {
		one, err := read(r, w.folder, w.keepOrigins)
		if err != nil {
			return nil, &BuildError{File: w.file, Err: err}
		}
		if err := made(one); err != nil {
			return nil, err
		}
	}
	return warnings, nil
}

func (w work) run(files *locked) (resmap.ResMap, error) {
	one.Lock()
	defer one.Unlock()
	if w.ownTypes {
		// A later build would go on with these types.
		defer openapi.ResetOpenAPI()
	}
	options := krusty.MakeDefaultOptions()
	// Bases may lie anywhere in the repository; files confines them to it.
	options.LoadRestrictions = types.LoadRestrictionsNone
	return krusty.MakeKustomizer(options).Run(files, path.Join("/", w.folder))
}

// read takes an object out of kustomize's hands, node by node: its own way, which
// is through YAML and back, takes as long as the build.
func read(r *resource.Resource, folder string, keepOrigin bool) (Resource, error) {
	value, err := document.Value(r.YNode())
	if err != nil {
		return Resource{}, fmt.Errorf("read %s: %w", r.CurId(), err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return Resource{}, fmt.Errorf("read %s: it is not an object", r.CurId())
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	written, _ := annotations[originAnnotation].(string)
	if !keepOrigin {
		delete(annotations, originAnnotation)
	}
	local := release(annotations)
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return Resource{Object: object, File: originFile(folder, written), Local: local}, nil
}

// originFile reads the annotation: the file of a resource, or the
// kustomization that made one.
func originFile(folder, written string) string {
	var origin resource.Origin
	if err := yaml.Unmarshal([]byte(written), &origin); err != nil {
		return folder
	}
	for _, name := range []string{origin.Path, origin.ConfiguredIn} {
		if name != "" {
			return strings.TrimPrefix(path.Join("/", folder, name), "/")
		}
	}
	return folder
}

// Kustomization is a folder's kustomization with those that it draws upon: read,
// and checked for what may not be built. It hangs on their files, on which of the
// files that they name there are, and on nothing that is in these.
type Kustomization struct {
	folder, file string
	// read are the kustomizations, by folder.
	read     map[string]*types.Kustomization
	refusals []Refusal
	// ownTypes reports whether one of them brings its own OpenAPI.
	ownTypes bool
	// files are all that it lists, where it does nothing else.
	files []string
	// resources are the files that objects come from, and patches those that change them, its
	// own and those of what it draws upon.
	resources, patches map[string]bool
}

// Read reads the kustomization of a folder. What is wrong with it is an error of
// Build. Errors: that of the file system.
func Read(fsys fs.FS, folder string) (*Kustomization, error) {
	files := &locked{fsys: fsys, instead: map[string][]byte{}}
	g := newGuard(files)
	file := g.folder(folder)
	if files.failure != nil {
		return nil, files.failure
	}
	k := &Kustomization{folder: folder, file: file, read: g.kustomizations, refusals: g.refusals, ownTypes: g.ownTypes, resources: g.resources, patches: g.patches}
	if len(k.refusals) == 0 {
		k.files = listed(g, folder)
	}
	return k, files.failure
}

// Files returns the files that the kustomization lists, in its order. The second
// result is false if it, or one that it draws upon, does more than list files
// under resources, or is refused: Build makes it then, or says why not.
func (k *Kustomization) Files() ([]string, bool) { return k.files, len(k.files) > 0 }

// Resources returns the files that are named under resources, in it and in those that
// it draws upon.
func (k *Kustomization) Resources() map[string]bool { return maps.Clone(k.resources) }

// File is the kustomization's own.
func (k *Kustomization) File() string { return k.file }

// Generates reports whether it, or one that it draws upon, makes an object of this kind and name,
// perhaps by a part of the name.
func (k *Kustomization) Generates(apiVersion, kind, name string) bool {
	for _, one := range k.read {
		for i := range one.ConfigMapGenerator {
			if apiVersion == "v1" && kind == "ConfigMap" && strings.Contains(name, one.ConfigMapGenerator[i].Name) {
				return true
			}
		}
		for i := range one.SecretGenerator {
			if apiVersion == "v1" && kind == "Secret" && strings.Contains(name, one.SecretGenerator[i].Name) {
				return true
			}
		}
	}
	return false
}

// IsPatch reports whether a file is named as a patch, in it or in one that it draws upon.
func (k *Kustomization) IsPatch(name string) bool { return k.patches[name] }

// LocalAnnotation with any value but "false" keeps an object out of what a build
// makes.
const LocalAnnotation = konfig.IgnoredByKustomizeAnnotation

// originAnnotation tells where an object was written. kustomize sets it as it reads a
// file, over what the file says: api/internal/utils/annotations.go.
const originAnnotation = "config.kubernetes.io/origin"

// reserved are annotations by which a build goes, with the reason why none of what it does to
// objects may set them.
var reserved = []struct{ name, why string }{
	{LocalAnnotation, "it sets the annotation " + LocalAnnotation + ", by which kustomize leaves definitions out, and their nodes would be drained: take it out, or the definitions"},
	{originAnnotation, "it sets the annotation " + originAnnotation + ", by which kustomize says where an object is from: take it out"},
}

// WhyReserved says why a patch, or the text of replacements, is refused: it names a reserved
// annotation, however it is written. Empty if it does not.
func WhyReserved(text []byte) string {
	if why := whyReserved(string(text)); why != "" {
		return why
	}
	documents, err := document.Parse(text)
	if err != nil {
		return "" // kustomize says what is wrong
	}
	for _, one := range documents {
		if why := whyReserved(stringsOf(one.Value)...); why != "" {
			return why
		}
	}
	return ""
}

// escapes of a JSON pointer (RFC 6901), and of the path of a replacement.
var escapes = strings.NewReplacer("~1", "/", `\`, "")

func whyReserved(texts ...string) string {
	for _, text := range texts {
		for _, annotation := range reserved {
			if strings.Contains(escapes.Replace(text), annotation.name) {
				return annotation.why
			}
		}
	}
	return ""
}

// stringsOf are all strings in a value, keys too.
func stringsOf(value any) []string {
	var all []string
	switch value := value.(type) {
	case string:
		all = append(all, value)
	case map[string]any:
		for key, field := range value {
			all = append(append(all, key), stringsOf(field)...)
		}
	case []any:
		for _, item := range value {
			all = append(all, stringsOf(item)...)
		}
	}
	return all
}

// Refusal is a field of a kustomization that is not let pass.
type Refusal struct {
	// File from the root of the file system, and Line from 1, or 0.
	File string
	Line int
	// Field of the kustomization, such as resources[0].
	Field string
	// Why it is refused, and what to do.
	Why string
}

// Error names file, field and reason.
func (r Refusal) Error() string { return fmt.Sprintf("%s: %s: %s", r.File, r.Field, r.Why) }

// RefusedError is every field that was refused; nothing was built.
type RefusedError struct {
	Refusals []Refusal
}

// Error lists the refusals.
func (e *RefusedError) Error() string {
	lines := make([]string, 0, len(e.Refusals))
	for _, one := range e.Refusals {
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// BuildError is a kustomization that kustomize itself cannot build.
type BuildError struct {
	// File is the kustomization that the build began with.
	File string
	Err  error
}

// Error gives kustomize's own words.
func (e *BuildError) Error() string {
	return fmt.Sprintf("kustomize cannot build %s: %v", e.File, e.Err)
}

// Unwrap returns kustomize's error.
func (e *BuildError) Unwrap() error { return e.Err }
