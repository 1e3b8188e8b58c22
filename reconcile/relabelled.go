package reconcile

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
func (p *pass) relabelled(ctx context.Context) (map[render.Ref]types.UID, error) {
	if p.memory.inventory == nil {
		return nil, nil
	}
	owner := plan.OwnerOf(p.sync.Namespace, p.sync.Name)
	label, annotation := owner.Label()
	found := map[render.Ref]types.UID{}
	var goesTo func(*unstructured.Unstructured) string
	for ref, uid := range p.memory.inventory.Record.Objects {
		object := p.live.Objects[ref]
		if object == nil || object.GetUID() != uid || bears(object, label) && (annotation == "" || owner.Owns(object)) || !plan.Applied(object) {
			continue
		}
		if goesTo == nil {
			var err error
			if goesTo, err = p.policyStep().GoesTo(ctx); err != nil {
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
func (p *pass) awaitRelabelled(ctx context.Context) (waits bool, err error) {
	found, err := p.relabelled(ctx)
	if err != nil {
		return false, err
	}
	label, _ := plan.OwnerOf(p.sync.Namespace, p.sync.Name).Label()
	for _, ref := range slices.SortedFunc(maps.Keys(found), func(a, b render.Ref) int { return cmp.Compare(a.String(), b.String()) }) {
		if p.wants(ref) || p.live.Objects[ref].GetDeletionTimestamp() != nil {
			continue
		}
		waits = true
		p.Wait(ref.String(), fmt.Sprintf("it has left Git, and its label %s was changed by hand, so that it is not removed: set the label to %s again, or, to keep the object, delete ConfigMap %s",
			v1alpha1.OwnerLabel, label, inventory.ObjectName(p.sync.Name)))
	}
	return waits, nil
}
