package charts

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/strvals"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// errNoCluster aborts a render that accesses the cluster: a template cannot catch it.
var errNoCluster = errors.New("a chart is rendered without the cluster")

// noCluster is the engine.ClientProvider of a render without a cluster. Without one, Helm's lookup would return
// nothing, and a chart would render differently than its author intended.
type noCluster struct {
	// called reports whether a template has called lookup.
	called bool
}

// GetClientFor returns an error.
func (c *noCluster) GetClientFor(string, string) (dynamic.NamespaceableResourceInterface, bool, error) {
	c.called = true
	return nil, false, errNoCluster
}

// nothingElse is a schema loader that loads no other document. Helm's own loads files and URLs
// (pkg/chartutil/jsonschema.go).
type nothingElse struct{}

// Load returns an error.
func (nothingElse) Load(string) (any, error) { return nil, errors.New("a schema is read by itself") }

// selfContained reports whether the values.schema.json of a chart, and of each chart within it, can be read without any
// other document.
func selfContained(c *chart.Chart) bool {
	if c.Schema != nil && !readsNothingElse(c.Schema) {
		return false
	}
	for _, below := range c.Dependencies() {
		if !selfContained(below) {
			return false
		}
	}
	return true
}

func readsNothingElse(text []byte) (alone bool) {
	defer func() {
		if recover() != nil { // as Helm does around the same library
			alone = false
		}
	}()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return false
	}
	const place = "file:///values.schema.json" // as in Helm
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nothingElse{})
	if err := compiler.AddResource(place, schema); err != nil {
		return false
	}
	_, err = compiler.Compile(place)
	return err == nil
}

// Layer is one of several sources of the main chart's values.
type Layer struct {
	// Origin names it in messages: "secret karpenter-values, key values.yaml".
	Origin string
	// Values of a file, or of plumbline.yaml itself.
	Values map[string]any
	// Text is used instead of Values: YAML, or the one value for TargetPath, in the notation of Helm's --set.
	Text, TargetPath string
	// Sealed identifies the Secret that contains Text by UID and resourceVersion: its content is neither printed nor
	// hashed. It is empty for other sources.
	Sealed string
}

// Values are the merged values of the main chart.
type Values struct {
	Merged map[string]any
	// Sealed is equal for two merges of the same sources, and does not depend on the content of Secrets. It is empty if
	// no Secret is involved.
	Sealed string
	// Secrets are the values that only Secrets contain, sorted.
	Secrets []string
	// FromSecrets are the values of each Secret separately.
	FromSecrets []map[string]any
}

// LayerError reports that a source of values cannot be merged. It never contains a value of a Secret.
type LayerError struct {
	Origin, Reason string
}

// Error names the source.
func (e *LayerError) Error() string { return fmt.Sprintf("values of %s: %s", e.Origin, e.Reason) }

// Merge merges values as Helm does with --values: maps are merged, anything else is replaced, and null removes a
// default. Errors: *LayerError.
func Merge(layers ...Layer) (Values, error) {
	v := Values{Merged: map[string]any{}}
	sealed := false
	var known []any
	var plain []string
	for _, layer := range layers {
		values, err := layer.values()
		if err != nil {
			return Values{}, err
		}
		if layer.TargetPath == "" {
			v.Merged = merge(v.Merged, values)
		} else if err := layer.set(v.Merged); err != nil {
			return Values{}, err
		}
		if layer.Sealed == "" {
			known, plain = append(known, values), scalars(plain, values)
			continue
		}
		sealed = true
		known = append(known, layer.Sealed, layer.Origin, layer.TargetPath)
		v.Secrets = scalars(v.Secrets, values)
		v.FromSecrets = append(v.FromSecrets, values)
	}
	if !sealed {
		return v, nil
	}
	slices.Sort(v.Secrets)
	v.Secrets = slices.Compact(slices.DeleteFunc(v.Secrets, func(secret string) bool { return slices.Contains(plain, secret) }))
	var err error
	v.Sealed, err = fingerprint(known)
	return v, err
}

// values returns the values of a single layer.
func (l Layer) values() (map[string]any, error) {
	values := map[string]any{}
	switch {
	case l.TargetPath != "":
		if err := l.set(values); err != nil {
			return nil, err
		}
		return values, l.setsOnlyTarget(values)
	case l.Text == "":
		return l.Values, nil
	}
	if err := weigh.YAML([]byte(l.Text)); err != nil {
		return nil, l.fail("it cannot be read", err)
	}
	if err := yaml.Unmarshal([]byte(l.Text), &values); err != nil {
		return nil, l.fail("not a map of values in YAML", err)
	}
	return values, nil
}

// set sets the one value of a layer by the rules of Flux's HelmRelease: quotes around it always make it a string
// (https://fluxcd.io/flux/components/helm/helmreleases/#values-references).
func (l Layer) set(into map[string]any) error {
	text, parse := strings.TrimRight(l.Text, "\r\n"), strvals.ParseInto
	for _, quote := range []string{`'`, `"`} {
		if len(text) > 1 && strings.HasPrefix(text, quote) && strings.HasSuffix(text, quote) {
			text, parse = strings.Trim(text, quote), strvals.ParseIntoString
			break
		}
	}
	if err := parse(l.TargetPath+"="+text, into); err != nil {
		return l.fail("it cannot be set at "+l.TargetPath+" as Helm's --set would; escape a comma with a backslash", err)
	}
	return nil
}

// setsOnlyTarget checks that a value of a Secret has set nothing but the target path: an unescaped comma ends the value
// and starts another path, which messages would print.
func (l Layer) setsOnlyTarget(set map[string]any) error {
	if l.Sealed == "" {
		return nil
	}
	model := map[string]any{}
	if err := strvals.ParseInto(l.TargetPath+"=x", model); err != nil {
		return l.fail("targetPath "+l.TargetPath+" is no path", nil)
	}
	if !within(set, model) {
		return l.fail("it would set more than "+l.TargetPath+": escape a comma with a backslash", nil)
	}
	return nil
}

// within reports whether a value has entries only where the model has them.
func within(value, model any) bool {
	switch model := model.(type) {
	case map[string]any:
		fields, isMap := value.(map[string]any)
		if !isMap {
			return false
		}
		for key, field := range fields {
			if below, has := model[key]; !has || !within(field, below) {
				return false
			}
		}
	case []any:
		items, isList := value.([]any)
		if !isList || len(items) != len(model) {
			return false
		}
		for i := range items {
			if !within(items[i], model[i]) {
				return false
			}
		}
	}
	return true
}

// fail adds the parser's message only if it cannot contain a Secret's value.
func (l Layer) fail(reason string, err error) error {
	if l.Sealed == "" && err != nil {
		reason += ": " + err.Error()
	}
	return &LayerError{Origin: l.Origin, Reason: reason}
}

// merge is the same as Helm's in pkg/cli/values. Neither map is modified.
func merge(under, over map[string]any) map[string]any {
	merged := maps.Clone(under)
	for key, value := range over {
		inner, isMap := value.(map[string]any)
		below, both := merged[key].(map[string]any)
		if isMap && both {
			value = merge(below, inner)
		}
		merged[key] = value
	}
	return merged
}

// scalars appends all single values in a value, as they would be printed.
func scalars(found []string, in any) []string {
	switch in := in.(type) {
	case nil, bool:
		return found
	case map[string]any:
		for _, value := range in {
			found = scalars(found, value)
		}
	case []any:
		for _, value := range in {
			found = scalars(found, value)
		}
	case float64: // as a template prints it
		found = append(found, strconv.FormatFloat(in, 'f', -1, 64))
	default:
		found = append(found, fmt.Sprint(in))
	}
	return found
}
