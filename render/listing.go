package render

import "github.com/plumbline-dev/plumbline/render/kustomize"

// listing is what is known of a folder with a kustomization.
type listing struct {
	inputs Inputs
	// build says that it has to be built; else files are all that it lists.
	build bool
	files []string
}

// kustomization takes a folder with a kustomization: the files where it lists
// files alone, so that each is read for itself and errors have their lines, and
// the folder where it has to be built.
func (w *walk) kustomization(folder string) error {
	found, known := w.before[folder]
	if known {
		unchanged, err := found.inputs.Unchanged(w.snap)
		if err != nil {
			return err
		}
		known = unchanged
	}
	if !known {
		files := w.tree.branch()
		// What cannot be read is built: the build meets the same, and says it as one
		// of the folder's errors.
		names, ok, err := kustomize.Listed(files, folder)
		found = listing{inputs: files.inputs, build: !ok || err != nil, files: names}
	}
	w.after[folder] = found
	w.tree.inputs.add(found.inputs)
	if found.build {
		w.add(source{name: folder, kustomize: true})
		return nil
	}
	for _, name := range found.files {
		w.add(source{name: name, listed: true})
	}
	return nil
}
