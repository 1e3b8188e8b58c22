package render

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-openapi/jsonpointer"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IgnoreDifferencesAnnotation names fields of its object that other clients may change, as JSON
// pointers (RFC 6901) between commas or line breaks: Git's value is what a new object begins with.
const IgnoreDifferencesAnnotation = "plumbline.dev/ignore-differences"

// ownPrefix is that of plumbline's own labels and annotations.
const ownPrefix = "plumbline.dev/"

// neverIgnored are fields by which plumbline keeps nodes safe, and why another client's value of
// them counts as drift always.
func neverIgnored() map[string]string {
	return map[string]string{
		"/spec/limits/cpu":                 "a removal stops the growth of a NodePool by it, and gives it back",
		"/spec/replicas":                   "a removal ends the nodes of a static NodePool by it, and gives them back",
		"/spec/disruption/budgets":         "a rollout that fails is stopped by a budget there, and the guard weighs a commit by them",
		"/spec/template/spec/nodeClassRef": "an EC2NodeClass is kept as long as a NodePool of Git names it",
	}
}

// ignored reads the annotation of an object, and finds what of it would ignore nothing, or what
// must not be ignored.
func (m *maker) ignored(ctx context.Context, object Object) (paths [][]string, found []problem) {
	text := object.Desired.GetAnnotations()[IgnoreDifferencesAnnotation]
	for _, pointer := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		if pointer = strings.TrimSpace(pointer); pointer == "" {
			continue
		}
		path, why := pathOf(pointer)
		if why == "" {
			why = m.misled(ctx, object.Defaulted, path)
		}
		if why != "" {
			found = append(found, problem{
				"metadata.annotations[" + IgnoreDifferencesAnnotation + "]",
				fmt.Sprintf("%s: %s: %s: %s", object.Ref, IgnoreDifferencesAnnotation, pointer, why),
			})
			continue
		}
		paths = append(paths, path)
	}
	return paths, found
}

// pathOf reads a JSON pointer, or says why it cannot be ignored.
func pathOf(pointer string) (path []string, why string) {
	parsed, err := jsonpointer.New(pointer)
	if err != nil || strings.HasSuffix(pointer, "/") {
		return nil, "it is no JSON pointer to a field: write it as /spec/weight, and a / within a key as ~1"
	}
	path = parsed.DecodedTokens()
	switch {
	case path[0] == "spec" && len(path) > 1:
	case path[0] == "metadata" && len(path) == 3 && (path[1] == "labels" || path[1] == "annotations"):
	default:
		return nil, "only a field below /spec, one label and one annotation are compared with Git: finalizers, owner references and status are not Git's, and nothing more can be ignored"
	}
	if path[0] == "metadata" && strings.HasPrefix(path[2], ownPrefix) {
		return nil, "it is plumbline's own: whose the object is, and what of it is ignored, goes by it"
	}
	for refused, reason := range neverIgnored() {
		switch {
		case pointer == refused || strings.HasPrefix(pointer, refused+"/"):
			return nil, "it cannot be ignored: " + reason
		case strings.HasPrefix(refused, pointer+"/"):
			return nil, fmt.Sprintf("it cannot be ignored, for it contains %s (%s): name the fields beside that one", refused, reason)
		}
	}
	return path, ""
}

// misled says why a path leads to no field that could be ignored by itself.
func (m *maker) misled(ctx context.Context, object *unstructured.Unstructured, path []string) string {
	var value any = object.Object
	for i, key := range path {
		fields, isMap := value.(map[string]any)
		if !isMap && value != nil {
			at := "/" + strings.Join(path[:i], "/")
			if _, isList := value.([]any); isList {
				return fmt.Sprintf("it leads into a list, which has one owner as a whole: name %s", at)
			}
			return fmt.Sprintf("%s is one value, with nothing in it", at)
		}
		value = fields[key]
	}
	if m.validator == nil || value != nil || path[0] != "spec" {
		return ""
	}
	// What the schema says of an object that has the field: not of its value, only of its name.
	probe := object.DeepCopy()
	if unstructured.SetNestedField(probe.Object, map[string]any{}, path...) != nil {
		return ""
	}
	for _, err := range m.validator.Validate(ctx, probe) {
		if err.Type == field.ErrorTypeForbidden && slices.ContainsFunc(prefixes(path), func(at string) bool { return at == err.Field }) {
			return "this version of Karpenter does not have the field"
		}
	}
	return ""
}

// prefixes are a path and those above it, as the schema names them.
func prefixes(path []string) []string {
	var all []string
	for i := range path {
		all = append(all, strings.Join(path[:i+1], "."))
	}
	return all
}
