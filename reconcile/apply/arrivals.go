package apply

import (
	"context"
	"errors"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Reader reads from the API server itself, past any cache.
type Reader interface {
	Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error
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

// vacant says whether there is no object of a name: what the Plan saw may be
// old, and server-side apply knows no such precondition.
func (a *applier) vacant(ctx context.Context, change *plan.Change) error {
	live := named(change.Object.Desired)
	switch err := a.options.Uncached.Get(ctx, client.ObjectKeyFromObject(live), live); {
	case err == nil:
		return &StaleError{Ref: change.Ref, Err: errExists}
	case !apierrors.IsNotFound(err):
		return classify(change.Ref, err)
	}
	return nil
}
