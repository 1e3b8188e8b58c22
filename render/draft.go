package render

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

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

// read reads the objects of one source, but those that are left to other tools.
func (r *run) read(ctx context.Context, files *tree, s source) (drafts []draft, said remarks, errs Errors, err error) {
	if s.kustomize {
		return r.build(ctx, files, s.name)
	}
	drafts, errs, err = readFile(files, s.name)
	if err != nil || len(errs) > 0 && len(drafts) == 0 {
		return nil, said, errs, err
	}
	if len(drafts) == 0 {
		said.warnings = append(said.warnings, withoutDefinition(s.name))
	}
	drafts, ignored := r.withoutIgnored(drafts)
	said.ignore(ignored)
	if s.listed {
		errs = append(errs, refuseLocal(drafts)...)
		drafts = slices.DeleteFunc(drafts, isLocal)
	}
	return drafts, said, errs, nil
}

func readFile(files *tree, name string) ([]draft, Errors, error) {
	data, err := files.ReadFile(name)
	if err != nil {
		if unfit := (Error{}); errors.As(err, &unfit) {
			return nil, Errors{unfit}, nil
		}
		return nil, nil, fmt.Errorf("read %s: %w", name, err)
	}
	if isEmptied(data) {
		return nil, Errors{emptied(name)}, nil
	}
	documents, err := parse(name, data)
	var repeated document.Repeated
	if err != nil && !errors.As(err, &repeated) {
		return nil, Errors{unquoted(asTemplate(textError(name, err), data), data)}, nil
	}
	var errs Errors
	for _, one := range repeated {
		errs = append(errs, textError(name, one))
	}
	for _, doc := range documents {
		if err := files.left.hold(doc.Values); err != nil {
			return nil, nil, err
		}
	}
	return draftsOf(name, documents), errs, nil
}

// asTemplate says of text that is not YAML that it looks like a Helm template, where it does.
func asTemplate(wrong Error, data []byte) Error {
	before, _, found := bytes.Cut(data, []byte("{{"))
	if found {
		wrong.Line = 1 + bytes.Count(before, []byte("\n"))
		wrong.Message = "it looks like a Helm template, which is not rendered here: commit what `helm template` makes of it (" + wrong.Message + ")"
	}
	return wrong
}

// bare is a ${NAME} without quotes within [] or {}, where YAML takes its braces for a map.
var bare = regexp.MustCompile(`[:,\[{-]\s*[^"'\s,\]}]*(\$\{[A-Za-z_][A-Za-z0-9_]*\})`)

// unquoted adds to the error of text that is not YAML that ${NAME} needs quotes, if it does.
func unquoted(wrong Error, data []byte) Error {
	if !strings.Contains(wrong.Message, "did not find expected ',' or") || wrong.Line == 0 {
		return wrong
	}
	lines := bytes.Split(data, []byte("\n"))
	for i, line := range lines[wrong.Line-1:] {
		if found := bare.FindSubmatch(line); found != nil {
			wrong.Line += i
			wrong.Message = fmt.Sprintf("%s needs quotes within [] and {}: write \"%[1]s\" (%s)", found[1], wrong.Message)
			break
		}
	}
	return wrong
}

func parse(name string, data []byte) ([]document.Document, error) {
	if path.Ext(name) == ".json" {
		return document.ParseJSON(data)
	}
	return document.Parse(data)
}

func draftsOf(name string, documents []document.Document) []draft {
	var drafts []draft
	for _, doc := range documents {
		for _, one := range unpack(doc) {
			drafts = append(drafts, draft{Origin{File: name, Line: one.Line}, one.Value, one.LineOf})
		}
	}
	return drafts
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
func (r *run) build(ctx context.Context, files *tree, folder string) ([]draft, remarks, Errors, error) {
	found := r.listings[folder]
	files.inputs.add(found.inputs)
	seen, resources, unmatched, err := &drawn{tree: files}, []kustomize.Resource(nil), []string(nil), found.err
	if err == nil {
		seen.kustomization, seen.resources = found.kustomization, found.kustomization.Resources()
		resources, unmatched, err = found.kustomization.Build(ctx, r.runner, seen)
	}
	if err != nil {
		errs, ok := kustomizeErrors(err)
		if !ok {
			return nil, remarks{}, nil, fmt.Errorf("build %s: %w", folder, err)
		}
		return nil, remarks{}, errs, nil
	}
	if len(seen.errs) > 0 {
		return nil, remarks{}, seen.errs, nil
	}
	drafts, local := make([]draft, 0, len(resources)), []draft(nil)
	for _, resource := range resources {
		if err := files.left.hold(valuesOf(resource.Object)); err != nil {
			return nil, remarks{}, nil, err
		}
		made := draft{Origin{File: seen.fileOf(resource)}, resource.Object, func(string) int { return 0 }}
		if resource.Local {
			local = append(local, made)
		} else {
			drafts = append(drafts, made)
		}
	}
	drafts, ignored := r.withoutIgnored(drafts)
	said := remarks{warnings: append(seen.warnings, unmatched...)}
	if len(resources)+len(seen.warnings) == 0 {
		said.warnings = []string{withoutObject(found.kustomization.File())}
	}
	said.ignore(ignored)
	errs := append(refuseLocal(local), seen.refuseChanged(local, "has the annotation "+kustomize.LocalAnnotation+", by which kustomize leaves it out")...)
	return drafts, said, append(errs, seen.refuseChanged(ignored, "is passed over by ignoreKinds")...), nil
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

// textOf is how many bytes the texts of something have, keys included.
func textOf(value any) int {
	text := 0
	switch value := value.(type) {
	case string:
		text = len(value)
	case map[string]any:
		for key, field := range value {
			text += len(key) + textOf(field)
		}
	case []any:
		for _, item := range value {
			text += textOf(item)
		}
	}
	return text
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
