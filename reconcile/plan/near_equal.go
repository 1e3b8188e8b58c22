package plan

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// offer is what the nodes of a NodePool are to pods: their labels, and the taints that keep pods away.
type offer struct {
	name            string
	requirements    scheduling.Requirements
	taints, startup []corev1.Taint
	// grows says that the pool launches nodes for pods.
	grows bool
	// spec is the pool's but for its class, and text is the same, written out.
	spec map[string]any
	text string
}

// offerOf reads a NodePool; false where it cannot be read.
func offerOf(pool *unstructured.Unstructured) (offer, bool) {
	read, err := typed[karpv1.NodePool](pool)
	if err != nil {
		return offer{}, false
	}
	template := read.Spec.Template
	o := offer{
		name: pool.GetName(), grows: MayGrow(pool), taints: template.Spec.Taints, startup: template.Spec.StartupTaints, spec: runtime.DeepCopyJSON(specOf(pool)),
		requirements: scheduling.NewNodeSelectorRequirementsWithMinValues(template.Spec.Requirements...),
	}
	o.requirements.Add(scheduling.NewLabelRequirements(template.Labels).Values()...)
	unstructured.RemoveNestedField(o.spec, "template", "spec", "nodeClassRef")
	o.text = canonical(o.spec)
	return o, true
}

// same says that two pools differ in nothing but their names, and those of their classes.
func (o offer) same(other offer) bool { return o.text == other.text || equal(o.spec, other.spec) }

// takes says whether pods that run on nodes of another pool may run on those of this one, and names
// the labels of which it has only some of the values: each of the two is near-equal to the other but
// for these.
func (o offer) takes(other offer) (partly []string, ok bool) {
	if !o.grows || !onlyTaintsOf(o.taints, other.taints) || !onlyTaintsOf(o.startup, other.startup) {
		return nil, false
	}
	for _, key := range labelsOf(o.requirements, other.requirements) {
		switch {
		case o.hasAll(key, other):
		case !o.hasSome(key, other):
			return nil, false
		case !sized(key):
			partly = append(partly, key)
		}
	}
	return partly, true
}

// takesAny says whether it takes the place of another, if only together with others.
func (o offer) takesAny(other offer) bool {
	_, ok := o.takes(other)
	return ok
}

// onlyTaintsOf says whether nodes have no taint beside those that pods tolerate already. One that only
// asks the scheduler to prefer others keeps no pod away.
func onlyTaintsOf(taints, others []corev1.Taint) bool {
	return !slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(others, func(known corev1.Taint) bool {
			return known.MatchTaint(&t) && known.Value == t.Value
		})
	})
}

// sized says of a label that it tells what an instance is like: pods ask for processors, memory and
// devices, and few of them for a family or a size.
func sized(key string) bool {
	return key == corev1.LabelInstanceTypeStable || strings.HasPrefix(key, "karpenter.k8s.aws/")
}

// hasAll says whether nodes of this pool have each value of a label that nodes of another may have.
func (o offer) hasAll(key string, other offer) bool {
	values, known := other.values(key)
	switch {
	case !other.requirements.Has(key) && !karpv1.WellKnownLabels.Has(key) && !sized(key):
		return true // no pod asks for a label that its nodes have not
	case !o.requirements.Has(key):
		return karpv1.WellKnownLabels.Has(key) || sized(key) || known && len(values) == 0
	case known:
		return !slices.ContainsFunc(values, func(value string) bool { return !o.requirements.Get(key).Has(value) })
	}
	return o.requirements.Get(key).String() == other.requirements.Get(key).String()
}

// hasSome says whether a label may have a value that nodes of both pools have.
func (o offer) hasSome(key string, other offer) bool {
	if !o.requirements.Has(key) && !karpv1.WellKnownLabels.Has(key) && !sized(key) {
		return false
	}
	return o.requirements.Get(key).HasIntersection(other.requirements.Get(key))
}

// everyValue are all values of labels that have few.
var everyValue = map[string][]string{
	corev1.LabelArchStable:      {karpv1.ArchitectureAmd64, karpv1.ArchitectureArm64},
	corev1.LabelOSStable:        {string(corev1.Linux), string(corev1.Windows)},
	karpv1.CapacityTypeLabelKey: {karpv1.CapacityTypeOnDemand, karpv1.CapacityTypeSpot, karpv1.CapacityTypeReserved},
}

// values are those that a label of its nodes may have; known is false where nobody can list them.
func (o offer) values(key string) (values []string, known bool) {
	requirement := o.requirements.Get(key)
	switch requirement.Operator() {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpDoesNotExist:
		return requirement.Values(), true
	default:
		every, known := everyValue[key]
		return slices.DeleteFunc(slices.Clone(every), func(value string) bool { return !requirement.Has(value) }), known
	}
}

// labelsOf are the labels that either asks for, sorted.
func labelsOf(a, b scheduling.Requirements) []string {
	keys := a.Keys().Union(b.Keys()).UnsortedList()
	slices.Sort(keys)
	return keys
}

// together says whether the nodes of some pools, each of which lacks values of one label, have all of
// them together: a pool was split by it.
func together(key string, parts []offer, whole offer) bool {
	values, known := whole.values(key)
	return known && len(parts) > 1 && !slices.ContainsFunc(values, func(value string) bool {
		return !slices.ContainsFunc(parts, func(part offer) bool { return part.requirements.Get(key).Has(value) })
	})
}
