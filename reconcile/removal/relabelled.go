package removal

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/inventory"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// relabelled are the live objects that this NodeSync has applied and whose ownership
// label was changed by hand, by name: they are not plumbline's to take away, and not
// another NodeSync's either.
func (s *Step) relabelled(ctx context.Context) (map[render.Ref]types.UID, error) {
	if s.Memory.applied == nil {
		return nil, nil
	}
	owner := s.owner()
	label, annotation := owner.Label()
	found := map[render.Ref]types.UID{}
	var goesTo func(*unstructured.Unstructured) string
	for ref, uid := range s.Memory.applied.Record.Objects {
		object := s.Live.Objects[ref]
		if object == nil || object.GetUID() != uid || bears(object, label) && (annotation == "" || owner.Owns(object)) || !plan.Applied(object) {
			continue
		}
		if goesTo == nil {
			var err error
			if goesTo, err = s.GoesTo(ctx); err != nil {
				return nil, err
			}
		}
		if goesTo(object) == "" {
			found[ref] = uid
		}
	}
	return found, nil
}

// awaitRelabelled notes what has left Git and is relabelled, and says whether there is
// anything. What is being deleted ends by itself.
func (s *Step) awaitRelabelled(ctx context.Context) (waits bool, err error) {
	found, err := s.relabelled(ctx)
	if err != nil {
		return false, err
	}
	label, _ := s.owner().Label()
	for _, ref := range slices.SortedFunc(maps.Keys(found), func(a, b render.Ref) int { return cmp.Compare(a.String(), b.String()) }) {
		if s.wants(ref) || s.Live.Objects[ref].GetDeletionTimestamp() != nil {
			continue
		}
		waits = true
		s.Wait(ref.String(), fmt.Sprintf("it has left Git, and its label %s was changed by hand, so that it is not removed: set the label to %s again, or, to keep the object, delete ConfigMap %s",
			v1alpha1.OwnerLabel, label, inventory.ObjectName(s.Sync.Name)))
	}
	return waits, nil
}
