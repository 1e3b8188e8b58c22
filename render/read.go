package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	kjson "sigs.k8s.io/json"

	"github.com/plumbline-dev/plumbline/render/document"
)

// ReadKarpenter reads the plumbline.yaml of a path, strictly, with its defaults
// filled in. Errors: *MissingError, or Errors with everything that is wrong in
// the file.
func ReadKarpenter(snap Snapshot, name string) (*Karpenter, error) {
	folder, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	files := newTree(snap.FS, &allowance{limits: DefaultLimits()})
	info, err := files.Stat(folder)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, &MissingError{Path: name, File: folder}
	}
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", folder, err)
	}
	file := path.Join(folder, FileName)
	data, err := files.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &MissingError{Path: name, File: file}
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return decodeKarpenter(file, data)
}

// decodeKarpenter reads the text of a plumbline.yaml.
func decodeKarpenter(file string, data []byte) (*Karpenter, error) {
	documents, err := document.Parse(data)
	if err != nil {
		return nil, Errors{textError(file, err)}
	}
	if len(documents) != 1 {
		return nil, Errors{{File: file, Message: fmt.Sprintf("it holds %d documents, and has to hold one", len(documents))}}
	}
	doc := documents[0]
	karpenter := &Karpenter{}
	problems := textsOnly(doc)
	if len(problems) == 0 {
		problems = decodeStrictly(doc, karpenter)
	}
	if len(problems) == 0 {
		karpenter.Values, problems = valuesWithNulls(doc, karpenter.Values)
	}
	if len(problems) == 0 {
		karpenter.setDefaults()
		problems = karpenter.check(path.Dir(file))
	}
	if len(problems) == 0 {
		return karpenter, nil
	}
	var errs Errors
	for _, p := range problems {
		errs = append(errs, Error{File: file, Line: doc.LineOf(p.path), Message: p.message})
	}
	return nil, errs.sorted()
}

// valuesWithNulls are the values of a plumbline.yaml as they are written.
func valuesWithNulls(doc document.Document, values map[string]any) (map[string]any, []problem) {
	whole, err := doc.WithNulls()
	if err != nil {
		return nil, []problem{{"", err.Error()}}
	}
	fields, _ := whole.(map[string]any)
	if written, ok := fields["values"].(map[string]any); ok {
		return written, nil
	}
	return values, nil
}

// textsOnly finds the entries of substitute that are not text.
func textsOnly(doc document.Document) []problem {
	fields, _ := doc.Value.(map[string]any)
	entries, _ := fields["substitute"].(map[string]any)
	var problems []problem
	for name, value := range entries {
		if _, ok := value.(string); !ok {
			text, _ := json.Marshal(value) // what was read from YAML always is JSON
			problems = append(problems, problem{"substitute." + name, fmt.Sprintf("substitute.%s has to be text: write '%s' in quotes", name, excerpt(string(text)))})
		}
	}
	return problems
}

// problem is something wrong with one field of a document.
type problem struct {
	path, message string
}

// decodeStrictly fills in a struct and finds fields that it does not have.
func decodeStrictly(doc document.Document, into any) []problem {
	text, err := json.Marshal(doc.Value)
	if err != nil {
		return []problem{{"", err.Error()}}
	}
	strict, err := kjson.UnmarshalStrict(text, into)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		return []problem{{mismatch.Field, fmt.Sprintf("%s has to be of type %s, not %s", mismatch.Field, mismatch.Type, mismatch.Value)}}
	case err != nil:
		return []problem{{"", err.Error()}}
	}
	var problems []problem
	for _, one := range strict {
		at := ""
		var where kjson.FieldError
		if errors.As(one, &where) {
			at = where.FieldPath()
		}
		problems = append(problems, problem{at, one.Error()})
	}
	return problems
}

// textError places an error of text that cannot be read.
func textError(file string, err error) Error {
	var unreadable *document.Error
	if errors.As(err, &unreadable) {
		return Error{File: file, Line: unreadable.Line, Message: unreadable.Message}
	}
	return Error{File: file, Message: err.Error()}
}
