package teardown

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
)

// restraint is what the removal's own manager applies to a pool, as a whole: what it leaves out of
// what it has applied before goes. So the disruption budgets, of which it owns all once it has
// applied any, are given back by name, and so are the labels of the template, which are one field to the API server.
func (d *drive) restraint(it *item, a Action) map[string]any {
	before := d.records.entries[it.before.UID].Growth
	spec := map[string]any{}
	// A cache that lags has not seen what was written over the budgets, which the record says was to be.
	budgets, paces := d.budgetsBefore(it), it.paces || before.Budgets != nil
	labels, label := maps.Clone(it.labels), it.labels[v1alpha1.LeavingLabel]
	delete(labels, v1alpha1.LeavingLabel)
	switch a := a.(type) {
	case RestoreGrowth:
		if before.CPU != nil {
			spec["limits"] = map[string]any{"cpu": before.CPU}
		}
		if before.Replicas != nil {
			spec["replicas"] = *before.Replicas
		}
		if paces && a.Paced {
			budgets = pacedBudgets(budgets, 0, time.Time{})
		}
	case Replace:
		if it.seen.Replacing == nil {
			// Never the one that it had before: what has been launched since has drifted, too.
			label = d.Now.UTC().Format("20060102T150405Z")
		}
		if labels == nil {
			labels = map[string]any{}
		}
		labels[v1alpha1.LeavingLabel] = label
		budgets, paces = pacedBudgets(budgets, a.Nodes, d.Now.Add(lent).Truncate(time.Minute)), true
		spec["limits"] = map[string]any{"cpu": "0"}
	default:
		spec["limits"] = map[string]any{"cpu": "0"}
		if paces { // what has drifted ends at the pace of the removal all the same
			budgets = pacedBudgets(budgets, 0, time.Time{})
		}
	}
	if paces {
		spec["disruption"] = map[string]any{"budgets": append([]any{}, budgets...)}
		if len(labels) > 0 {
			spec["template"] = map[string]any{"metadata": map[string]any{"labels": labels}}
		}
	}
	if len(spec) == 0 {
		return nil
	}
	return spec
}

// budgetsBefore are the disruption budgets of a pool as they were before the removal wrote any: the
// record's, or where it has none what is left of them.
func (d *drive) budgetsBefore(it *item) []any {
	if recorded := d.records.entries[it.before.UID].Growth.Budgets; recorded != nil {
		return recorded
	}
	return it.budgets
}

// keeps notes that a pod keeps Karpenter from replacing its node: it is not to be disrupted
// (ValidatePodsDisruptable in sigs.k8s.io/karpenter pkg/controllers/state/statenode.go), or it may run
// nowhere else.
func (p *podReader) keeps(node string, pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil {
		return
	}
	if blocker.Undisrupted(pod, p.now) {
		p.stays[node] = ""
		return
	}
	_, known := p.stays[node]
	if bound := poolFor(&pod.Spec); bound != "" && blocker.Drains(pod) && !known {
		p.stays[node] = bound
	}
}
