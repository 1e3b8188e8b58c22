package karpenter

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/nearest"
)

// UnknownValue is a value that the main chart does not have: Helm would take it
// and do nothing with it.
type UnknownValue struct {
	Path string `json:"path"`
	// Meant is the value that was most likely meant; empty where none comes near.
	Meant string `json:"meant,omitempty"`
	// Gone is set where an older chart had it.
	Gone *Setting `json:"gone,omitempty"`
}

// String says what to do about it.
func (u UnknownValue) String() string {
	switch {
	case u.Meant != "":
		return fmt.Sprintf("%s: the chart has no such value; did you mean %s?", u.Path, u.Meant)
	case u.Gone != nil:
		return u.Gone.String()
	}
	return u.Path + ": the chart has no such value"
}

// Unknown finds the values that the main chart does not have, by the defaults in
// its values.yaml. Below a default that is empty (a map, a list, null) or a list
// everything is known, and so it is below the maps that the chart hands to
// Kubernetes as they are.
func Unknown(values, chart map[string]any) []UnknownValue {
	w := walk{chart: chart}
	w.into("", values, chart)
	return w.found
}

// wholesale are the maps with defaults that the chart hands to Kubernetes as they
// are: KPA charts/karpenter/templates/deployment.yaml, toYaml.
var wholesale = []string{"affinity", "controller.securityContext", "nodeSelector", "podSecurityContext", "strategy"}

// global is Helm's own, for all charts.
const global = "global"

// CheckValues refuses values that the main chart of version to does not know, and settings
// that it has no more. chart are that chart's own values; from is the version in force,
// empty where none is.
func CheckValues(values, chart map[string]any, from, to string) error {
	var words []string
	for _, unknown := range Unknown(values, chart) {
		words = append(words, unknown.String())
	}
	if len(words) == 0 && from != "" {
		gone, err := Gone(values, from, to)
		if err != nil {
			return err
		}
		for _, setting := range gone {
			words = append(words, setting.String())
		}
	}
	if len(words) > 0 {
		return &ValuesError{Version: to, Words: words}
	}
	return nil
}

// ValuesError says that values are not for a version of the main chart.
type ValuesError struct {
	Version string
	// Words say of each what to do about it.
	Words []string
}

// Error names each of them.
func (e *ValuesError) Error() string {
	return fmt.Sprintf("values in plumbline.yaml that chart karpenter %s does not use: %s", e.Version, strings.Join(e.Words, "; "))
}

type walk struct {
	chart map[string]any
	found []UnknownValue
}

// into compares the values at a path with the defaults there.
func (w *walk) into(at string, values, defaults map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		path := join(at, key)
		byDefault, known := defaults[key]
		below, isMap := values[key].(map[string]any)
		inside, defaultIsMap := byDefault.(map[string]any)
		switch {
		case path == global || slices.Contains(wholesale, path):
		case !known && isMap && hasPast(path):
			w.into(path, below, nil) // each of them has a history of its own
		case !known:
			w.report(path, key, defaults)
		case isMap && defaultIsMap && len(inside) > 0:
			w.into(path, below, inside)
		case isMap && !defaultIsMap && isScalar(byDefault):
			w.into(path, below, nil)
		}
	}
}

func (w *walk) report(path, key string, beside map[string]any) {
	u := UnknownValue{Path: path, Gone: past(path)}
	if u.Gone != nil {
		u.Meant = w.successor(*u.Gone)
	} else {
		u.Meant = w.meant(path, key, beside)
	}
	w.found = append(w.found, u)
}

// successor follows a setting through its names to one that the chart has.
func (w *walk) successor(s Setting) string {
	for s.Now != "" {
		if w.has(s.Now) {
			return s.Now
		}
		next := past(s.Now)
		if next == nil {
			break
		}
		s = *next
	}
	return ""
}

// meant is the value beside it whose name is nearly the same, or the one value
// elsewhere in the chart whose name is the same.
func (w *walk) meant(path, key string, beside map[string]any) string {
	if name := nearest.Name(key, slices.Sorted(maps.Keys(beside))); name != "" {
		at := strings.TrimSuffix(path, key)
		return at + name
	}
	if same := places(key, "", w.chart); len(same) == 1 {
		return same[0]
	}
	return ""
}

// has says whether the chart has a value of this path.
func (w *walk) has(path string) bool {
	return Setting{Path: path}.in(w.chart)
}

// places are the paths of all values of a name.
func places(key, at string, in map[string]any) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(in)) {
		path := join(at, name)
		if slices.Contains(wholesale, path) {
			continue
		}
		if strings.EqualFold(name, key) {
			found = append(found, path)
		}
		if below, ok := in[name].(map[string]any); ok {
			found = append(found, places(key, path, below)...)
		}
	}
	return found
}

// past finds what became of a value that an older chart had.
func past(path string) *Setting {
	for _, s := range settings {
		if s.Path == path {
			return &s
		}
	}
	return nil
}

// hasPast says whether older charts had values below a path.
func hasPast(path string) bool {
	return slices.ContainsFunc(settings, func(s Setting) bool { return strings.HasPrefix(s.Path, path+".") })
}

func isScalar(value any) bool {
	switch value.(type) {
	case nil, []any, map[string]any:
		return false
	}
	return true
}

func join(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}
