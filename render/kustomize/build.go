package kustomize

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

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
	// Local says that kustomize would leave it out, by LocalAnnotation.
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
	// ownTypes says that it brings its own OpenAPI.
	ownTypes bool
	// keepOrigins says that objects keep the annotation that tells where they are from.
	keepOrigins bool
	// renamed says that a base gives its objects other names.
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
