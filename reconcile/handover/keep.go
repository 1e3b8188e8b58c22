package handover

import (
	"path"
	"slices"

	"github.com/plumbline-dev/plumbline/render/document"
)

const (
	// KeepFile keeps a folder in Git that has no other file: Git has no empty folders, and Flux and Argo CD
	// fail where the path that they apply does not exist. Neither applies the file itself.
	KeepFile = ".gitkeep"
	keepText = "# Keeps this folder in Git, since its path is applied. Written by plumbline adopt.\n"
)

// Reads says whether the text of a file matters. Of the others it only counts that they are there.
func Reads(file string) bool {
	return slices.Contains([]string{".yaml", ".yml"}, path.Ext(file)) || slices.Contains([]string{"Kustomization", KeepFile}, path.Base(file))
}

// keep has Git still have a folder whose last file has left it.
func (f Files) keep(folder string) {
	if !f.any(folder) {
		f[path.Join(folder, KeepFile)] = []byte(keepText)
	}
}

// unkeep takes out of a folder that has files again what keep has put there, and nothing that others have.
func (f Files) unkeep(folder string) {
	if in := path.Join(folder, KeepFile); string(f[in]) == keepText {
		delete(f, in)
	}
}

// any says whether a folder has a file in it, or below it.
func (f Files) any(folder string) bool {
	for file := range f {
		if below(folder, file) {
			return true
		}
	}
	return false
}

// dropEmpty takes out a kustomization that says nothing more: kustomize fails with an empty one. One beside
// other files stays, since without it these would be applied.
func (f Files) dropEmpty(in string) bool {
	documents, err := document.Parse(f[in])
	if err != nil || len(documents) > 1 {
		return false
	}
	for _, one := range documents {
		fields, _ := one.Value.(map[string]any)
		for key, value := range fields {
			if items, _ := value.([]any); key != "apiVersion" && key != "kind" && (key != "resources" || len(items) > 0) {
				return false
			}
		}
	}
	text := f[in]
	if delete(f, in); f.any(path.Dir(in)) {
		f[in] = text
		return false
	}
	return true
}
