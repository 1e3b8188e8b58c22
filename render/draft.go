package render

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/internal/sops"
	"github.com/plumbline-dev/plumbline/render/document"
	"github.com/plumbline-dev/plumbline/render/kustomize"
	"github.com/plumbline-dev/plumbline/render/legacy"
)

// draft is an object as read from its source, before any processing.
type draft struct {
	origin Origin
	value  any
	// lineOf returns the line of a field; 0 if unknown.
	lineOf func(path string) int
}

// read reads the objects of one source except those that are left to other tools.
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
	return draftsOf(name, documents), append(errs, refuseEmpty(name, documents)...), nil
}

// asTemplate adds to the error of invalid YAML that it looks like a Helm template, if it does.
func asTemplate(wrong Error, data []byte) Error {
	before, _, found := bytes.Cut(data, []byte("{{"))
	if found {
		wrong.Line = 1 + bytes.Count(before, []byte("\n"))
		wrong.Message = "it looks like a Helm template, which is not rendered here: commit what `helm template` makes of it (" + wrong.Message + ")"
	}
	return wrong
}

// bare matches a ${NAME} without quotes within [] or {}, where YAML parses its braces as a map.
var bare = regexp.MustCompile(`[:,\[{-]\s*[^"'\s,\]}]*(\$\{[A-Za-z_][A-Za-z0-9_]*\})`)

// unquoted adds to the error of invalid YAML that ${NAME} needs quotes, if it does.
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
	return document.ParseWithNulls(data)
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

// unpack splits lists of objects, and drops what refuseEmpty refuses.
func unpack(doc document.Document) []document.Document {
	if doc.Value == nil {
		return nil
	}
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
	errs := append(refuseLocal(local),
		seen.refuseChanged(local, "has the annotation "+kustomize.LocalAnnotation+", by which kustomize leaves it out")...)
	return drafts, said, append(errs, seen.refuseChanged(ignored, "is passed over by ignoreKinds")...), nil
}

// valuesOf counts the values in a value, including itself.
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

// textOf returns how many bytes the strings in a value have, keys included.
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

// kustomizeErrors adds file and line to kustomize's errors; it returns false for an error that the repository did not
// cause.
func kustomizeErrors(err error) (Errors, bool) {
	var refused *kustomize.RefusedError
	var refusal kustomize.Refusal
	var build *kustomize.BuildError
	var unfit Error
	var reading *fs.PathError
	switch {
	case errors.As(err, &reading) && !errors.Is(err, fs.ErrNotExist):
		// The file system failed to read it; the revision may be superseded.
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

// ReadKarpenter reads the plumbline.yaml of a path strictly, and fills in its defaults. Errors: *MissingError, or
// Errors with everything that is wrong in the file.
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

// decodeKarpenter decodes the text of a plumbline.yaml.
func decodeKarpenter(file string, data []byte) (*Karpenter, error) {
	documents, err := document.Parse(data)
	if err != nil {
		return nil, Errors{textError(file, err)}
	}
	if len(documents) != 1 {
		return nil, Errors{{File: file, Message: fmt.Sprintf("it holds %d documents, but must hold one", len(documents))}}
	}
	doc := documents[0]
	karpenter := &Karpenter{}
	problems := append(textsOnly(doc), encrypted(doc)...)
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

// valuesWithNulls returns the values of a plumbline.yaml with their null entries.
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

// textsOnly returns the entries of substitute that are not strings.
func textsOnly(doc document.Document) []problem {
	fields, _ := doc.Value.(map[string]any)
	entries, _ := fields["substitute"].(map[string]any)
	var problems []problem
	for name, value := range entries {
		if _, ok := value.(string); !ok {
			text, _ := json.Marshal(value) // a value that was parsed from YAML can always be encoded
			problems = append(problems,
				problem{"substitute." + name, fmt.Sprintf("substitute.%s must be text: write '%s' in quotes", name, excerpt(string(text)))})
		}
	}
	return problems
}

// encrypted refuses a plumbline.yaml that was encrypted: commands and reviews read it without a key.
func encrypted(doc document.Document) []problem {
	if fields, ok := doc.Value.(map[string]any); ok && sops.Encrypted(fields) {
		return []problem{{sops.Key, "plumbline.yaml itself cannot be encrypted with sops: move the encrypted values into a file, and name that in valuesFiles"}}
	}
	return nil
}

// problem is an error in one field of a document.
type problem struct {
	path, message string
}

// decodeStrictly decodes a document into a struct, and reports fields that the struct does not have.
func decodeStrictly(doc document.Document, into any) []problem {
	text, err := json.Marshal(doc.Value)
	if err != nil {
		return []problem{{"", err.Error()}}
	}
	strict, err := kjson.UnmarshalStrict(text, into)
	var mismatch *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mismatch):
		return []problem{{mismatch.Field, fmt.Sprintf("%s must be of type %s, not %s", mismatch.Field, mismatch.Type, mismatch.Value)}}
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

// textError adds the file to an error about text that cannot be parsed.
func textError(file string, err error) Error {
	var unreadable *document.Error
	if errors.As(err, &unreadable) {
		return Error{File: file, Line: unreadable.Line, Message: unreadable.Message}
	}
	return Error{File: file, Message: err.Error()}
}

// Validator validates definitions against their schemas.
type Validator interface {
	// Default fills in the schema's defaults, in place.
	Default(object *unstructured.Unstructured)
	// Validate validates an object as for its creation, and refuses unknown fields.
	Validate(ctx context.Context, object *unstructured.Unstructured) field.ErrorList
	// Schema returns the schema of a kind; nil if no CRD defines the kind.
	Schema(kind schema.GroupVersionKind) *structural.Structural
}

// maker turns drafts into objects.
type maker struct {
	variables map[string]string
	validator Validator
	left      *allowance
}

// object turns a draft into an object, or returns everything that is wrong with it.
func (m *maker) object(ctx context.Context, d draft) (Object, Errors) {
	made, problems := m.build(ctx, d)
	var errs Errors
	for _, p := range problems[:min(len(problems), maxListed)] {
		errs = append(errs, Error{File: d.origin.File, Line: d.lineOf(p.path), Message: p.message})
	}
	if more := len(problems) - maxListed; more > 0 {
		errs = append(errs,
			Error{File: d.origin.File, Line: errs[maxListed-1].Line, Message: shortlist.More("", more) + " mistakes in this object"})
	}
	return made, errs
}

func (m *maker) build(ctx context.Context, d draft) (Object, []problem) {
	content, ok := d.value.(map[string]any)
	if !ok {
		return Object{}, []problem{{"", "it is not an object: apiVersion and kind are missing"}}
	}
	apiVersion, _ := content["apiVersion"].(string)
	name, _ := content["kind"].(string)
	if apiVersion == "" || name == "" {
		return Object{}, []problem{{"", "it is not an object: apiVersion or kind is missing"}}
	}
	kind, refusal := classify(apiVersion, name)
	if refusal != "" {
		return Object{}, []problem{{"kind", refusal}}
	}
	if err := m.left.object(valuesOf(content)); err != nil {
		return Object{}, []problem{{"", err.Error()}}
	}
	dropEmpty(content)
	content, unknown := m.substitute(kind, content)
	if content == nil {
		return Object{}, unknown // too much
	}
	text := textOf(content)
	if err := m.left.write(text); err != nil {
		return Object{}, append(unknown, problem{"", err.Error()})
	}
	namespaced := dropNamespace(kind, content)
	problems := slices.Concat(checkMetadata(kind, content), checkCharacters(kind, content), checkQuantities(kind, content))
	if len(problems) > 0 {
		return Object{}, append(unknown, onOtherFields(problems, unknown)...)
	}
	desired := &unstructured.Unstructured{Object: content}
	made := Object{
		Ref:       RefTo(kind.GVK.Kind, desired),
		Origin:    d.origin,
		Desired:   desired,
		Defaulted: desired.DeepCopy(),
		Text:      text,
	}
	region := m.variables[regionVariable]
	made.Warning = sentences(namespaced, warnOfPlaceholders(kind, made), warnOfInstances(made), warnOfBudgets(made), warnOfForms(made, region), warnOfOverlay(made), warnOfBuffer(made))
	problems = slices.Concat(checkDefinition(made), checkForms(made, region), m.checkKubelet(made))
	if m.validator != nil {
		m.validator.Default(made.Defaulted)
		invalid := m.violations(ctx, made.Ref, desired)
		if kind.Optional() { // its checks explain what its schema refuses by a pattern
			invalid = onOtherFields(invalid, problems)
		}
		problems = append(problems, invalid...)
	}
	if len(unknown) > 0 {
		return Object{}, append(unknown, onOtherFields(problems, unknown)...)
	}
	var unignored []problem
	made.Ignored, unignored = m.ignored(ctx, made)
	problems = append(problems, unignored...)
	if len(problems) == 0 {
		problems = append(checkReadable(made), m.checkReadableKubelet(made)...)
	}
	if len(problems) == 0 {
		problems = checkRuntime(ctx, made)
	}
	return made, problems
}

// violations returns how an object violates the schema of its CRD.
func (m *maker) violations(ctx context.Context, ref Ref, desired *unstructured.Unstructured) []problem {
	var invalid []problem
	for _, err := range m.validator.Validate(ctx, desired) {
		invalid = append(invalid, problem{err.Field, fieldMessage(ref, err)})
	}
	return invalid
}

// onOtherFields drops those of the problems that are in a field of the others: the value of a field with an unknown
// variable is unknown, too.
func onOtherFields(problems, others []problem) []problem {
	within := func(path, of string) bool {
		rest, is := strings.CutPrefix(path, of)
		return is && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	return slices.DeleteFunc(problems, func(p problem) bool {
		return slices.ContainsFunc(others, func(u problem) bool { return p.path == "" || within(p.path, u.path) || within(u.path, p.path) })
	})
}

// sentences joins the sentences that are not empty.
func sentences(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(one string) bool { return one == "" }), "; ")
}

func (m *maker) substitute(kind Kind, content map[string]any) (map[string]any, []problem) {
	value, _, _ := unstructured.NestedFieldNoCopy(content, "metadata", "annotations", SubstituteAnnotation)
	if value == "disabled" || !anyText(content, mayHaveVariables) {
		return content, nil
	}
	s := &substitution{variables: m.variables, scripts: kind.Scripts, left: m.left.limits.FileBytes}
	var shape *structural.Structural
	if m.validator != nil {
		shape = m.validator.Schema(kind.GVK)
	}
	replaced := s.entries(nil, content, shape)
	if err := cmp.Or(m.left.substitute(s.bytes), m.left.grow(valuesOf(content), valuesOf(replaced))); err != nil {
		return nil, append(s.problems, problem{"", err.Error()})
	}
	return replaced, s.problems
}

// maxMessage is the length at which a rule's message is cut: some repeat the whole value.
const maxMessage = 400

func fieldMessage(ref Ref, err *field.Error) string {
	if now := legacy.FieldNow(ref.Kind, err.Field); now != "" {
		return fmt.Sprintf("%s: %s is a field of an earlier version of Karpenter: %s", ref, err.Field, now)
	}
	body := err.ErrorBody()
	if err.Field != "" && err.Field != "<nil>" {
		// The schema's own messages repeat the field.
		body = err.Field + ": " + strings.Replace(body, ": "+err.Field+" in body ", ": ", 1)
	}
	return fmt.Sprintf("%s: %s", ref, cut(body))
}

// cut shortens a message.
func cut(message string) string {
	if runes := []rune(message); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "…"
	}
	return message
}
