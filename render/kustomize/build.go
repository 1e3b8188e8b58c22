package kustomize

import (
	"encoding/json"
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
)

// Resource is one object that a build makes.
type Resource struct {
	Object map[string]any
	// File that it was first written in, from the root of the file system.
	File string
}

// one lets one build run at a time: kustomize keeps types in package variables,
// and two builds at once are a data race
// (https://github.com/kubernetes-sigs/kustomize/issues/3659).
var one sync.Mutex

// Build makes the objects of a folder with a kustomization. Errors:
// *RefusedError, *BuildError, or that of the file system.
func Build(fsys fs.FS, folder string) ([]Resource, error) {
	files := &locked{fsys: fsys, instead: map[string][]byte{}}
	g := newGuard(files)
	file, kustomization := g.folder(folder)
	if files.failure != nil {
		return nil, files.failure
	}
	if len(g.refusals) > 0 {
		return nil, &RefusedError{Refusals: g.refusals}
	}
	if err := kustomization.CheckEmpty(); err != nil {
		return nil, &BuildError{File: file, Err: err}
	}
	text, err := withOrigins(kustomization)
	if err != nil {
		return nil, &BuildError{File: file, Err: err}
	}
	files.instead[file] = text
	made, err := run(files, folder, g.ownTypes)
	if files.failure != nil {
		return nil, files.failure
	}
	if err != nil {
		return nil, &BuildError{File: file, Err: err}
	}
	keepOrigins := slices.Contains(kustomization.BuildMetadata, types.OriginAnnotations)
	resources := make([]Resource, 0, made.Size())
	for _, r := range made.Resources() {
		one, err := read(r, folder, keepOrigins)
		if err != nil {
			return nil, &BuildError{File: file, Err: err}
		}
		resources = append(resources, one)
	}
	return resources, nil
}

func run(files *locked, folder string, ownTypes bool) (resmap.ResMap, error) {
	one.Lock()
	defer one.Unlock()
	if ownTypes {
		// A later build would go on with these types.
		defer openapi.ResetOpenAPI()
	}
	options := krusty.MakeDefaultOptions()
	// Bases may lie anywhere in the repository; files confines them to it.
	options.LoadRestrictions = types.LoadRestrictionsNone
	return krusty.MakeKustomizer(options).Run(files, path.Join("/", folder))
}

// withOrigins has kustomize say for each object where it was written.
func withOrigins(kustomization *types.Kustomization) ([]byte, error) {
	asking := *kustomization
	if !slices.Contains(asking.BuildMetadata, types.OriginAnnotations) {
		asking.BuildMetadata = append(slices.Clone(asking.BuildMetadata), types.OriginAnnotations)
	}
	return json.Marshal(asking)
}

// originAnnotation is kustomize's: api/internal/utils/annotations.go.
const originAnnotation = "config.kubernetes.io/origin"

// read takes an object out of kustomize's hands.
func read(r *resource.Resource, folder string, keepOrigin bool) (Resource, error) {
	text, err := r.MarshalJSON()
	if err != nil {
		return Resource{}, fmt.Errorf("read %s: %w", r.CurId(), err)
	}
	object, err := decode(text)
	if err != nil {
		return Resource{}, fmt.Errorf("read %s: %w", r.CurId(), err)
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	written, _ := annotations[originAnnotation].(string)
	if !keepOrigin {
		delete(annotations, originAnnotation)
		if len(annotations) == 0 {
			delete(metadata, "annotations")
		}
	}
	return Resource{Object: object, File: originFile(folder, written)}, nil
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
