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
	// File is where the object says it was first written, from the root of the file system. A build can change what the
	// object says.
	File string
	// Local reports whether kustomize would drop the object because of LocalAnnotation.
	Local bool
}

// Build builds the objects of the kustomization in a child process of runner, or in this process if runner is nil. The
// file system is the one the kustomization was read from, or another one with the same kustomization files. The
// warnings are sentences about patches that change nothing. Errors: *RefusedError, *BuildError, those of the file
// system, and those of the Runner.
func (k *Kustomization) Build(
	ctx context.Context, runner *confine.Runner, fsys fs.FS,
) (resources []Resource, warnings []string, err error) {
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
	// file is the kustomization of the folder, and text is what is built instead of its content.
	file string
	text []byte
	// ownTypes reports whether it has an OpenAPI schema of its own.
	ownTypes bool
	// keepOrigins reports whether objects keep the annotation with their origin.
	keepOrigins bool
	// renamed reports whether a base renames its objects.
	renamed bool
}

// one allows only one build at a time: kustomize keeps types in package variables, and two concurrent builds are a data
// race (https://github.com/kubernetes-sigs/kustomize/issues/3659).
var one sync.Mutex

// here builds in this process.
func (w work) here(files *locked) (resources []Resource, warnings []string, err error) {
	warnings, err = w.build(files, func(r Resource) error {
		resources = append(resources, r)
		return nil
	})
	return resources, warnings, err
}

// build calls made with each object that kustomize builds. Errors: *BuildError, and those of made.
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
		// A later build would use these types.
		defer openapi.ResetOpenAPI()
	}
	options := krusty.MakeDefaultOptions()
	// Bases may lie anywhere in the repository; files confines them to it.
	options.LoadRestrictions = types.LoadRestrictionsNone
	return krusty.MakeKustomizer(options).Run(files, path.Join("/", w.folder))
}

// read converts an object node by node: kustomize's own way, through YAML and back, takes as long as the build.
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

// originFile returns the file in the annotation: that of a resource, or the kustomization that generated it.
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

// Kustomization is a folder's kustomization with all those that it uses, read and checked for fields that must not be
// built. It depends on their files and on the existence of the files that they reference, but not on the content of
// those.
type Kustomization struct {
	folder, file string
	// read are the kustomizations, by folder.
	read     map[string]*types.Kustomization
	refusals []Refusal
	// ownTypes reports whether one of them has an OpenAPI schema of its own.
	ownTypes bool
	// files are all files that it lists, if it does nothing else.
	files []string
	// resources are the files that define objects, and patches the files that change them: its own and those of the
	// kustomizations that it uses.
	resources, patches map[string]bool
}

// Read reads the kustomization of a folder. Build reports what is wrong with it. Errors: those of the file system.
func Read(fsys fs.FS, folder string) (*Kustomization, error) {
	files := &locked{fsys: fsys, instead: map[string][]byte{}}
	g := newGuard(files)
	file := g.folder(folder)
	if files.failure != nil {
		return nil, files.failure
	}
	k := &Kustomization{
		folder: folder, file: file, read: g.kustomizations, refusals: g.refusals, ownTypes: g.ownTypes, resources: g.resources,
		patches: g.patches,
	}
	if len(k.refusals) == 0 {
		k.files = listed(g, folder)
	}
	return k, files.failure
}

// Files returns the files that the kustomization lists, in its order. The second result is false if it, or one that it
// uses, does more than list files under resources, or is refused: then call Build, which builds it or returns why not.
func (k *Kustomization) Files() ([]string, bool) { return k.files, len(k.files) > 0 }

// Resources returns the files under resources, in it and in the kustomizations that it uses.
func (k *Kustomization) Resources() map[string]bool { return maps.Clone(k.resources) }

// File returns the kustomization's own file.
func (k *Kustomization) File() string { return k.file }

// Generates reports whether it, or one that it uses, generates an object of this kind whose name is contained in name.
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

// IsPatch reports whether it, or one that it uses, references a file as a patch.
func (k *Kustomization) IsPatch(name string) bool { return k.patches[name] }

// LocalAnnotation excludes an object from the result of a build, unless its value is "false".
const LocalAnnotation = konfig.IgnoredByKustomizeAnnotation

// originAnnotation holds the file in which an object was written. kustomize overwrites it when it reads a file:
// api/internal/utils/annotations.go.
const originAnnotation = "config.kubernetes.io/origin"

// reserved are annotations that control a build, and why no field that changes objects may set them.
var reserved = []struct{ name, why string }{
	{LocalAnnotation, "it sets the annotation " + LocalAnnotation + ", by which kustomize leaves definitions out, and their nodes would be drained: remove it, or the definitions"},
	{originAnnotation, "it sets the annotation " + originAnnotation + ", in which kustomize records where an object is from: remove it"},
}

// WhyReserved returns why a patch, or the text of replacements, is refused: it contains a reserved annotation, in any
// notation. It is empty if it does not.
func WhyReserved(text []byte) string {
	if why := whyReserved(string(text)); why != "" {
		return why
	}
	documents, err := document.Parse(text)
	if err != nil {
		return "" // kustomize reports what is wrong
	}
	for _, one := range documents {
		if why := whyReserved(stringsOf(one.Value)...); why != "" {
			return why
		}
	}
	return ""
}

// escapes of a JSON pointer (RFC 6901), and of a replacement's path.
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

// stringsOf returns all strings in a value, keys included.
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

// Refusal is a field of a kustomization that is refused.
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

// RefusedError lists every field that was refused; nothing was built.
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

// BuildError reports that kustomize itself cannot build a kustomization.
type BuildError struct {
	// File is the kustomization at which the build started.
	File string
	Err  error
}

// Error returns kustomize's message.
func (e *BuildError) Error() string {
	return fmt.Sprintf("kustomize cannot build %s: %v", e.File, e.Err)
}

// Unwrap returns kustomize's error.
func (e *BuildError) Unwrap() error { return e.Err }
