package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Pod is a pod on a node of Karpenter that is evicted when the node is drained.
type Pod struct {
	Namespace, Name, Node string
	Labels                map[string]string
	// Undisrupted reports whether its annotation karpenter.sh/do-not-disrupt forbids its eviction without an end. A pod that
	// ends by itself, of a Job, has none.
	Undisrupted bool
}

// undrainable checks that nodes can be drained.
func undrainable() Check {
	return Check{
		ID: "undrainable-pods",
		Why: "a node that never drains blocks the rollout of a new AMI, an upgrade and the removal of its pool, " +
			"and is noticed only when it is urgent",
		needs: []source{ofPools, ofPods},
		look:  lookAtUndrainable,
	}
}

func lookAtUndrainable(o Observed) (string, []Finding) {
	if o.Pods.Err != nil {
		return "pods on nodes of Karpenter", unread(o.Pods.Err)
	}
	looked := fmt.Sprintf("%d pods on nodes of Karpenter without terminationGracePeriod", len(o.Pods.Of))
	if o.Budgets.Err != nil {
		return looked, append(unread(o.Budgets.Err), o.annotated()...)
	}
	return looked, append(o.blockedByBudgets(), o.annotated()...)
}

// blockedByBudgets returns the PodDisruptionBudgets that never allow an eviction of a pod, and pods with several budgets,
// which the API server never evicts (https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/).
func (o Observed) blockedByBudgets() []Finding {
	var found []Finding
	names := map[string][]string{}
	for i := range o.Budgets.Of {
		budget := &o.Budgets.Of[i]
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || budget.Spec.Selector == nil {
			continue
		}
		var pods []string
		for _, p := range o.Pods.Of {
			if p.Namespace == budget.Namespace && selector.Matches(labels.Set(p.Labels)) {
				pods = append(pods, p.Name)
				names[p.Namespace+"/"+p.Name] = append(names[p.Namespace+"/"+p.Name], budget.Name)
			}
		}
		if len(pods) > 0 && never(budget) {
			found = append(found, budgetFinding(budget, pods))
		}
	}
	for _, pod := range slices.Sorted(maps.Keys(names)) {
		if budgets := names[pod]; len(budgets) > 1 {
			found = append(found, Finding{
				Status:  Problem,
				Message: fmt.Sprintf("pod %s has several PodDisruptionBudgets (%s), so it cannot be evicted", pod, strings.Join(budgets, ", ")),
				Fix:     "change their selectors, so that each pod has at most one",
			})
		}
	}
	return found
}

// never reports whether a budget does not allow an eviction even if all of its pods are healthy.
func never(b *policyv1.PodDisruptionBudget) bool {
	return b.Status.ExpectedPods > 0 && b.Status.DesiredHealthy >= b.Status.ExpectedPods && b.Status.DisruptionsAllowed == 0
}

func budgetFinding(b *policyv1.PodDisruptionBudget, pods []string) Finding {
	return Finding{
		Status: Problem,
		Message: fmt.Sprintf("PodDisruptionBudget %s/%s never allows an eviction (%d of %d pods must be healthy): %s",
			b.Namespace, b.Name, b.Status.DesiredHealthy, b.Status.ExpectedPods, some(pods)),
		Fix: "run one more replica, or: kubectl patch poddisruptionbudget " + b.Name + " -n " + b.Namespace +
			` --type=merge -p '{"spec":{"minAvailable":null,"maxUnavailable":1}}'`,
	}
}

// annotated returns the pods whose annotation forbids their eviction without an end.
func (o Observed) annotated() []Finding {
	var pods []string
	for _, p := range o.Pods.Of {
		if p.Undisrupted {
			pods = append(pods, p.Namespace+"/"+p.Name)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	return []Finding{{
		Status:  Warning,
		Message: "pods are annotated karpenter.sh/do-not-disrupt without an end, and belong to no Job: " + some(pods),
		Fix: "give the annotation a duration, such as 4h, or set spec.template.spec.terminationGracePeriod of their NodePools, " +
			"after which Karpenter evicts them",
	}}
}

// mostNames is how many objects a message names.
const mostNames = 5

// some returns the first names, and how many others there are.
func some(names []string) string {
	names = slices.Sorted(slices.Values(names))
	if len(names) <= mostNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames], ", "), len(names)-mostNames)
}
