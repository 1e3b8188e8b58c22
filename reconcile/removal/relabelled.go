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
		if object == nil || object.GetUID() != uid || object.OwnerLabel() == label && (annotation == "" || owner.Owns(object)) || !plan.Applied(object.Unstructured) {
			continue
		}
		if goesTo == nil {
			var err error
			if goesTo, err = s.GoesTo(ctx); err != nil {
				return nil, err
			}
		}
		if goesTo(object.Unstructured) == "" {
			found[ref] = uid
		}
	}
	return found, nil
}

// leftRelabelled are those of them that have left Git, in order. What is being deleted ends
// by itself.
func (s *Step) leftRelabelled(ctx context.Context) ([]render.Ref, error) {
	found, err := s.relabelled(ctx)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(found, func(ref render.Ref, _ types.UID) bool {
		return s.wants(ref) || s.Live.Objects[ref].GetDeletionTimestamp() != nil
	})
	return slices.SortedFunc(maps.Keys(found), func(a, b render.Ref) int { return cmp.Compare(a.String(), b.String()) }), nil
}

// Relabelled says whether anything has left Git that is relabelled: once its label is set
// again it is a candidate like any other.
func (s *Step) Relabelled(ctx context.Context) (bool, error) {
	left, err := s.leftRelabelled(ctx)
	return len(left) > 0, err
}

// awaitRelabelled notes what has left Git and is relabelled, and says whether there is
// anything.
func (s *Step) awaitRelabelled(ctx context.Context) (waits bool, err error) {
	left, err := s.leftRelabelled(ctx)
	if err != nil {
		return false, err
	}
	for _, ref := range left {
		s.Wait(ref.String(), "it has left Git, and "+s.wayOut())
	}
	return len(left) > 0, nil
}

// wayOut says of an object why it is not removed, and what to do.
func (s *Step) wayOut() string {
	return fmt.Sprintf("its label %s was changed by hand, %s", v1alpha1.OwnerLabel, s.owner().LabelAgain())
}

// unremoved says of what is relabelled and has left Git why it is not removed: an
// EC2NodeClass waits for a NodePool that names it.
func (s *Step) unremoved(ctx context.Context) (map[string]string, error) {
	left, err := s.leftRelabelled(ctx)
	if err != nil {
		return nil, err
	}
	why := map[string]string{}
	for _, ref := range left {
		why[ref.String()] = s.wayOut()
	}
	return why, nil
}
