package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// difference is one place where an object is not as it should be. Its path
// has only map keys: a list is compared as a whole.
type difference struct {
	path     []string
	from, to any
}

// differences compares what lives with what should: the whole spec, and of the
// labels and annotations those that Git or we write.
func differences(live, desired *unstructured.Unstructured) []difference {
	found := compare([]string{"spec"}, live.Object["spec"], desired.Object["spec"])
	found = append(found, metadata("labels", live.GetLabels(), desired.GetLabels())...)
	return append(found, metadata("annotations", live.GetAnnotations(), desired.GetAnnotations())...)
}

// Changed are the fields of what was applied that came back otherwise: a mutating webhook
// or policy of the cluster has changed them on the way. What was added is an Extra of the next Plan,
// and what is ignored may be changed.
func Changed(applied, answer *unstructured.Unstructured, ignored [][]string) []Field {
	all := within([]string{"spec"}, answer.Object["spec"], applied.Object["spec"])
	all = append(all, metadata("labels", answer.GetLabels(), applied.GetLabels())...)
	all = append(all, metadata("annotations", answer.GetAnnotations(), applied.GetAnnotations())...)
	var found []Field
	for _, d := range all {
		if !slices.ContainsFunc(ignored, func(path []string) bool { return begins(d.path, path) }) {
			found = append(found, d.fields()...)
		}
	}
	return found
}

// within compares only what is wanted.
func within(path []string, live, desired any) []difference {
	wanted, isMap := desired.(map[string]any)
	if was, both := live.(map[string]any); isMap && (both || live == nil) {
		var found []difference
		for _, key := range slices.Sorted(maps.Keys(wanted)) {
			found = append(found, within(append(slices.Clone(path), key), was[key], wanted[key])...)
		}
		return found
	}
	if equal(live, desired) {
		return nil
	}
	return []difference{{path: path, from: live, to: desired}}
}

func metadata(kind string, live, desired map[string]string) []difference {
	var found []difference
	for _, key := range slices.Sorted(maps.Keys(desired)) {
		if was, ok := live[key]; !ok || was != desired[key] {
			d := difference{path: []string{"metadata", kind, key}, to: desired[key]}
			if ok {
				d.from = was
			}
			found = append(found, d)
		}
	}
	return found
}

// compare descends through maps that both sides have, in the order of the keys.
func compare(path []string, live, desired any) []difference {
	was, isMap := live.(map[string]any)
	wanted, wantsMap := desired.(map[string]any)
	if equal(live, desired) {
		return nil
	}
	if (isMap || live == nil) && (wantsMap || desired == nil) && (isMap || wantsMap) && len(was)+len(wanted) > 0 {
		keys := slices.Sorted(maps.Keys(was))
		for key := range wanted {
			if _, both := was[key]; !both {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		var found []difference
		for _, key := range keys {
			found = append(found, compare(append(slices.Clone(path), key), was[key], wanted[key])...)
		}
		return found
	}
	return []difference{{path: path, from: live, to: desired}}
}

// canonical writes a value as JSON, with the keys of maps in order.
func canonical(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(raw)
}

// fields breaks a difference up for reading: lists of one length by their
// elements.
func (d difference) fields() []Field {
	return leaves(name(d.path), d.from, d.to)
}

func leaves(path string, from, to any) []Field {
	was, isList := from.([]any)
	wanted, wantsList := to.([]any)
	if isList && wantsList && len(was) == len(wanted) {
		var found []Field
		for i := range was {
			found = append(found, leaves(fmt.Sprintf("%s[%d]", path, i), was[i], wanted[i])...)
		}
		return found
	}
	_, isMap := from.(map[string]any)
	_, wantsMap := to.(map[string]any)
	if isMap && wantsMap {
		var found []Field
		for _, d := range compare(nil, from, to) {
			found = append(found, leaves(path+"."+name(d.path), d.from, d.to)...)
		}
		return found
	}
	if equal(from, to) {
		return nil
	}
	return []Field{{Path: path, From: text(from), To: text(to)}}
}

// name writes a path as people do: spec.limits.cpu, metadata.labels[a.b/c].
func name(path []string) string {
	var b strings.Builder
	for i, key := range path {
		switch {
		case strings.ContainsAny(key, "./"):
			b.WriteString("[" + key + "]")
		case i > 0:
			b.WriteString("." + key)
		default:
			b.WriteString(key)
		}
	}
	return b.String()
}

// text writes a value: a string as it is, all else as JSON; nothing for nothing.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	return canonical(value)
}
