package allowance

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// environment is the one list whose entries have names of their own.
const environment = "controller.env"

// roleValue is where the chart has the controller's IAM role, by IRSA.
const (
	roleAnnotation = "eks.amazonaws.com/role-arn"
	roleValue      = "serviceAccount.annotations[" + roleAnnotation + "]"
)

// note is the value of an annotation, which goes through toYaml.
var note = shape{is: "a text", fits: func(value any) bool { _, ok := value.(string); return ok }}

// CheckValues says which values of the main chart may not be set. A value that is
// null takes a default away, so that it is one of its path like any other.
func (a Allowance) CheckValues(values map[string]any) []Refusal {
	w := &walk{allowance: a}
	w.into("", values)
	return w.found
}

type walk struct {
	allowance Allowance
	found     []Refusal
}

// into goes through the entries of a map.
func (w *walk) into(at string, values map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		w.look(join(at, key), values[key])
	}
}

// look judges what stands at a path.
func (w *walk) look(at string, value any) {
	if w.allowance.allows(at) {
		return
	}
	if wants, ok := shapeOf(at); ok {
		w.shaped(at, value, wants)
		return
	}
	if at == roleValue && slices.ContainsFunc(w.allowance.ControllerRoles, func(role string) bool { return value == role }) {
		return
	}
	if is, isClosed := closed[at]; isClosed && w.harmless(is, value) {
		return
	}
	below, isMap := value.(map[string]any)
	switch {
	case at == environment:
		w.variables(value)
	case isMap && (inside(at) || keyed[at]):
		w.into(at, below)
	default:
		w.notOpen(at)
	}
}

// shaped judges an open value by its shape, and the feature gates that it turns on.
func (w *walk) shaped(at string, value any, wants shape) {
	if value != nil && !wants.fits(value) {
		w.refuse(at, Refusal{Why: "is not " + wants.is})
		return
	}
	if list, isText := value.(string); isText && at == variableAt(featureGates) {
		for _, path := range w.allowance.closedGates(list) {
			w.found = append(w.found, Refusal{What: "values." + at, Why: "turns on " + path + ", which " + closed[path].why, Field: fieldValues, Entry: path})
		}
	}
}

// notOpen refuses a value that is none of the open ones.
func (w *walk) notOpen(at string) {
	switch is, isClosed := closed[at]; {
	case isClosed && is.never:
		w.found = append(w.found, Refusal{What: "values." + at, Why: is.why})
	case isClosed:
		w.refuse(at, Refusal{Why: is.why})
	case inside(at):
		w.refuse(at, Refusal{Why: "is no map: it takes the place of all the values below"})
	default:
		w.refuse(at, w.unlisted(at))
	}
}

// unlisted is the Refusal of a path that is in neither table: an entry of a closed
// map, or a value that is known to no chart.
func (w *walk) unlisted(at string) Refusal {
	for parent := at; parent != ""; {
		parent = parent[:max(strings.LastIndexAny(parent, ".["), 0)]
		if is, ok := closed[parent]; ok {
			return Refusal{Why: is.why}
		}
	}
	return Refusal{Why: "is no value of a chart that this plumbline knows", Unknown: true}
}

// refuse names a path, and the entry that would allow it.
func (w *walk) refuse(at string, r Refusal) {
	r.What, r.Field, r.Entry = "values."+at, fieldValues, at
	w.found = append(w.found, r)
}

// variables looks at controller.env, where a name may come up twice.
func (w *walk) variables(value any) {
	list, ok := value.([]any)
	if !ok {
		w.refuse(environment, Refusal{Why: "is not a list"})
		return
	}
	for i, one := range list {
		variable, _ := one.(map[string]any)
		name, _ := variable["name"].(string)
		at := variableAt(name)
		switch {
		case name == "":
			w.refuse(environment, Refusal{Why: fmt.Sprintf("has no name in its entry %d", i)})
		case w.allowance.allows(at):
		case slices.ContainsFunc(slices.Collect(maps.Keys(variable)), func(key string) bool { return key != "name" && key != "value" }):
			w.refuse(at, Refusal{Why: "takes its value from elsewhere"})
		default:
			w.look(at, variable["value"])
		}
	}
}

// harmless says that a closed value changes nothing: it is what the chart, or the controller, does
// without it.
func (w *walk) harmless(is limit, value any) bool {
	if own := w.allowance.CABundle; is.own && own != "" && value == own {
		return true
	}
	return slices.ContainsFunc(is.harmless, func(one any) bool { return reflect.DeepEqual(one, value) })
}

// inside says that values stand below a path.
func inside(at string) bool {
	for _, known := range slices.Concat(slices.Collect(maps.Keys(open)), slices.Collect(maps.Keys(closed))) {
		if strings.HasPrefix(known, at+".") || strings.HasPrefix(known, at+"[") {
			return true
		}
	}
	return false
}

// shapeOf is what an open path may be.
func shapeOf(at string) (shape, bool) {
	if is, ok := open[at]; ok {
		return is, true
	}
	domain, _, _ := strings.Cut(at, "/")
	is, ok := open[domain+"/*]"]
	return is, ok && strings.HasSuffix(at, "]")
}
