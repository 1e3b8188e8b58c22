package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// noRoomWarnings name the limits of a pool that leave no room for a replacement, because the change raises the size of its
// smallest node. When Karpenter looks for a replacement, it does not count the node that it replaces
// (SimulateScheduling in karpenter pkg/controllers/disruption/helpers.go, and calculateExistingNodeClaims in
// pkg/controllers/provisioning/scheduling/scheduler.go, 1.14.1). There is no warning if the size of the replaced nodes is unknown.
func (e poolEdit) noRoomWarnings(replaced []*NodeClaim) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(e.after.Spec.Limits)) {
		limit, runs := e.after.Spec.Limits[name], e.before.Status.Resources[name]
		smallest := e.smallest(name)
		frees, known := largest(replaced, name)
		room := limit.DeepCopy()
		room.Sub(runs)
		room.Add(frees)
		if !known || room.Cmp(smallest) >= 0 || slices.Contains(loweredLimits(e.before, e.after), name) {
			continue
		}
		found = append(found, fmt.Sprintf(
			"limits.%s %s leaves no room for a replacement: %s run, a new node has at least %s, and a node that is replaced frees at most %s: Karpenter launches none here before nodes are removed; raise the limit first",
			name, limit.String(), runs.String(), smallest.String(), frees.String()))
	}
	return found
}

// smallest is what the smallest node of the pool takes of a limit, after the change.
func (e poolEdit) smallest(limit corev1.ResourceName) resource.Quantity {
	smallest, _ := render.SmallestNode(e.desired, string(limit))
	if limit == corev1.ResourceCPU {
		if n := processors(e.after); smallest.CmpInt64(n) < 0 {
			return *resource.NewQuantity(n, resource.DecimalSI)
		}
	}
	return smallest
}

// largest is what the largest of some nodes takes of a limit, by the labels of their NodeClaims; not known if one has no such
// label, or if there is none.
func largest(claims []*NodeClaim, limit corev1.ResourceName) (most resource.Quantity, known bool) {
	label, unit := awsv1.LabelInstanceCPU, ""
	switch limit {
	case corev1.ResourceCPU:
	case corev1.ResourceMemory:
		label, unit = awsv1.LabelInstanceMemory, "Mi"
	default:
		return most, false
	}
	sizes := map[string]bool{}
	for _, c := range claims {
		value := c.Labels.value(label)
		if sizes[value] {
			continue
		}
		sizes[value] = true
		quantity, err := resource.ParseQuantity(value + unit)
		if err != nil {
			return most, false
		}
		if most.Cmp(quantity) < 0 {
			most = quantity
		}
	}
	return most, len(claims) > 0
}

// processors is how many the smallest instance has at least that requirements allow by instance sizes or types; 1 if they name
// none. A size has the same number in each family but those for HPC, where it has half of it
// (https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html).
func processors(pool *karpv1.NodePool) int64 {
	most, each := int64(1), int64(2)
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if r.Key == awsv1.LabelInstanceCategory && r.Operator == corev1.NodeSelectorOpIn && !slices.Contains(r.Values, "hpc") {
			each = 4
		}
	}
	for _, r := range pool.Spec.Template.Spec.Requirements {
		if r.Operator != corev1.NodeSelectorOpIn || len(r.Values) == 0 || r.Key != awsv1.LabelInstanceSize && r.Key != corev1.LabelInstanceTypeStable {
			continue
		}
		var sizes []int64
		for _, value := range r.Values {
			sizes = append(sizes, processorsOf(value[strings.LastIndex(value, ".")+1:], each))
		}
		most = max(most, slices.Min(sizes))
	}
	return most
}

// processorsOf is how many processors a size has at least, if an xlarge has so many.
func processorsOf(size string, xlarge int64) int64 {
	times, is := strings.CutSuffix(size, "xlarge")
	if !is {
		return 1
	}
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil {
		return xlarge
	}
	return n * xlarge
}
