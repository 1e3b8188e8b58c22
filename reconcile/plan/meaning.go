package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/confine/weigh"
)

// A measure writes a value in the one form that all values have which mean the same.
type measure func(value any) any

// measures are the fields of definitions that can be written in more than one way. Of a map
// it is all values (karpenter pkg/apis/v1 and karpenter-provider-aws pkg/apis/v1, 1.14.1).
func measures(path string) measure {
	switch path {
	case "spec.limits", "spec.blockDeviceMappings[].ebs.volumeSize",
		"spec.kubelet.systemReserved", "spec.kubelet.kubeReserved", "spec.kubelet.evictionHard", "spec.kubelet.evictionSoft":
		return quantity
	case "spec.disruption.consolidateAfter", "spec.disruption.budgets[].duration",
		"spec.template.spec.expireAfter", "spec.template.spec.terminationGracePeriod", "spec.kubelet.evictionSoftGracePeriod":
		return duration
	}
	return nil
}

// unordered are the lists whose order means nothing.
func unordered(path string) bool {
	switch path {
	case "spec.template.spec.requirements", "spec.template.spec.requirements[].values",
		"spec.template.spec.taints", "spec.template.spec.startupTaints",
		"spec.disruption.budgets", "spec.disruption.budgets[].reasons":
		return true
	}
	return false
}

// quantity writes 100 for 100000m; what is no quantity stays.
func quantity(value any) any {
	written := fmt.Sprint(value)
	if weigh.Quantity(written) != nil {
		return value
	}
	amount, err := resource.ParseQuantity(written)
	if err != nil {
		return value
	}
	return resource.NewDecimalQuantity(*amount.AsDec(), resource.DecimalSI).String()
}

// duration writes 5m0s for 300s; what is no duration, as Never, stays.
func duration(value any) any {
	written, _ := value.(string)
	length, err := time.ParseDuration(written)
	if err != nil {
		return value
	}
	return length.String()
}

// meaning is a value in which everything that means the same is written the same way.
func meaning(path []string, value any) any {
	at := strings.Join(path, ".")
	if len(path) > 0 {
		if inMap := measures(strings.Join(path[:len(path)-1], ".")); inMap != nil {
			return inMap(value)
		}
	}
	switch v := value.(type) {
	case nil:
		return nil
	case map[string]any:
		same := make(map[string]any, len(v))
		for key, within := range v {
			same[key] = meaning(append(slices.Clone(path), key), within)
		}
		return same
	case []any:
		same := make([]any, len(v))
		for i, within := range v {
			same[i] = meaning([]string{at + "[]"}, within)
		}
		if unordered(at) {
			slices.SortFunc(same, func(a, b any) int { return strings.Compare(canonical(a), canonical(b)) })
		}
		return same
	}
	if one := measures(at); one != nil {
		return one(value)
	}
	return value
}

// equalInMeaning says that both sides of a difference mean the same: 100 and 100000m, 5m and
// 300s, requirements in another order.
func (d difference) equalInMeaning() bool {
	return d.from != nil && d.to != nil && equal(meaning(d.path, d.from), meaning(d.path, d.to))
}

// outdatesNothing says that nodes are as outdated with a difference as they are without it.
func (d difference) outdatesNothing(live *unstructured.Unstructured) bool {
	with := &unstructured.Unstructured{Object: map[string]any{"kind": live.GetKind(), "spec": live.Object["spec"]}}
	with = with.DeepCopy()
	if err := unstructured.SetNestedField(with.Object, d.to, d.path...); err != nil {
		return false
	}
	return !outdated(live, with)
}

// sameMeaning says that two definitions differ in nothing but how it is written, which
// Karpenter does not see either.
func sameMeaning(a, b *unstructured.Unstructured) bool {
	return a == b || equal(a.Object, b.Object) || equal(meaning(nil, a.Object), meaning(nil, b.Object)) && !outdated(a, b)
}
