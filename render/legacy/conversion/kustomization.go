package conversion

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/render/document"
	"github.com/plumbline-dev/plumbline/render/legacy"
)

// kustomizationFiles are the names under which kustomize finds a kustomization.
var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// inChart reports whether a file is a template of a Helm chart.
func inChart(name string) bool {
	return slices.Contains(strings.Split(path.Dir(name), "/"), "templates")
}

// patch is a patch of a kustomization: a file, or a text in it.
type patch struct {
	file, text string
	// kind is that of its target, if the kustomization names it.
	kind, version string
}

// kustomizations returns the files that are patches, and what is not converted in kustomizations: their patches of
// earlier kinds. The resources of a kustomization are files like all others.
func kustomizations(files []File) (patches map[string]bool, left []Left) {
	patches = map[string]bool{}
	byName := map[string]File{}
	for _, file := range files {
		byName[path.Clean(file.Name)] = file
	}
	for _, file := range files {
		if !slices.Contains(kustomizationFiles, path.Base(file.Name)) {
			continue
		}
		documents, err := document.Parse(file.Data)
		if err != nil || len(documents) != 1 {
			continue // reported as a file if it concerns earlier versions
		}
		value, _ := documents[0].Value.(map[string]any)
		for _, p := range patchesOf(value) {
			at := file
			if p.file != "" {
				name := path.Join(path.Dir(file.Name), p.file)
				found, ok := byName[name]
				if !ok {
					continue
				}
				patches[found.Name] = true
				at, p.text = found, string(found.Data)
			}
			if one, concerns := p.left(at); concerns {
				left = append(left, one)
			}
		}
	}
	return patches, left
}

// patchesOf returns the patches of a kustomization, in all three notations.
func patchesOf(kustomization map[string]any) (all []patch) {
	for _, key := range []string{"patches", "patchesJson6902", "patchesStrategicMerge"} {
		entries, _ := kustomization[key].([]any)
		for _, entry := range entries {
			switch entry := entry.(type) {
			case string:
				if strings.Contains(entry, "\n") {
					all = append(all, patch{text: entry})
				} else {
					all = append(all, patch{file: entry})
				}
			case map[string]any:
				p := patch{}
				p.file, _ = entry["path"].(string)
				p.text, _ = entry["patch"].(string)
				target, _ := entry["target"].(map[string]any)
				p.kind, _ = target["kind"].(string)
				p.version, _ = target["version"].(string)
				all = append(all, p)
			}
		}
	}
	return all
}

// left reports a patch that concerns a kind of an earlier version.
func (p patch) left(at File) (Left, bool) {
	kinds := map[string]string{"Provisioner": "NodePool", "AWSNodeTemplate": classKind}
	kind := p.kind
	concerns := kinds[kind] != "" || slices.Contains([]string{"v1beta1", "v1alpha5", "v1alpha1"}, p.version) || earlier.MatchString(p.text)
	documents, _ := document.Parse([]byte(p.text)) // a patch that cannot be parsed is still named
	var moved []string
	for _, one := range documents {
		for _, field := range patched(one.Value) {
			of := kind
			if fields, ok := one.Value.(map[string]any); ok {
				of, _ = fields["kind"].(string)
			}
			if now := kinds[of]; now != "" {
				of = now
			}
			if now := legacy.FieldNow(of, field); now != "" {
				moved = append(moved, field+": "+now)
			}
		}
	}
	if !concerns && len(moved) == 0 {
		return Left{}, false
	}
	left := Left{File: at.Name, What: "patch of a kustomization", Why: "a patch is no whole definition: change it by hand"}
	if len(moved) > 0 {
		left.Why += fmt.Sprintf(" (%s)", shortlist.Items(moved, maxNamed, "; "))
	}
	return left, true
}

// patched returns the paths that a patch changes: those of a partial object, or of the operations of a JSON patch.
func patched(value any) (paths []string) {
	switch value := value.(type) {
	case []any:
		for _, entry := range value {
			operation, _ := entry.(map[string]any)
			pointer, _ := operation["path"].(string)
			pointer = strings.TrimPrefix(pointer, "/")
			paths = append(paths, strings.ReplaceAll(strings.ReplaceAll(pointer, "/", "."), "~1", "/"))
		}
	case map[string]any:
		paths = leaves("", value)
		slices.Sort(paths)
	}
	return slices.Compact(paths)
}

// leaves returns the paths of a map, without those of the maps in it if an earlier version has the field in another place.
func leaves(prefix string, fields map[string]any) (paths []string) {
	for key, value := range fields {
		at := strings.TrimPrefix(prefix+"."+key, ".")
		inner, isMap := value.(map[string]any)
		if isMap && legacy.FieldNow("NodePool", at) == "" && legacy.FieldNow(classKind, at) == "" {
			paths = append(paths, leaves(at, inner)...)
			continue
		}
		paths = append(paths, at)
	}
	return paths
}
