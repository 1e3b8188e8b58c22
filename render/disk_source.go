package render

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"
)

// storedSource is a source with what came of it, as a line of a file.
type storedSource struct {
	Name              string
	Kustomize, Listed bool     `json:",omitempty"`
	Warnings, Passed  []string `json:",omitempty"`
	Inputs            Inputs
	Objects           []storedObject
}

// storedObject is one of its objects.
type storedObject struct {
	File       string
	Line, Text int
	Content    []byte
	Desired    map[string]any
	// Added is what Defaulted has more than Desired.
	Added   map[string]any `json:",omitempty"`
	Ignored [][]string     `json:",omitempty"`
	Warning string         `json:",omitempty"`
}

// stored is a source as a line of a file has it; known is false where it can have none.
func stored(one source, what kept) (_ storedSource, known bool) {
	s := storedSource{
		Name: one.name, Kustomize: one.kustomize, Listed: one.listed,
		Warnings: what.warnings, Passed: what.ignored, Inputs: what.inputs,
	}
	for _, o := range what.objects {
		added, only := more(o.Desired.Object, o.Defaulted.Object)
		if !only {
			return storedSource{}, false
		}
		s.Objects = append(s.Objects, storedObject{
			File: o.Origin.File, Line: o.Origin.Line, Text: o.Text, Content: o.content[:],
			Desired: o.Desired.Object, Added: added, Ignored: o.Ignored, Warning: o.Warning,
		})
	}
	return s, true
}

// readSource reads a line.
func readSource(line []byte, once interned, values *Values) (source, kept, error) {
	var s storedSource
	if err := kjson.UnmarshalCaseSensitivePreserveInts(line, &s); err != nil {
		return source{}, kept{}, err
	}
	what := kept{remarks: remarks{warnings: s.Warnings, ignored: s.Passed}, inputs: make(Inputs, len(s.Inputs))}
	for name, identity := range s.Inputs {
		what.inputs[once.text(name)] = identity
	}
	for _, o := range s.Objects {
		if len(o.Content) != len(content{}) || o.Desired == nil {
			return source{}, kept{}, fmt.Errorf("an object of %s is not whole", s.Name)
		}
		desired := &unstructured.Unstructured{Object: o.Desired}
		desired.Object = values.like(o.Desired, values.last(desired), nil)
		made := Object{
			Ref: refOf(desired), Origin: Origin{File: once.text(o.File), Line: o.Line},
			Desired: desired, Defaulted: &unstructured.Unstructured{Object: values.with(desired.Object, o.Added)},
			Ignored: o.Ignored, Warning: o.Warning, Text: o.Text,
		}
		values.see(made.Defaulted)
		what.objects = append(what.objects, keptObject{Object: made, content: content(o.Content)})
	}
	return source{name: once.text(s.Name), kustomize: s.Kustomize, listed: s.Listed}, what, nil
}

// interned holds each text once.
type interned map[string]string

func (t interned) text(text string) string {
	if known, ok := t[text]; ok {
		return known
	}
	t[text] = text
	return text
}
