package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// operation is one operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// claimFields makes the spec fields of interactive managers ours, so that the following apply removes those that are
// not in Git. It changes no field, and fails if the object has changed since it was planned. It returns the updated
// object; nil if there was nothing to move.
func (a *applier) claimFields(ctx context.Context, change *plan.Change) (*unstructured.Unstructured, error) {
	live, err := a.readWhole(ctx, change)
	if err != nil {
		return nil, err
	}
	entries, moved, err := claimedEntries(live, change.Taken, change.Object.Ignored)
	if err != nil || !moved {
		return nil, err
	}
	if err := a.mayWrite(ctx, change.Ref); err != nil {
		return nil, err
	}
	body, err := json.Marshal([]operation{
		{Op: "replace", Path: "/metadata/managedFields", Value: entries},
		// If the resourceVersion differs, the API server responds with 409.
		{Op: "replace", Path: "/metadata/resourceVersion", Value: change.Live.GetResourceVersion()},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the managedFields of %s: %w", change.Ref, err)
	}
	answer := named(change.Live)
	err = a.client.Patch(ctx, answer, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(v1alpha1.FieldManager))
	switch {
	case apierrors.IsNotFound(err):
		return nil, &StaleError{Ref: change.Ref, Err: err}
	case err != nil:
		return nil, classify(change.Ref, err)
	}
	return answer, nil
}

// readWhole reads the planned object with all of its managedFields: a cache keeps only those that a Plan needs.
func (a *applier) readWhole(ctx context.Context, change *plan.Change) (*unstructured.Unstructured, error) {
	live := named(change.Live)
	switch err := a.options.Uncached.Get(ctx, client.ObjectKeyFromObject(live), live); {
	case apierrors.IsNotFound(err):
		return nil, &StaleError{Ref: change.Ref, Err: err}
	case err != nil:
		return nil, classify(change.Ref, err)
	case live.GetResourceVersion() != change.Live.GetResourceVersion():
		return nil, &StaleError{Ref: change.Ref, Err: errChanged}
	}
	return live, nil
}

var errChanged = errors.New("another client changed it")

// claimedEntries moves the spec fields of interactive managers into our entry, and the fields of any other manager at
// the taken paths. Labels, annotations and ignored fields stay with their managers. (fluxcd/pkg/ssa moves whole
// entries, including labels and annotations.)
func claimedEntries(
	live *unstructured.Unstructured, taken, ignored [][]string,
) (entries []metav1.ManagedFieldsEntry, moved bool, err error) {
	ours := metav1.ManagedFieldsEntry{
		Manager:    v1alpha1.FieldManager,
		Operation:  metav1.ManagedFieldsOperationApply,
		APIVersion: live.GetAPIVersion(),
		FieldsType: "FieldsV1",
	}
	mine := fieldpath.NewSet()
	for _, entry := range live.GetManagedFields() {
		set, err := fieldsOf(entry)
		if err != nil {
			return nil, false, fmt.Errorf("read managedFields of manager %q on %s/%s: %w", entry.Manager, live.GetKind(), live.GetName(), err)
		}
		switch {
		case entry.Subresource != "" || entry.APIVersion != live.GetAPIVersion():
			entries = append(entries, entry)
		case entry.Manager == v1alpha1.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply:
			ours, mine = entry, mine.Union(set)
		case owners.Interactive(entry.Manager), len(taken) > 0:
			moving, rest := split(set, claimedPaths(entry.Manager, taken), ignored)
			mine, moved = mine.Union(moving), moved || !moving.Empty()
			if rest.Empty() {
				continue
			}
			if entry.FieldsV1, err = fieldsFrom(rest); err != nil {
				return nil, false, err
			}
			entries = append(entries, entry)
		default:
			entries = append(entries, entry)
		}
	}
	if ours.FieldsV1, err = fieldsFrom(mine); err != nil {
		return nil, false, err
	}
	return append(entries, ours), moved, nil
}

// claimedPaths returns the paths at which the fields of a manager become ours.
func claimedPaths(manager string, taken [][]string) [][]string {
	if owners.Interactive(manager) {
		return [][]string{{"spec"}}
	}
	if _, applier := owners.Applier(manager); applier || manager == v1alpha1.RemovalFieldManager || manager == v1alpha1.BrakeFieldManager {
		return nil
	}
	return taken
}

// split divides a set into within (fields at or below one of the paths, or owned as a whole and containing one of them)
// and rest. Ignored fields stay in rest.
func split(set *fieldpath.Set, paths, ignored [][]string) (within, rest *fieldpath.Set) {
	within, rest = fieldpath.NewSet(), fieldpath.NewSet()
	wholes := set.Leaves()
	set.Iterate(func(path fieldpath.Path) {
		part := rest
		if slices.ContainsFunc(paths, func(top []string) bool {
			return samePrefix(path, top) && (len(path) >= len(top) || wholes.Has(path))
		}) && !slices.ContainsFunc(ignored, func(top []string) bool { return len(path) >= len(top) && samePrefix(path, top) }) {
			part = within
		}
		part.Insert(path.Copy())
	})
	return withParents(within, rest)
}

// withParents also moves the maps that are empty in the rest: if an apply removes the last field of a map that another
// manager owns, the API server replaces it with null, and rejects that.
func withParents(within, rest *fieldpath.Set) (moved, left *fieldpath.Set) {
	parents := fieldpath.NewSet()
	within.Iterate(func(path fieldpath.Path) {
		for i := len(path) - 1; i > 0; i-- {
			if parent := path[:i]; rest.Has(parent) && childless(rest.Difference(parents), parent) {
				parents.Insert(parent.Copy())
			}
		}
	})
	return within.Union(parents), rest.Difference(parents)
}

// childless reports whether a set contains nothing below a path.
func childless(set *fieldpath.Set, parent fieldpath.Path) bool {
	found := false
	set.Iterate(func(path fieldpath.Path) {
		found = found || len(path) > len(parent) && path[:len(parent)].Equals(parent)
	})
	return !found
}

// samePrefix reports whether a path and some keys are equal up to the length of the shorter one.
func samePrefix(path fieldpath.Path, top []string) bool {
	for i := range min(len(path), len(top)) {
		if path[i].FieldName == nil || *path[i].FieldName != top[i] {
			return false
		}
	}
	return true
}

func fieldsOf(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	if entry.FieldsV1 == nil {
		return set, nil
	}
	return set, set.FromJSON(entry.FieldsV1.GetRawReader())
}

func fieldsFrom(set *fieldpath.Set) (*metav1.FieldsV1, error) {
	raw, err := set.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("encode managedFields: %w", err)
	}
	return metav1.NewFieldsV1(string(raw)), nil
}
