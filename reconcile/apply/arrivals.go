package apply

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Reader reads from the API server itself, past any cache.
type Reader interface {
	Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error
	List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error
}

// Arrivals are the objects that are being made right now. All Applies of a
// process share one: to the API server two NodeSyncs are one field manager, so
// that the apply of the second would take the first one's object without a
// conflict. The zero value is ready for use.
type Arrivals struct {
	mu     sync.Mutex
	making map[render.Ref]bool
}

// begin says whether nobody else is making the object.
func (a *Arrivals) begin(ref render.Ref) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.making[ref] {
		return false
	}
	if a.making == nil {
		a.making = map[render.Ref]bool{}
	}
	a.making[ref] = true
	return true
}

func (a *Arrivals) end(ref render.Ref) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.making, ref)
}

var (
	errBeingMade = errors.New("another NodeSync is making it")
	errExists    = errors.New("it exists by now")
)

// begin notes the arrivals of a stage as being made, but for those that another client
// else is making. It comes before the look at what there is: what is made after
// that look is made by us.
func (a *applier) begin(changes []*plan.Change) map[render.Ref]bool {
	begun := map[render.Ref]bool{}
	for _, change := range changes {
		if change.Live == nil && a.options.Arrivals.begin(change.Ref) {
			begun[change.Ref] = true
		}
	}
	return begun
}

// existing are the names that are taken; nil where they were not asked for.
type existing map[string]bool

// many is from how many arrivals on one list costs less than a look at each.
const many = 16

// survey asks once which names of a kind are taken. What keeps it from an answer
// is reported by the look at each object, which comes instead.
func (a *applier) survey(ctx context.Context, kind render.Kind, begun map[render.Ref]bool) existing {
	if len(begun) < many {
		return nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GVK.GroupVersion().WithKind(kind.GVK.Kind + "List"))
	if err := a.options.Uncached.List(ctx, list); err != nil {
		return nil
	}
	taken := make(existing, len(list.Items))
	for i := range list.Items {
		taken[list.Items[i].Name] = true
	}
	return taken
}

// vacant says whether there is no object of a name: what the Plan saw may be
// old, and server-side apply knows no such precondition.
func (a *applier) vacant(ctx context.Context, change *plan.Change) error {
	if a.existing != nil {
		if a.existing[change.Ref.Name] {
			return &StaleError{Ref: change.Ref, Err: errExists}
		}
		return nil
	}
	live := named(change.Object.Desired)
	switch err := a.options.Uncached.Get(ctx, client.ObjectKeyFromObject(live), live); {
	case err == nil:
		return &StaleError{Ref: change.Ref, Err: errExists}
	case !apierrors.IsNotFound(err):
		return classify(change.Ref, err)
	}
	return nil
}
