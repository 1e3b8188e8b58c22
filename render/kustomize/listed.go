package kustomize

import (
	"path"
	"reflect"
	"slices"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"
)

// listed returns the files that a folder's kustomization lists; none where it does
// more than that.
func listed(g *guard, folder string) []string {
	l := &listing{guard: g, seen: map[string]bool{}}
	if !l.folder(folder) {
		return nil
	}
	return l.files
}

// listing collects files out of kustomizations that have been read.
type listing struct {
	guard *guard
	seen  map[string]bool
	files []string
}

// folder says whether a folder's kustomization only lists. What is listed twice
// is an error, in kustomize's words.
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

// onlyOne says whether a folder has one kustomization: of two kustomize takes
// neither.
func (l *listing) onlyOne(folder string) bool {
	found := 0
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		if l.guard.fsys.Exists(path.Join(folder, base)) {
			found++
		}
	}
	return found == 1
}

// onlyLists says whether there is nothing in a kustomization but resources.
func onlyLists(k *types.Kustomization) bool {
	rest := *k
	rest.TypeMeta, rest.MetaData, rest.Resources = types.TypeMeta{}, nil, nil
	return k.Kind == types.KustomizationKind && reflect.DeepEqual(rest, types.Kustomization{})
}

// IsKustomization says whether a file is one that kustomize builds, by its name.
func IsKustomization(name string) bool {
	return slices.Contains(konfig.RecognizedKustomizationFileNames(), path.Base(name))
}
