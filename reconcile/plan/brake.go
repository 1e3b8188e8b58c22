package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// budgetsPath is where a NodePool has its disruption budgets. They are one value to server-side
// apply (x-kubernetes-list-type: atomic in Karpenter's CRD): the manager that applies them owns all of them.
var budgetsPath = []string{"spec", "disruption", "budgets"}

// MaxBudgets is how many of them Karpenter's CRD allows.
const MaxBudgets = 50

// brake is the disruption budget that keeps Karpenter from replacing nodes for drift, and from
// nothing else: the most restrictive of the budgets for a reason counts
// (sigs.k8s.io/karpenter pkg/apis/v1/nodepool.go).
func brake() map[string]any {
	return map[string]any{"nodes": "0", "reasons": []any{"Drifted"}}
}

// Braked are the disruption budgets of a NodePool of Git, with the brake after them. Where there is
// no room, those that are for drift only make room: under the brake they count for nothing.
func Braked(object render.Object) ([]any, error) {
	budgets := BudgetsOf(object.Defaulted)
	if len(budgets) >= MaxBudgets {
		budgets = slices.DeleteFunc(slices.Clone(budgets), func(b any) bool {
			fields, _ := b.(map[string]any)
			return reflect.DeepEqual(fields["reasons"], []any{"Drifted"})
		})
	}
	if len(budgets) >= MaxBudgets {
		return nil, fmt.Errorf("%s has %d disruption budgets, the maximum that Karpenter allows, so plumbline cannot add the one that stops a rollout: remove a budget in Git", object.Ref, len(budgets))
	}
	return append(slices.Clone(budgets), brake()), nil
}

// IsBraked reports whether a NodePool that lives has these disruption budgets, by the brake's manager.
func IsBraked(live *unstructured.Unstructured, budgets []any) (bool, error) {
	entries, err := managed(live)
	if err != nil {
		return false, err
	}
	return brakes(entries) && reflect.DeepEqual(BudgetsOf(live), budgets), nil
}

// BudgetsEditedBy is the manager that has set the disruption budgets of a NodePool that lives to
// others than Git's or the brake's; empty if nobody has.
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

// WithoutBrake are the disruption budgets of a NodePool that lives without the brake.
func WithoutBrake(live *unstructured.Unstructured) []any {
	return slices.DeleteFunc(slices.Clone(BudgetsOf(live)), func(b any) bool { return reflect.DeepEqual(b, any(brake())) })
}

// unbraked is a NodePool that lives without the brake, where that is on: no commit takes it off.
func unbraked(live *unstructured.Unstructured) *unstructured.Unstructured {
	if !BudgetsAppliedBy(live, v1alpha1.BrakeFieldManager) {
		return live
	}
	without := live.DeepCopy()
	_ = unstructured.SetNestedSlice(without.Object, WithoutBrake(live), budgetsPath...) // they are a list of JSON already
	return without
}

// BudgetsOf are the disruption budgets of a NodePool, which are the object's own: they are only read.
func BudgetsOf(pool *unstructured.Unstructured) []any {
	value, _, _ := unstructured.NestedFieldNoCopy(pool.Object, budgetsPath...)
	budgets, _ := value.([]any)
	return budgets
}

// BudgetsAppliedBy reports whether a field manager has applied the disruption budgets of a NodePool that lives.
func BudgetsAppliedBy(live *unstructured.Unstructured, manager string) bool {
	entries, err := managed(live)
	set := appliedBy(entries, manager)
	return err == nil && set != nil && touches(set, budgetsPath)
}

// brakes reports whether the brake's manager has applied the disruption budgets.
func brakes(entries []entry) bool {
	set := appliedBy(entries, v1alpha1.BrakeFieldManager)
	return set != nil && touches(set, budgetsPath)
}

// braked reports whether an object of Git is applied without its disruption budgets now: those that
// live are the brake's, and stay so.
func (m *maker) braked(object render.Object, live *unstructured.Unstructured) (bool, error) {
	if live == nil || object.Ref.Kind != render.NodePool || !m.policy.Braked[object.Ref.Name] {
		return false, nil
	}
	entries, err := managed(live)
	return err == nil && brakes(entries), err
}

// WithoutBudgets is what is applied of a NodePool while its disruption budgets are the brake's.
func WithoutBudgets(desired *unstructured.Unstructured) *unstructured.Unstructured {
	unstructured.RemoveNestedField(desired.Object, budgetsPath...)
	if fields, ok := desired.Object["spec"].(map[string]any); ok {
		dropEmpty(fields)
	}
	return desired
}

// onlyBudgets reports whether a Change writes nothing of the spec but the disruption budgets.
func (c *Change) onlyBudgets() bool {
	return !slices.ContainsFunc(c.differences, func(d difference) bool {
		return d.path[0] == "spec" && !slices.Equal(d.path, budgetsPath)
	})
}

// MadeBy is a hash of what the nodes of a NodePool are made by: its template and its
// EC2NodeClass, as they live: a commit that the guard holds makes no other nodes. Budgets, limits
// and weights are left out for the same reason.
func MadeBy(pool *Object, live map[render.Ref]*Object) string {
	class := live[ClassOf(pool)]
	if known := pool.madeBy.Load(); known != nil && known.class == class {
		return known.hash
	}
	template, _, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "template")
	var spec any
	if class != nil {
		spec = class.Object["spec"]
	}
	text, err := json.Marshal([]any{template, spec}) // keys of maps are sorted
	if err != nil {
		return "" // of what was decoded from JSON there is none
	}
	sum := sha256.Sum256(text)
	found := &madeBy{class, hex.EncodeToString(sum[:8])}
	pool.madeBy.Store(found)
	return found.hash
}

// madeBy is the hash that was found of a NodePool with an EC2NodeClass; nil if it names none that lives.
type madeBy struct {
	class *Object
	hash  string
}

// ClassOf is the EC2NodeClass that a NodePool names.
func ClassOf(pool *Object) render.Ref {
	name, _, _ := unstructured.NestedString(pool.Object, "spec", "template", "spec", "nodeClassRef", "name")
	return render.Ref{Kind: render.EC2NodeClass, Name: name}
}

// MadeByEdited reports whether another client has changed what the nodes of a NodePool are made by: it is
// corrected, or stays by spec.drift, and no commit has done it.
func MadeByEdited(pool *Object, changes []Change) bool {
	class := ClassOf(pool)
	for i := range changes { // of thousands of pools each asks of as many
		c, below := &changes[i], "spec"
		switch {
		case len(c.Edited) == 0:
			continue
		case c.Ref == render.Ref{Kind: render.NodePool, Name: pool.GetName()}:
			below = "spec.template"
		case c.Ref != class:
			continue
		}
		if slices.ContainsFunc(c.Edited, func(f Field) bool { return f.Path == below || strings.HasPrefix(f.Path, below+".") }) {
			return true
		}
	}
	return false
}
