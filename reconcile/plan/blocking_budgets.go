package plan

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Blocking finds the PodDisruptionBudgets that allow no disruption of a pod now. Each pod is only compared with the
// budgets that one of its labels leads to: a namespace may have thousands of both.
type Blocking struct {
	all     []policyv1.PodDisruptionBudget
	selects []labels.Selector
	// by are the budgets that allow no disruption, by namespace and one label that they select; without that label, if
	// they select none.
	by map[selectedLabel][]int
}

type selectedLabel struct{ namespace, key, value string }

// BlockingBudgets returns those of some PodDisruptionBudgets. An invalid or missing selector selects nothing; an empty
// one selects all pods of its namespace.
func BlockingBudgets(budgets []policyv1.PodDisruptionBudget) *Blocking {
	b := &Blocking{all: budgets, selects: make([]labels.Selector, len(budgets)), by: map[selectedLabel][]int{}}
	for i := range budgets {
		if budgets[i].Status.DisruptionsAllowed != 0 {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(budgets[i].Spec.Selector)
		if err != nil || budgets[i].Spec.Selector == nil {
			continue
		}
		of := selectedLabel{namespace: budgets[i].Namespace}
		if wanted := budgets[i].Spec.Selector.MatchLabels; len(wanted) > 0 {
			of.key = slices.Min(slices.Collect(maps.Keys(wanted)))
			of.value = wanted[of.key]
		}
		b.selects[i], b.by[of] = selector, append(b.by[of], i)
	}
	return b
}

// of returns the indices of the budgets that allow no disruption of a pod, in their order.
func (b *Blocking) of(pod *corev1.Pod) []int {
	var found []int
	match := func(of selectedLabel) {
		for _, i := range b.by[of] {
			if b.selects[i].Matches(labels.Set(pod.Labels)) {
				found = append(found, i)
			}
		}
	}
	match(selectedLabel{namespace: pod.Namespace})
	for key, value := range pod.Labels {
		match(selectedLabel{namespace: pod.Namespace, key: key, value: value})
	}
	slices.Sort(found)
	return found
}

// First returns the first budget that allows no disruption of a pod; nil if there is none.
func (b *Blocking) First(pod *corev1.Pod) *policyv1.PodDisruptionBudget {
	if found := b.of(pod); len(found) > 0 {
		return &b.all[found[0]]
	}
	return nil
}
