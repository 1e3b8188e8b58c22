package kustomize

import (
	"io/fs"
	"maps"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
)

// Kustomization is a folder's kustomization with those that it draws upon: read,
// and checked for what may not be built. It hangs on their files, on which of the
// files that they name there are, and on nothing that is in these.
type Kustomization struct {
	folder, file string
	// read are the kustomizations, by folder.
	read     map[string]*types.Kustomization
	refusals []Refusal
	// ownTypes says that one of them brings its own OpenAPI.
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
// result is false where it, or one that it draws upon, does more than list files
// under resources, or is refused: Build makes it then, or says why not.
func (k *Kustomization) Files() ([]string, bool) { return k.files, len(k.files) > 0 }

// Resources returns the files that are named under resources, in it and in those that
// it draws upon.
func (k *Kustomization) Resources() map[string]bool { return maps.Clone(k.resources) }

// File is the kustomization's own.
func (k *Kustomization) File() string { return k.file }

// Generates says whether it, or one that it draws upon, makes an object of this kind and name,
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

// IsPatch says whether a file is named as a patch, in it or in one that it draws upon.
func (k *Kustomization) IsPatch(name string) bool { return k.patches[name] }
