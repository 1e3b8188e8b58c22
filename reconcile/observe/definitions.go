package observe

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Definitions reads the definitions out of a watch cache, and of those that it has read before
// nothing but where they are: the cache's objects are read only, so that one which stands where
// it stood is as it was. The zero value has read none; one is for all passes.
type Definitions struct {
	mu    sync.Mutex
	known map[fields]*plan.Object
}

// fields is where the fields of an object are: two lists of the cache share them, and nothing
// else. An Object that is known keeps its own alive, so that nothing else comes to stand there.
type fields = unsafe.Pointer

// read lists the definitions of all kinds, by name. Nil remembers none.
func (d *Definitions) read(ctx context.Context, reader client.Reader) (map[render.Ref]*plan.Object, error) {
	known := d.last()
	next, objects := make(map[fields]*plan.Object, len(known)), make(map[render.Ref]*plan.Object, len(known))
	for _, kind := range render.Kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GVK)
		if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("read the %ss: %w", kind.GVK.Kind, err)
		}
		for i := range list.Items {
			at := fields(reflect.ValueOf(list.Items[i].Object).UnsafePointer())
			object, found := known[at]
			if !found {
				// Not a part of the list, which would be kept whole for it.
				object = plan.NewObject(&unstructured.Unstructured{Object: list.Items[i].Object})
			}
			next[at], objects[render.Ref{Kind: kind.GVK.Kind, Name: object.GetName()}] = object, object
		}
	}
	d.keep(next)
	return objects, nil
}

func (d *Definitions) last() map[fields]*plan.Object {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}

func (d *Definitions) keep(next map[fields]*plan.Object) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known = next
}
