package render

import "github.com/plumbline-dev/plumbline/render/kustomize"

// listing is what is known of a folder with a kustomization.
type listing struct {
	inputs        Inputs
	kustomization *kustomize.Kustomization
	// err is why it could not be read; it is reported as one of the folder's errors.
	err error
}

// kustomization takes a folder with a kustomization: the files where it lists only files,
// so that each is read for itself and errors have their lines, and
// the folder where it has to be built.
func (w *walk) kustomization(folder string) error {
	found, known := w.before[folder]
	if known {
		unchanged, err := found.inputs.Unchanged(w.snap)
		if err != nil {
			return err
		}
		known = unchanged && found.err == nil
	}
	if !known {
		files := w.tree.branch()
		found = listing{}
		found.kustomization, found.err = kustomize.Read(files, folder)
		found.inputs = files.inputs
	}
	w.after[folder] = found
	w.tree.inputs.add(found.inputs)
	if found.err == nil {
		if names, ok := found.kustomization.Files(); ok {
			for _, name := range names {
				w.add(source{name: name, listed: true})
			}
			return nil
		}
	}
	w.add(source{name: folder, kustomize: true})
	return nil
}
