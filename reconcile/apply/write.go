package apply

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// write makes one object what Git says.
func (a *applier) write(ctx context.Context, change *plan.Change) (*Written, error) {
	written := &Written{Ref: change.Ref, Action: change.Action}
	if change.Live == nil {
		if err := a.vacant(ctx, change); err != nil {
			return nil, err
		}
	}
	object, err := a.desired(change)
	if err != nil {
		return nil, err
	}
	if change.Takeover && change.Live != nil {
		moved, err := a.takeOver(ctx, change)
		if err != nil {
			return nil, err
		}
		if moved != nil {
			written.Requests++
			if object.GetResourceVersion() != "" {
				object.SetResourceVersion(moved.GetResourceVersion())
			}
		}
	}
	answer, err := a.apply(ctx, change.Ref, object, v1alpha1.FieldManager, change.Force)
	if err != nil {
		return nil, err
	}
	written.Requests++
	for _, manager := range leaving(change) {
		if !appliedBy(answer, manager) {
			continue
		}
		if answer, err = a.apply(ctx, change.Ref, released(answer, change.Settles, manager), manager, false); err != nil {
			return nil, err
		}
		written.Requests++
	}
	if fields := plan.Changed(object, answer, change.Object.Ignored); len(fields) > 0 {
		return nil, &MutatedError{Ref: change.Ref, Fields: fields, Object: answer}
	}
	written.Object = answer
	return written, nil
}

// desired is what the Plan compared. The UID keeps an object that was deleted
// in between from being recreated by what is meant for the old one, and the
// resourceVersion an object that is adopted from being taken from another
// NodeSync that adopts it in between, and a field that others may change from being
// written over where one of them does in between.
func (a *applier) desired(change *plan.Change) (*unstructured.Unstructured, error) {
	object := plan.Desired(change.Object, a.options.Owner)
	if change.Braked || change.Settles != nil {
		object = plan.WithoutBudgets(object)
	}
	if change.Live == nil {
		return object, nil
	}
	object.SetUID(change.Live.GetUID())
	kept, err := change.LeaveIgnored(object)
	if err != nil {
		return nil, fmt.Errorf("leave the ignored fields of %s out: %w", change.Ref, err)
	}
	if kept || change.Action == plan.Adopt {
		object.SetResourceVersion(change.Live.GetResourceVersion())
	}
	return object, nil
}

// leaving are the managers of our own that own nothing any more after a Change.
func leaving(change *plan.Change) []string {
	switch {
	case change.Action != plan.TakeBack:
		return nil
	case change.Braked:
		return []string{v1alpha1.RemovalFieldManager}
	}
	return []string{v1alpha1.RemovalFieldManager, v1alpha1.BrakeFieldManager}
}

// released is an object without a field: applied as the manager of a removal or a brake, it
// takes away what only that manager had set. Disruption budgets with which a pool settles stay the removal's.
func released(live *unstructured.Unstructured, settles []any, manager string) *unstructured.Unstructured {
	object := named(live)
	object.SetUID(live.GetUID())
	if settles != nil && manager == v1alpha1.RemovalFieldManager {
		object.Object["spec"] = map[string]any{"disruption": map[string]any{"budgets": settles}}
	}
	return object
}

func named(like *unstructured.Unstructured) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(like.GroupVersionKind())
	object.SetName(like.GetName())
	return object
}

func appliedBy(object *unstructured.Unstructured, manager string) bool {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply {
			return true
		}
	}
	return false
}

// apply sends one server-side apply. An answer that is terminating is no
// success: the API server takes such an apply, and the object goes all the same.
func (a *applier) apply(ctx context.Context, ref render.Ref, object *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	if err := a.mayWrite(ctx, ref); err != nil {
		return nil, err
	}
	body, err := json.Marshal(object.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", ref, err)
	}
	answer := named(object)
	options := []client.PatchOption{client.FieldOwner(manager)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	if err := a.client.Patch(ctx, answer, client.RawPatch(types.ApplyPatchType, body), options...); err != nil {
		return nil, classify(ref, err)
	}
	if answer.GetDeletionTimestamp() != nil {
		return nil, &TerminatingError{Ref: ref}
	}
	return answer, nil
}
