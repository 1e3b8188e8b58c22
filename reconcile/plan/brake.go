package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// budgetsPath is the field of a NodePool's disruption budgets. For server-side apply they are one value
// (x-kubernetes-list-type: atomic in Karpenter's CRD): the manager that applies them owns all of them.
var budgetsPath = []string{"spec", "disruption", "budgets"}

// MaxBudgets is how many disruption budgets Karpenter's CRD allows.
const MaxBudgets = 50

// brake returns the disruption budget that only keeps Karpenter from replacing nodes for drift: the most restrictive
// budget for a reason applies (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go).
func brake() map[string]any {
	return map[string]any{"nodes": "0", "reasons": []any{drifted}}
}

// Braked returns the disruption budgets of a NodePool in Git plus the brake.
func Braked(object render.Object) ([]any, error) { return Leased(object, Lease{}) }

// Leased returns the disruption budgets of a NodePool in Git plus those of a Lease: Git's remain the upper limit. The
// Lease of 0 nodes is the brake. Without room for all of them it is an error: a budget that was dropped could not be restored
// while a change of the NodePool is held.
func Leased(object render.Object, lease Lease) ([]any, error) {
	budgets, adds := BudgetsOf(object.Defaulted), lease.Budgets()
	switch {
	case len(budgets)+len(adds) <= MaxBudgets:
		return append(slices.Clone(budgets), adds...), nil
	case lease.Nodes > 0:
		return nil, fmt.Errorf("%s has %d disruption budgets and Karpenter allows %d, so plumbline cannot add the two of a wave: remove a budget in Git", object.Ref, len(budgets), MaxBudgets)
	}
	return nil, fmt.Errorf("%s has %d disruption budgets, the maximum that Karpenter allows, so plumbline cannot add the one that stops a rollout: remove a budget in Git", object.Ref, len(budgets))
}

// LeaseOf returns the Lease that a live NodePool has besides the disruption budgets of Git, applied by the brake's
// manager; false if it has other budgets, or none of a Lease.
func LeaseOf(live *unstructured.Unstructured, object render.Object, now time.Time) (Lease, bool) {
	others, lease := splitLease(BudgetsOf(live))
	git := BudgetsOf(object.Defaulted)
	if lease == nil || !BudgetsAppliedBy(live, v1alpha1.BrakeFieldManager) || len(git) != len(others) {
		return Lease{}, false
	}
	return LeaseIn(lease, now), len(git) == 0 || reflect.DeepEqual(others, git)
}

// Revoked returns the disruption budgets of a live NodePool with the brake instead of the Lease that the brake's manager has
// applied; nil if it has none.
func Revoked(live *unstructured.Unstructured) []any {
	others, lease := splitLease(BudgetsOf(live))
	if lease == nil || !BudgetsAppliedBy(live, v1alpha1.BrakeFieldManager) {
		return nil
	}
	return append(others, brake())
}

// IsBraked reports whether a live NodePool has these disruption budgets, applied by the brake's manager.
func IsBraked(live *unstructured.Unstructured, budgets []any) (bool, error) {
	entries, err := managed(live)
	if err != nil {
		return false, err
	}
	return brakes(entries) && reflect.DeepEqual(BudgetsOf(live), budgets), nil
}

// BudgetsEditedBy returns the manager that has set the disruption budgets of a live NodePool to others than Git's or
// the brake's; empty if there is none.
func BudgetsEditedBy(live *unstructured.Unstructured) (string, error) {
	entries, err := managed(live)
	if err != nil {
		return "", err
	}
	editor := ""
	for _, e := range entries {
		switch {
		case !touches(e.set, budgetsPath):
		case e.ours():
			return "", nil
		default:
			editor = e.manager
		}
	}
	return editor, nil
}

// WithoutBrake returns the disruption budgets of a live NodePool without what the brake's manager has added to them: one
// budget, also that of a DisruptionHold, or the two of a wave's Lease, at the end. Budgets before these may look the same:
// they come from Git.
func WithoutBrake(live *unstructured.Unstructured) []any {
	if !BudgetsAppliedBy(live, v1alpha1.BrakeFieldManager) {
		return BudgetsOf(live)
	}
	budgets, lease := splitLease(BudgetsOf(live))
	if last := len(budgets) - 1; lease == nil && last >= 0 && (reflect.DeepEqual(budgets[last], any(brake())) || isHold(budgets[last])) {
		return slices.Clip(budgets[:last])
	}
	return budgets
}

// BrakeEnds returns the JSON patch (RFC 6902) that removes the brake from a NodePool, as the API server returns it, and
// the brake's manager; nil if it has none. It is rejected if the NodePool was written since.
func BrakeEnds(live *unstructured.Unstructured) ([]byte, error) {
	at := AppliedAt(live, v1alpha1.BrakeFieldManager)
	if at < 0 {
		return nil, nil
	}
	return json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": live.GetUID()},
		{"op": "test", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
		{"op": "replace", "path": "/" + strings.Join(budgetsPath, "/"), "value": WithoutBrake(live)},
		{"op": "remove", "path": fmt.Sprintf("/metadata/managedFields/%d", at)},
	})
}

// unbraked returns a live NodePool without the brake, if it has one: commits do not release the brake.
func unbraked(live *unstructured.Unstructured) *unstructured.Unstructured {
	if !BudgetsAppliedBy(live, v1alpha1.BrakeFieldManager) {
		return live
	}
	without := live.DeepCopy()
	_ = unstructured.SetNestedSlice(without.Object, WithoutBrake(live), budgetsPath...) // they are a JSON list already
	return without
}

// Unbraked returns a live NodePool without the brake or the Lease of a wave, if it has one.
func (o *Object) Unbraked() *Object {
	if without := unbraked(o.Unstructured); without != o.Unstructured {
		return NewObject(without)
	}
	return o
}

// BudgetsOf returns the disruption budgets of a NodePool. The result is part of the object: read only.
func BudgetsOf(pool *unstructured.Unstructured) []any {
	value, _, _ := unstructured.NestedFieldNoCopy(pool.Object, budgetsPath...)
	budgets, _ := value.([]any)
	return budgets
}

// isBraked reports whether the brake of a NodePool is recorded and set: Karpenter replaces none of its nodes for drift.
func (m *maker) isBraked(pool string) bool {
	live := m.live.object(render.Ref{Kind: render.NodePool, Name: pool}).content()
	if live == nil || !m.policy.limited(pool) {
		return false
	}
	_, lease := splitLease(BudgetsOf(live))
	return lease == nil && len(WithoutBrake(live)) < len(BudgetsOf(live))
}

// BudgetsAppliedBy reports whether a field manager has applied the disruption budgets of a live NodePool.
func BudgetsAppliedBy(live *unstructured.Unstructured, manager string) bool {
	entries, err := managed(live)
	set := appliedBy(entries, manager)
	return err == nil && set != nil && touches(set, budgetsPath)
}

// AppliedAt returns the index in the object's managedFields of a manager that has applied something; -1 if there is none.
func AppliedAt(object *unstructured.Unstructured, manager string) int {
	return slices.IndexFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
	})
}

// brakes reports whether the brake's manager has applied the disruption budgets.
func brakes(entries []entry) bool {
	set := appliedBy(entries, v1alpha1.BrakeFieldManager)
	return set != nil && touches(set, budgetsPath)
}

// braked reports whether an object in Git is now applied without its disruption budgets: the live ones belong to the
// brake, and stay.
func (m *maker) braked(object render.Object, live *unstructured.Unstructured) (bool, error) {
	if live == nil || object.Ref.Kind != render.NodePool || !m.policy.limited(object.Ref.Name) {
		return false, nil
	}
	entries, err := managed(live)
	return err == nil && brakes(entries), err
}

// WithoutBudgets returns what to apply of a NodePool while its disruption budgets belong to the brake.
func WithoutBudgets(desired *unstructured.Unstructured) *unstructured.Unstructured {
	unstructured.RemoveNestedField(desired.Object, budgetsPath...)
	if fields, ok := desired.Object["spec"].(map[string]any); ok {
		dropEmpty(fields)
	}
	return desired
}

// onlyBudgets reports whether a Change writes nothing of the spec except the disruption budgets.
func (c *Change) onlyBudgets() bool {
	return !slices.ContainsFunc(c.differences, func(d difference) bool {
		return d.path[0] == "spec" && !slices.Equal(d.path, budgetsPath)
	})
}

// MadeBy returns a hash of what determines the nodes of a NodePool: its live template and EC2NodeClass. A held commit
// does not change its nodes, so live objects count; budgets, limits and weights do not change nodes either.
func MadeBy(pool *Object, live map[render.Ref]*Object) string {
	class := live[ClassOf(pool)]
	if known := pool.madeBy.Load(); known != nil && known.class == class {
		return known.hash
	}
	found := &madeBy{class, hashOfNodes(pool.Unstructured, class.content())}
	pool.madeBy.Store(found)
	return found.hash
}

// hashOfNodes returns a hash of what determines the nodes of a NodePool; class is nil if there is none.
func hashOfNodes(pool, class *unstructured.Unstructured) string {
	template, _, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "template")
	var spec any
	if class != nil {
		spec = class.Object["spec"]
	}
	text, err := json.Marshal([]any{template, spec}) // map keys are sorted
	if err != nil {
		return "" // impossible for an object that was decoded from JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// MadeByGit returns a function that returns a hash of what determines the nodes of a NodePool, by name, once these
// objects of Git are applied; an object that is not in Git stays as it is. It is empty for a NodePool that does not exist.
// It differs from MadeBy, even if nothing is left to apply, where the cluster adds fields to live objects.
func MadeByGit(objects []render.Object, live map[render.Ref]*Object) func(pool string) string {
	git := make(map[render.Ref]*unstructured.Unstructured, len(objects))
	for i := range objects {
		git[objects[i].Ref] = objects[i].Defaulted
	}
	of := func(ref render.Ref) *unstructured.Unstructured { return cmp.Or(git[ref], live[ref].content()) }
	return func(name string) string {
		pool := of(render.Ref{Kind: render.NodePool, Name: name})
		if pool == nil {
			return ""
		}
		return hashOfNodes(pool, of(classOf(pool)))
	}
}

// madeBy caches the hash for a NodePool with this EC2NodeClass; class is nil if it references none that exists.
type madeBy struct {
	class *Object
	hash  string
}

// ClassOf returns the EC2NodeClass that a NodePool references.
func ClassOf(pool *Object) render.Ref { return classOf(pool.Unstructured) }

func classOf(pool *unstructured.Unstructured) render.Ref {
	name, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
	return render.Ref{Kind: render.EC2NodeClass, Name: name}
}

// MadeByEdited reports whether another client has changed what determines the nodes of a NodePool. That is corrected,
// or stays because of spec.drift, but no commit has done it.
func MadeByEdited(pool *Object, changes []Change) bool {
	return changesNodes(pool, changes, func(c *Change) []Field { return c.Edited })
}

// MadeByUnwritten reports whether a Change of what determines the nodes of a NodePool is not written.
func MadeByUnwritten(pool *Object, changes []Change, written map[render.Ref]bool) bool {
	return changesNodes(pool, changes, func(c *Change) []Field {
		if written[c.Ref] {
			return nil
		}
		return c.Fields
	})
}

// changesNodes reports whether fields of Changes determine the nodes of a NodePool.
func changesNodes(pool *Object, changes []Change, of func(*Change) []Field) bool {
	class := ClassOf(pool)
	for i := range changes { // runs for each of thousands of pools, over as many changes
		c, below := &changes[i], "spec"
		fields := of(c)
		switch {
		case len(fields) == 0:
			continue
		case c.Ref == render.Ref{Kind: render.NodePool, Name: pool.GetName()}:
			below = "spec.template"
		case c.Ref != class:
			continue
		}
		if slices.ContainsFunc(fields, func(f Field) bool { return f.Path == below || strings.HasPrefix(f.Path, below+".") }) {
			return true
		}
	}
	return false
}
