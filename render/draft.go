package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render/document"
	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// draft is an object as it was read, before anything was made of it.
type draft struct {
	origin Origin
	value  any
	// lineOf returns the line of a field; 0 where it is not known.
	lineOf func(path string) int
}

// read reads the objects of one source.
func (r *run) read(ctx context.Context, files *tree, s source) ([]draft, Errors, error) {
	if s.kustomize {
		return r.build(ctx, files, s.name)
	}
	drafts, errs, err := readFile(files, s.name)
	if s.listed {
		drafts = slices.DeleteFunc(drafts, isLocal)
	}
	return drafts, errs, err
}

// isLocal says whether kustomize would leave an object out.
func isLocal(d draft) bool {
	object, _ := d.value.(map[string]any)
	value, found, err := unstructured.NestedFieldNoCopy(object, "metadata", "annotations", kustomize.LocalAnnotation)
	return err == nil && found && value != "false"
}

func readFile(files *tree, name string) ([]draft, Errors, error) {
	data, err := files.ReadFile(name)
	if err != nil {
		if unfit := (Error{}); errors.As(err, &unfit) {
			return nil, Errors{unfit}, nil
		}
		return nil, nil, fmt.Errorf("read %s: %w", name, err)
	}
	parse := document.Parse
	if path.Ext(name) == ".json" {
		parse = document.ParseJSON
	}
	documents, err := parse(data)
	if err != nil {
		return nil, Errors{textError(name, err)}, nil
	}
	var drafts []draft
	for _, doc := range documents {
		if err := files.left.hold(doc.Values); err != nil {
			return nil, nil, err
		}
		for _, one := range unpack(doc) {
			drafts = append(drafts, draft{Origin{File: name, Line: one.Line}, one.Value, one.LineOf})
		}
	}
	return drafts, nil, nil
}

// unpack takes lists of objects apart.
func unpack(doc document.Document) []document.Document {
	object, _ := doc.Value.(map[string]any)
	if kind, _ := object["kind"].(string); !strings.HasSuffix(kind, "List") {
		return []document.Document{doc}
	}
	items, ok := doc.Items()
	if !ok {
		return []document.Document{doc}
	}
	return items
}

// build builds the kustomization of a folder.
func (r *run) build(ctx context.Context, files *tree, folder string) ([]draft, Errors, error) {
	found := r.listings[folder]
	files.inputs.add(found.inputs)
	resources, err := []kustomize.Resource(nil), found.err
	if err == nil {
		resources, err = found.kustomization.Build(ctx, r.runner, files)
	}
	if err != nil {
		errs, ok := kustomizeErrors(err)
		if !ok {
			return nil, nil, fmt.Errorf("build %s: %w", folder, err)
		}
		return nil, errs, nil
	}
	drafts := make([]draft, 0, len(resources))
	for _, resource := range resources {
		if err := files.left.hold(valuesOf(resource.Object)); err != nil {
			return nil, nil, err
		}
		drafts = append(drafts, draft{Origin{File: resource.File}, resource.Object, func(string) int { return 0 }})
	}
	return drafts, nil, nil
}

// valuesOf is how many values something holds.
func valuesOf(value any) int {
	values := 1
	switch value := value.(type) {
	case map[string]any:
		for _, field := range value {
			values += valuesOf(field)
		}
	case []any:
		for _, item := range value {
			values += valuesOf(item)
		}
	}
	return values
}

// kustomizeErrors places what kustomize says; false for an error that is not
// the repository's.
func kustomizeErrors(err error) (Errors, bool) {
	var refused *kustomize.RefusedError
	var refusal kustomize.Refusal
	var build *kustomize.BuildError
	var unfit Error
	var reading *fs.PathError
	switch {
	case errors.As(err, &reading) && !errors.Is(err, fs.ErrNotExist):
		// The file system says why it cannot be read: it may be superseded.
		return nil, false
	case errors.As(err, &refused):
		var errs Errors
		for _, one := range refused.Refusals {
			errs = append(errs, Error{File: one.File, Line: one.Line, Message: one.Field + ": " + one.Why})
		}
		return errs, true
	case errors.As(err, &refusal):
		return Errors{{File: refusal.File, Line: refusal.Line, Message: refusal.Field + ": " + refusal.Why}}, true
	case errors.As(err, &build):
		return Errors{{File: build.File, Message: "kustomize cannot build it: " + build.Err.Error()}}, true
	case errors.As(err, &unfit):
		return Errors{unfit}, true
	default:
		return nil, false
	}
}
