package plan

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// ReasonSettling is the reason of a NodePool that Git has again, and that has all but its disruption budgets.
const ReasonSettling = "Settling"

// settle keeps Karpenter from replacing nodes of a pool that Git has again, until it finds that they match: what it has not
// begun stays. Once nothing else is to be written the change waits for that.
func (m *maker) settle(change *Change) {
	if change.Action != TakeBack || change.Reason != ReasonReturned || change.Braked || !m.staleDrift(change) {
		return
	}
	budgets, err := Braked(change.Object)
	if err != nil {
		return // there is no room for one more
	}
	change.Settles = budgets
	if change.onlyBudgets() && !Replaced(change.Live) && reflect.DeepEqual(BudgetsOf(change.Live), budgets) {
		change.Action, change.Reason, change.Force, change.WaitsFor = Wait, ReasonSettling, false, "NodeClaims of "+change.Ref.String()
		change.Message = fmt.Sprintf("Git has %s again; its disruption budgets come back once Karpenter finds that its nodes match", change.Ref)
	}
}

// staleDrift says that Karpenter takes nodes for drifted, or will, that match what Git has: a removal has made them drift.
func (m *maker) staleDrift(change *Change) bool {
	if change.Ref.Kind != render.NodePool || !BudgetsAppliedBy(change.Live, v1alpha1.RemovalFieldManager) {
		return false
	}
	if Replaced(change.Live) {
		return true
	}
	pool, err := typed[karpv1.NodePool](change.Object.Defaulted)
	if err != nil {
		return false
	}
	hash := poolHash(pool)
	return slices.ContainsFunc(m.claims()[change.Ref], func(c *NodeClaim) bool {
		return c.DriftReason == DriftOfPool && !c.Deleting && !c.Disrupted && c.Hashes.Pool() == hash
	})
}

// Replaced says that the template of a pool has the label by which a removal makes its nodes drift.
func Replaced(live *unstructured.Unstructured) bool {
	labels, _, _ := unstructured.NestedMap(live.Object, "spec", "template", "metadata", "labels")
	_, bears := labels[v1alpha1.LeavingLabel]
	return bears
}
