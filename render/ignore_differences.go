package render

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-openapi/jsonpointer"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render/legacy"
)

// IgnoreDifferencesAnnotation names fields of its object that other clients may change, as JSON pointers (RFC 6901)
// separated by commas or line breaks. Git's value applies only when the object is created.
const IgnoreDifferencesAnnotation = "plumbline.dev/ignore-differences"

// ownPrefix is the prefix of plumbline's own labels and annotations.
const ownPrefix = "plumbline.dev/"

// neverIgnored returns the fields that plumbline relies on to protect nodes, and why another client's value of them
// always counts as drift.
func neverIgnored() map[string]string {
	return map[string]string{
		"/spec/limits/cpu":                 "a removal sets it to stop the growth of a NodePool, and a revert restores it",
		"/spec/replicas":                   "a removal sets it to terminate the nodes of a static NodePool, and a revert restores it",
		"/spec/disruption/budgets":         "plumbline stops a failing rollout with a budget in it, and the guard counts disrupted nodes by its budgets",
		"/spec/template/spec/nodeClassRef": "an EC2NodeClass is kept as long as a NodePool of Git names it",
	}
}

// ignored parses the annotation of an object, and reports pointers that would ignore nothing or must not be ignored.
func (m *maker) ignored(ctx context.Context, object Object) (paths [][]string, found []problem) {
	text := object.Desired.GetAnnotations()[IgnoreDifferencesAnnotation]
	for _, pointer := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		if pointer = strings.TrimSpace(pointer); pointer == "" {
			continue
		}
		path, why := pathOf(pointer)
		if why == "" {
			why = m.invalidPathReason(ctx, object.Defaulted, path)
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

// pathOf parses a JSON pointer, or returns why it cannot be ignored.
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

// invalidPathReason returns why a path does not lead to a field that can be ignored by itself.
func (m *maker) invalidPathReason(ctx context.Context, object *unstructured.Unstructured, path []string) string {
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
	// Validate an object that has the field: only errors about its name count, not those about its value.
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

// prefixes returns a path and its parents, in the notation of schema errors.
func prefixes(path []string) []string {
	var all []string
	for i := range path {
		all = append(all, strings.Join(path[:i+1], "."))
	}
	return all
}

// kindName matches a kind without its group.
var kindName = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)

// checkIgnoredKinds accepts only kinds of other tools, and those that own no nodes. Ignoring a definition would count as
// its removal, and terminate its nodes.
func (k *Karpenter) checkIgnoredKinds() []problem {
	var found []problem
	for i, entry := range k.IgnoreKinds {
		at := fmt.Sprintf("ignoreKinds[%d]", i)
		kind, group, grouped := strings.Cut(entry, ".") // as kubectl writes it
		switch {
		case !kindName.MatchString(kind), grouped && len(validation.IsDNS1123Subdomain(group)) > 0:
			found = append(found,
				problem{at, fmt.Sprintf("%s is %q: give a kind, such as Deployment, or with its group, Deployment.apps", at, entry)})
		case namesDefinition(kind):
			found = append(found,
				problem{at, fmt.Sprintf("%s is %q: definitions of nodes cannot be ignored, as each that is left out counts as removed", at, entry)})
		}
	}
	return found
}

// namesDefinition reports whether a kind, in any case, is one of plumbline's whose nodes are removed with it, or an
// older name of one.
func namesDefinition(kind string) bool {
	is := func(k Kind) bool { return !k.Optional() && strings.EqualFold(k.GVK.Kind, kind) }
	return slices.ContainsFunc(Kinds(), is) || legacy.Has(kind)
}

// ignores reports whether an object is left to other tools. One in Karpenter's groups is not, because it may be a
// definition with a misspelt kind.
func (k *Karpenter) ignores(as definedAs) bool {
	group, err := schema.ParseGroupVersion(as.apiVersion)
	if err != nil || misspelt(group.WithKind(as.kind).GroupKind()) {
		return false
	}
	return slices.Contains(k.IgnoreKinds, as.kind) || slices.Contains(k.IgnoreKinds, as.kind+"."+group.Group)
}

// misspelt reports whether a kind is in one of Karpenter's own groups, but is not a kind of Karpenter that may be
// ignored.
func misspelt(kind schema.GroupKind) bool {
	_, known := notYet[kind]
	known = known || slices.ContainsFunc(Kinds(), func(k Kind) bool { return k.Optional() && k.GVK.GroupKind() == kind })
	return !known && slices.Contains(karpentersGroups, kind.Group)
}

// withoutIgnored separates the objects that are left to other tools.
func (r *run) withoutIgnored(drafts []draft) (rest, ignored []draft) {
	if len(r.karpenter.IgnoreKinds) == 0 {
		return drafts, nil
	}
	for _, one := range drafts {
		if r.karpenter.ignores(nameOf(one.value)) {
			ignored = append(ignored, one)
		} else {
			rest = append(rest, one)
		}
	}
	return rest, ignored
}

// remarks are notes about sources that are not errors.
type remarks struct {
	// warnings are sentences about files.
	warnings []string
	// ignored are the objects that are left to other tools.
	ignored []string
}

func (r *remarks) add(more remarks) {
	r.warnings = append(r.warnings, more.warnings...)
	r.ignored = append(r.ignored, more.ignored...)
}

func (r *remarks) ignore(drafts []draft) {
	for _, one := range drafts {
		as := nameOf(one.value)
		r.ignored = append(r.ignored, as.kind+"/"+redact.VisibleName(as.name))
	}
}

func (r *remarks) none() bool { return len(r.warnings)+len(r.ignored) == 0 }

// sentence lists the objects that are left to other tools; it is empty if there are none.
func (r *remarks) sentence() string {
	if len(r.ignored) == 0 {
		return ""
	}
	all := slices.Sorted(slices.Values(r.ignored))
	return "ignored by ignoreKinds: " + shortlist.Join(all, maxWarned, ", ")
}
