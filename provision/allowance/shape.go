package allowance

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// shape is what an open value may be. The chart writes most of them into YAML unchanged, some through tpl: a string of
// the wrong shape could add other fields to the Deployment.
type shape struct {
	// is describes what it should be.
	is   string
	fits func(value any) bool
	// expression is a regular expression for a whole string that fits; empty if there is none.
	expression string
}

// text allows values that are written as one plain word, number or bool.
func text(is string, fits func(string) bool) shape {
	return shape{is: is, fits: func(value any) bool {
		switch value := value.(type) {
		case string:
			return value == "" || fits(value)
		case float64:
			return fits(strconv.FormatFloat(value, 'f', -1, 64))
		case bool, int, int64:
			return fits(fmt.Sprint(value))
		}
		return false
	}}
}

// pattern compiles the expression on first use, because most processes never use it.
func pattern(is, expression string) shape {
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:` + expression + `)$`) })
	made := text(is, func(s string) bool { return compiled().MatchString(s) })
	made.expression = expression
	return made
}

var (
	flag     = pattern("true or false", `true|false`)
	number   = pattern("a number", `[0-9]{1,15}(\.[0-9]{1,20})?`)
	share    = pattern("a number or a percentage", `[0-9]{1,9}%?`)
	word     = pattern("a word", `[A-Za-z0-9][A-Za-z0-9._-]{0,252}`)
	endpoint = pattern("a URL", `https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._/-]*)?`)
	gates    = pattern("a list of Name=true or Name=false", `[A-Za-z]+=(true|false)(,[A-Za-z]+=(true|false))*`)
	duration = pattern("a duration", `0|([0-9]{1,9}(ns|us|ms)|[0-9]{1,6}(\.[0-9]{1,9})?(s|m)|[0-9]{1,5}(\.[0-9]{1,9})?h){1,6}`)
	amount   = text("a quantity", isQuantity)

	outputs = shape{is: "a list of stdout and stderr", fits: func(value any) bool {
		list, ok := value.([]any)
		return ok && !slices.ContainsFunc(list, func(one any) bool { return one != "stdout" && one != "stderr" })
	}}
	output = pattern("stdout or stderr", `std(out|err)(,std(out|err))*`)
	// labels and annotations pass through toYaml, as maps of words.
	labels = shape{is: "a map of labels", fits: func(value any) bool {
		return each(value, func(key string, value any) bool {
			s, ok := value.(string)
			return ok && len(validation.IsQualifiedName(key)) == 0 && len(validation.IsValidLabelValue(s)) == 0
		})
	}}
	// tree passes through toYaml, which keeps everything in its place.
	tree = shape{is: "a map or a list", fits: func(value any) bool {
		switch value.(type) {
		case nil, map[string]any, []any:
			return true
		}
		return false
	}}
)

func oneOf(words ...string) shape {
	return pattern("one of "+strings.Join(words, ", "), strings.Join(words, "|"))
}

// each reports whether holds is true for all entries of a map; it is false for anything else.
func each(value any, holds func(key string, value any) bool) bool {
	entries, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for key, value := range entries {
		if !holds(key, value) {
			return false
		}
	}
	return true
}

// isQuantity does not parse strings that take too long.
func isQuantity(s string) bool {
	if weigh.Quantity(s) != nil {
		return false
	}
	_, err := resource.ParseQuantity(s)
	return err == nil
}

// whole is a non-negative whole number.
var whole = pattern("a whole number", `[0-9]{1,9}|1[0-9]{9}`)

// few is the allowed number of pods.
var few = text(fmt.Sprintf("a whole number from 1 to %d", maxReplicas), func(s string) bool {
	n, err := strconv.ParseInt(s, 10, 32)
	return err == nil && n >= 1 && n <= maxReplicas
})

// metadataFields are all metadata fields of the charts' objects. Finalizers would keep an object forever, and an owner
// that does not exist would delete it.
var metadataFields = []string{"name", "namespace", "labels", "annotations", "creationTimestamp"}

// marks are the labels or the annotations of an object. They are a closed list, because other programs act on them.
type marks struct {
	// field of the metadata, and a word for one of them.
	field, word string
	// values of the chart that add to them, the most specific first; none if no value does.
	values []string
	// own are those that the charts themselves set; if the text is not empty, only to that.
	own map[string]string
}

// chartLabels are the charts' labels (karpenter.labels in _helpers.tpl).
var chartLabels = map[string]string{
	nameLabel: account, "app.kubernetes.io/instance": account, "app.kubernetes.io/managed-by": "Helm",
	"app.kubernetes.io/version": "", "helm.sh/chart": "",
}

// ChartLabels returns the charts' labels as a CEL condition on the label l among variables.labels, and those that each
// object must keep because the deletion guard and Helm identify it by them.
func ChartLabels() (condition string, kept []string) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(chartLabels)) {
		one := "l == '" + name + "'"
		if fixed := chartLabels[name]; fixed != "" {
			one = "(" + one + " && variables.labels[l] == '" + fixed + "')"
			kept = append(kept, name)
		}
		all = append(all, one)
	}
	return "(" + strings.Join(all, " || ") + ")", kept
}

// AnnotationExpressions returns the CEL conditions on the annotations of Karpenter's ServiceAccount and its Service:
// what other programs do for Karpenter depends on them, such as which token it presents to AWS. They use the policy's
// variables annotations, annotationsBefore (those before a change) and allowed (values of the chart that a NodeSync may
// allow). The IAM role has a separate condition.
func AnnotationExpressions() []Expression {
	allowed := func(values ...string) string {
		paths := []string{"'*'"}
		for _, value := range values {
			parent, _, _ := strings.Cut(value, ".")
			paths = append(paths, "'"+parent+"'", "'"+value+"'", "'"+value+".' + a", "'"+value+"[' + a + ']'")
		}
		return "[" + strings.Join(slices.Compact(paths), ", ") + "].exists(p, p in variables.allowed)"
	}
	const (
		same = "(a in variables.annotationsBefore && variables.annotationsBefore[a] == variables.annotations[a])"
		helm = "(a == 'meta.helm.sh/release-name' && variables.annotations[a] == 'karpenter') || (a == 'meta.helm.sh/release-namespace' && variables.annotations[a] == object.metadata.namespace)"
		role = "a == '" + roleAnnotation + "'"
	)
	accounts := allowed("serviceAccount.annotations", "additionalAnnotations")
	return []Expression{
		{
			"plumbline must not set annotations of Karpenter's ServiceAccount other than Helm's and its IAM role",
			"variables.annotations.all(a, " + same + " || " + role + " || " + helm + " || " + accounts + ")",
			"request.kind.kind != 'ServiceAccount'",
		},
		{
			"plumbline must not remove the annotations of Karpenter's ServiceAccount that EKS reads",
			"variables.annotationsBefore.all(a, !a.startsWith('" + eksAnnotations + "') || " + role + " || a in variables.annotations || " + accounts + ")",
			"request.kind.kind != 'ServiceAccount'",
		},
		{
			"plumbline must not set annotations of Karpenter's Service other than Helm's and those for Prometheus",
			"variables.annotations.all(a, " + same + " || a.startsWith('prometheus.io/') || " + helm + " || " + allowed("service.annotations", "additionalAnnotations") + ")",
			"request.kind.kind != 'Service'",
		},
	}
}

// crdAnnotations are those of the CRDs.
var crdAnnotations = map[string]string{"helm.sh/resource-policy": "keep", "controller-gen.kubebuilder.io/version": ""}

// metadata checks the object's metadata other than its name.
func (c *check) metadata() {
	labels := marks{field: "labels", word: "label", values: []string{"additionalLabels"}, own: chartLabels}
	annotations := marks{field: "annotations", word: "annotation", values: []string{"additionalAnnotations"}}
	switch c.object.GetKind() {
	case "Service":
		annotations.values = []string{"service.annotations", "additionalAnnotations"}
	case "ServiceAccount":
		annotations.values = []string{"serviceAccount.annotations", "additionalAnnotations"}
		annotations.own = map[string]string{roleAnnotation: ""} // serviceAccount checks it
	case "ServiceMonitor":
		labels.values = []string{"serviceMonitor.additionalLabels", "additionalLabels"}
	case "ClusterRole":
		if c.object.GetName() == aggregated {
			labels.own = maps.Clone(chartLabels)
			labels.own[aggregatedLabel] = "true"
		}
	case "CustomResourceDefinition":
		labels.values, labels.own = nil, nil
		annotations.values, annotations.own = nil, crdAnnotations
	}
	c.marked("metadata", labels, annotations)
	if c.object.GetKind() == "Deployment" {
		c.marked("spec.template.metadata",
			marks{field: "labels", word: "label of its pods,", values: []string{"podLabels"}, own: chartLabels},
			marks{field: "annotations", word: "annotation of its pods,", values: []string{"podAnnotations"}})
	}
}

// marked checks one metadata of the object, at a path.
func (c *check) marked(at string, all ...marks) {
	path := map[string][]string{"metadata": {"metadata"}, "spec.template.metadata": {"spec", "template", "metadata"}}[at]
	metadata, _, err := unstructured.NestedMap(c.object.Object, path...)
	if err != nil {
		c.refuse("is no such object")
		return
	}
	for _, field := range slices.Sorted(maps.Keys(metadata)) {
		if !slices.Contains(metadataFields, field) {
			c.refuse("has %s.%s, and no object of Karpenter's charts has that", at, field)
		}
	}
	for _, these := range all {
		found, _, err := unstructured.NestedStringMap(metadata, these.field)
		if err != nil && metadata[these.field] != nil {
			c.refuse("is no such object")
		}
		for _, key := range slices.Sorted(maps.Keys(found)) {
			if !c.markAllowed(these, key, found[key]) {
				c.mark(these, key)
			}
		}
	}
}

// markAllowed reports whether the charts themselves, or an allowed value, set a mark.
func (c *check) markAllowed(these marks, key, value string) bool {
	if fixed, own := these.own[key]; own && (fixed == "" || fixed == value) {
		return true
	}
	return slices.ContainsFunc(these.values, func(parent string) bool {
		if _, isOpen := shapeOf(parent); isOpen {
			return true
		}
		at := join(parent, key)
		_, isOpen := shapeOf(at)
		return isOpen || c.allowance.allows(at)
	})
}

// mark refuses one, and names the value that would allow it.
func (c *check) mark(these marks, key string) {
	r := Refusal{
		What: c.name(),
		Why:  "has the " + these.word + " " + key + ", which no chart of Karpenter's sets: other programs in the cluster act on those",
	}
	if len(these.values) > 0 {
		r.Field, r.Entry = fieldValues, join(these.values[0], key)
	}
	c.found = append(c.found, r)
}

// environment is the only list whose entries have names.
const environment = "controller.env"

// roleValue is the value with the controller's IAM role, for IRSA.
const (
	eksAnnotations = "eks.amazonaws.com/"
	roleAnnotation = eksAnnotations + "role-arn"
	roleValue      = "serviceAccount.annotations[" + roleAnnotation + "]"
)

// note is the value of an annotation, which passes through toYaml.
var note = shape{is: "a text", fits: func(value any) bool { _, ok := value.(string); return ok }}

// CheckValues returns the values of the main chart that must not be set. A null removes a default, so it counts like
// any other value at its path.
func (a Allowance) CheckValues(values map[string]any) []Refusal {
	w := &walk{allowance: a}
	w.checkEntries("", values)
	return w.found
}

type walk struct {
	allowance Allowance
	found     []Refusal
}

// checkEntries checks the entries of a map.
func (w *walk) checkEntries(at string, values map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		w.checkValue(join(at, key), values[key])
	}
}

// checkValue checks the value at a path.
func (w *walk) checkValue(at string, value any) {
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
		w.checkEntries(at, below)
	default:
		w.notOpen(at)
	}
}

// shaped checks an open value: its shape, its word, and the feature gates that it enables.
func (w *walk) shaped(at string, value any, wants shape) {
	if value != nil && !wants.fits(value) {
		w.refuse(at, Refusal{Why: "is not " + wants.is})
		return
	}
	if is, loosens := loosens[at]; loosens && value == is.word {
		w.refuse(at, Refusal{Why: whyTerminates})
	}
	if list, isText := value.(string); isText && at == variableAt(featureGates) {
		for _, path := range w.allowance.closedGates(list) {
			w.found = append(w.found,
				Refusal{What: "values." + at, Why: "turns on " + path + ", which " + closed[path].why, Field: fieldValues, Entry: path})
		}
	}
}

// notOpen refuses a value that is not open.
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

// unlisted returns the Refusal for a path that is in neither table: an entry of a closed map, or a value that no chart
// has.
func (w *walk) unlisted(at string) Refusal {
	for parent := at; parent != ""; {
		parent = parent[:max(strings.LastIndexAny(parent, ".["), 0)]
		if is, ok := closed[parent]; ok {
			return Refusal{Why: is.why}
		}
	}
	return Refusal{Why: "is no value of a chart that this plumbline knows", Unknown: true}
}

// refuse refuses a path, and names the entry that would allow it.
func (w *walk) refuse(at string, r Refusal) {
	r.What, r.Field, r.Entry = "values."+at, fieldValues, at
	w.found = append(w.found, r)
}

// variables checks controller.env, where a name may occur twice.
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
			w.checkValue(at, variable["value"])
		}
	}
}

// harmless reports whether a closed value changes nothing, because it equals the default of the chart or of the
// controller.
func (w *walk) harmless(is limit, value any) bool {
	if own := w.allowance.CABundle; is.own && own != "" && value == own {
		return true
	}
	return slices.ContainsFunc(is.harmless, func(one any) bool { return reflect.DeepEqual(one, value) })
}

// inside reports whether there are values below a path.
func inside(at string) bool {
	for _, known := range slices.Concat(slices.Collect(maps.Keys(open)), slices.Collect(maps.Keys(closed))) {
		if strings.HasPrefix(known, at+".") || strings.HasPrefix(known, at+"[") {
			return true
		}
	}
	return false
}

// shapeOf returns the shape of an open path.
func shapeOf(at string) (shape, bool) {
	if is, ok := open[at]; ok {
		return is, true
	}
	domain, _, _ := strings.Cut(at, "/")
	is, ok := open[domain+"/*]"]
	return is, ok && strings.HasSuffix(at, "]")
}
