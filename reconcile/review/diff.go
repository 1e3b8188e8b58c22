package review

import (
	"encoding/json"
	"slices"
	"strings"

	udiff "github.com/aymanbagabas/go-udiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/redact"
)

// Diff is one object as it is and as it becomes, as a unified diff; nil is nothing.
func Diff(name, revision string, live, after *unstructured.Unstructured) string {
	from, to := "cluster/"+name, "git/"+name
	if live == nil {
		from = "/dev/null"
	}
	if after == nil {
		to = "/dev/null"
	}
	if revision != "" {
		to += "\t" + revision
	}
	var out strings.Builder
	for line := range strings.Lines(udiff.Unified(from, to, shown(live), shown(after))) {
		out.WriteString(redact.Visible(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return out.String()
}

// shown is an object as YAML, without what the API server adds; empty for none.
func shown(object *unstructured.Unstructured) string {
	if object == nil {
		return ""
	}
	object = object.DeepCopy()
	metadata, _, _ := unstructured.NestedMap(object.Object, "metadata")
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
		delete(metadata, field)
	}
	fields := map[string]any{"metadata": metadata}
	for name, value := range object.Object {
		if !slices.Contains([]string{"metadata", "status"}, name) {
			fields[name] = value
		}
	}
	raw, err := json.Marshal(fields)
	if err == nil {
		// A reader of YAML takes no control characters but as escapes.
		raw, err = yaml.JSONToYAML([]byte(redact.VisibleFlow(string(raw))))
	}
	if err != nil { // it was made of JSON
		return "# " + err.Error() + "\n"
	}
	return string(raw)
}
