package teardown

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// Release lets one object go that stays: our label is taken off and, where a
// removal had stopped its growth, growth is as it was and the removal's manager
// owns nothing; a brake is taken off likewise. Spec and managedFields are otherwise left as it is. NodeClaims that are ending finish by Karpenter.
type Release struct {
	Kind, Name      string
	UID             types.UID
	ResourceVersion string
	// Manager is the field manager that writes it.
	Manager string
	// Patch is a JSON patch, in one piece, that holds for just that object as
	// it was seen.
	Patch []Operation
}

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Releases are the steps that leave the objects of a NodeSync to themselves.
// growth is what their removals had recorded.
func Releases(owned []*unstructured.Unstructured, growth map[types.UID]Growth) []Release {
	releases := make([]Release, 0, len(owned))
	for _, object := range owned {
		r := releaseOf(object)
		key := strings.ReplaceAll(v1alpha1.OwnerLabel, "/", "~1")
		if _, labelled := object.GetLabels()[v1alpha1.OwnerLabel]; labelled {
			r.Patch = append(r.Patch, Operation{Op: "remove", Path: "/metadata/labels/" + key})
		}
		if _, annotated := object.GetAnnotations()[v1alpha1.OwnerLabel]; annotated {
			r.Patch = append(r.Patch, Operation{Op: "remove", Path: "/metadata/annotations/" + key})
		}
		r.Patch = append(r.Patch, givenBack(object, growth, true)...)
		releases = append(releases, r)
	}
	return releases
}

// Restores are the steps that give pools of Git, which cannot be written yet, what plumbline itself
// has taken from them; none for one that it has taken nothing from. growth is what removals had
// recorded, and braked says whose brake is on.
func Restores(pools []*unstructured.Unstructured, growth map[types.UID]Growth, braked map[string]bool) []Release {
	var restores []Release
	for _, pool := range pools {
		r := releaseOf(pool)
		given := givenBack(pool, growth, !braked[pool.GetName()])
		if len(given) == 0 {
			continue
		}
		r.Manager = v1alpha1.RemovalFieldManager // what Git says of these fields is applied over it
		r.Patch = append(r.Patch, given...)
		restores = append(restores, r)
	}
	return restores
}

// releaseOf is of just this object as it was seen.
func releaseOf(object *unstructured.Unstructured) Release {
	r := Release{Kind: object.GetKind(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(), Manager: v1alpha1.FieldManager}
	r.Patch = []Operation{
		{Op: "test", Path: "/metadata/uid", Value: string(r.UID)},
		{Op: "test", Path: "/metadata/resourceVersion", Value: r.ResourceVersion},
	}
	return r
}

// givenBack has growth be as it was, and likewise the disruption budgets where the brake is to go.
func givenBack(object *unstructured.Unstructured, growth map[types.UID]Growth, brake bool) (patch []Operation) {
	stopped, braked := restrained(object), -1
	if brake {
		braked = appliedAt(object, v1alpha1.BrakeFieldManager)
	}
	if stopped >= 0 {
		before, known := growth[object.GetUID()]
		patch = append(patch, regrow(growthOf(object), before, known)...)
		patch = append(patch, unreplaced(object, before)...)
	}
	if braked >= 0 {
		patch = append(patch, Operation{Op: "replace", Path: "/spec/disruption/budgets", Value: plan.WithoutBrake(object)})
	}
	for _, at := range []int{max(stopped, braked), min(stopped, braked)} { // the last first: the others stay where they are
		if at >= 0 {
			patch = append(patch, Operation{Op: "remove", Path: fmt.Sprintf("/metadata/managedFields/%d", at)})
		}
	}
	return patch
}

// restrained returns where in the object's managedFields a removal stands that
// has stopped its growth; -1 where none has.
func restrained(object *unstructured.Unstructured) int {
	return appliedAt(object, v1alpha1.RemovalFieldManager)
}

// appliedAt returns where in the object's managedFields a manager stands that has applied
// something; -1 where it has not.
func appliedAt(object *unstructured.Unstructured, manager string) int {
	return slices.IndexFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
	})
}

// regrow gives a pool back what stopping its growth has taken. Where nobody
// knows that any more, a cpu limit is taken away, as a revert does, and replicas
// stay: without any the pool would be of the other kind.
func regrow(now, before Growth, known bool) []Operation {
	switch {
	case !now.stopped():
		return nil
	case now.Replicas != nil && known && before.Replicas != nil:
		return []Operation{{Op: "replace", Path: "/spec/replicas", Value: *before.Replicas}}
	case now.Replicas != nil:
		return nil
	case known && before.CPU != nil:
		return []Operation{{Op: "replace", Path: "/spec/limits/cpu", Value: before.CPU}}
	}
	return []Operation{{Op: "remove", Path: "/spec/limits/cpu"}}
}

// unreplaced has the nodes of a pool match it again, and gives it its disruption budgets back: those that
// are recorded, or where nobody knows them any more what is left of them.
func unreplaced(object *unstructured.Unstructured, before Growth) (patch []Operation) {
	labels, _, _ := unstructured.NestedMap(object.Object, "spec", "template", "metadata", "labels")
	if _, bears := labels[v1alpha1.LeavingLabel]; bears {
		path := "/spec/template/metadata/labels"
		if len(labels) > 1 { // an empty map would be another template to Karpenter's hash
			path += "/" + strings.ReplaceAll(v1alpha1.LeavingLabel, "/", "~1")
		}
		patch = append(patch, Operation{Op: "remove", Path: path})
	}
	if !plan.BudgetsAppliedBy(object, v1alpha1.RemovalFieldManager) {
		return patch
	}
	budgets := before.Budgets
	if budgets == nil {
		budgets = append([]any{}, unpaced(plan.BudgetsOf(object))...)
	}
	return append(patch, Operation{Op: "replace", Path: "/spec/disruption/budgets", Value: budgets})
}

func (r Release) body() ([]byte, error) {
	body, err := json.Marshal(r.Patch)
	if err != nil {
		return nil, fmt.Errorf("encode the release of %s/%s: %w", r.Kind, r.Name, err)
	}
	return body, nil
}
