package allowance

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// metadataFields are all that the charts' objects have of metadata. Finalizers would keep
// an object for ever, and an owner that does not exist would delete it.
var metadataFields = []string{"name", "namespace", "labels", "annotations", "creationTimestamp"}

// marks are the labels or the annotations of an object. Other programs act on them, so
// that they are a closed list.
type marks struct {
	// field of the metadata, and a word for one of them.
	field, word string
	// values of the chart that add to them, the most particular first; none where no
	// value does.
	values []string
	// own are what the charts set by themselves; with a text, only to that.
	own map[string]string
}

// chartLabels are the charts' labels (karpenter.labels in _helpers.tpl).
var chartLabels = map[string]string{
	nameLabel: account, "app.kubernetes.io/instance": account, "app.kubernetes.io/managed-by": "Helm",
	"app.kubernetes.io/version": "", "helm.sh/chart": "",
}

// ChartLabels are the charts' labels as a condition in CEL on the label l among variables.labels, and those of them that each
// object keeps: by these the deletion guard and Helm know it.
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

// crdAnnotations are those of the CRDs.
var crdAnnotations = map[string]string{"helm.sh/resource-policy": "keep", "controller-gen.kubebuilder.io/version": ""}

// metadata checks what stands about the object beside its name.
func (c *check) metadata() {
	labels := marks{field: "labels", word: "label", values: []string{"additionalLabels"}, own: chartLabels}
	annotations := marks{field: "annotations", word: "annotation", values: []string{"additionalAnnotations"}}
	switch c.object.GetKind() {
	case "Service":
		annotations.values = []string{"service.annotations", "additionalAnnotations"}
	case "ServiceAccount":
		annotations.values = []string{"serviceAccount.annotations", "additionalAnnotations"}
		annotations.own = map[string]string{roleAnnotation: ""} // serviceAccount looks at it
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

// marked checks one metadata of the object, which stands at a path.
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

// markAllowed says whether the charts themselves set a mark, or a value that is allowed.
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

// mark refuses one, with the value that would allow it.
func (c *check) mark(these marks, key string) {
	r := Refusal{What: c.name(), Why: "has the " + these.word + " " + key + ", which no chart of Karpenter's sets: other programs in the cluster act on those"}
	if len(these.values) > 0 {
		r.Field, r.Entry = fieldValues, join(these.values[0], key)
	}
	c.found = append(c.found, r)
}
