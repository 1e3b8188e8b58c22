package render

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/plumbline-dev/plumbline/render/document"
)

// valuesFiles are the files with values, from the root of the Git repository.
func (k *Karpenter) valuesFiles(folder string) []string {
	var names []string
	for _, entry := range k.ValuesFiles {
		names = append(names, path.Join(folder, entry))
	}
	return names
}

// ReadValues reads the files with values of the main chart, in their order, null
// entries among them. name is the path of plumbline.yaml's folder. Errors: Errors
// with everything that is wrong in them.
func (k *Karpenter) ReadValues(files *Files, name string) ([]map[string]any, error) {
	folder, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	var all []map[string]any
	var errs Errors
	for i, file := range k.valuesFiles(folder) {
		data, err := files.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, Error{File: path.Join(folder, FileName), Message: fmt.Sprintf("valuesFiles entry %q is not in the repository", k.ValuesFiles[i])})
			continue
		}
		if err != nil {
			return nil, limited(file, fmt.Errorf("read %s: %w", file, err))
		}
		values, problems := k.decodeValues(file, data)
		errs, all = append(errs, problems...), append(all, values)
	}
	if len(errs) > 0 {
		return nil, errs.sorted()
	}
	return all, nil
}

// decodeValues reads the text of a file with values.
func (k *Karpenter) decodeValues(file string, data []byte) (map[string]any, Errors) {
	documents, err := document.Parse(data)
	switch {
	case err != nil:
		return nil, Errors{textError(file, err)}
	case len(documents) == 0:
		return nil, nil // an empty file has no values, as with Helm
	case len(documents) > 1:
		return nil, Errors{{File: file, Line: documents[1].Line, Message: fmt.Sprintf("it holds %d documents, and has to hold one", len(documents))}}
	}
	doc := documents[0]
	whole, err := doc.WithNulls()
	if err != nil {
		return nil, Errors{textError(file, err)}
	}
	values, ok := whole.(map[string]any)
	if !ok {
		return nil, Errors{{File: file, Line: doc.Line, Message: "it holds no map of values"}}
	}
	if kind, version := values["kind"], values["apiVersion"]; kind != nil && version != nil {
		return nil, Errors{{File: file, Line: doc.LineOf("kind"), Message: fmt.Sprintf("it is a %v and not values: as one of valuesFiles it would be no definition any more, and what it defines would be removed: take it out of valuesFiles", kind)}}
	}
	var errs Errors
	for _, p := range contradictions(k.Cluster, values, "") {
		errs = append(errs, Error{File: file, Line: doc.LineOf(p.path), Message: p.message})
	}
	return values, errs
}
