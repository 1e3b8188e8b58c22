package teardown

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// counting counts what is asked of the API server about definitions and nodes.
type counting struct {
	client.Reader
	gets, lists int
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, definition := object.(*unstructured.Unstructured); definition {
		c.gets++
	}
	return c.Reader.Get(ctx, key, object, options...)
}

func (c *counting) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.lists++
	return c.Reader.List(ctx, list, options...)
}

// TestDriveManyPools: however many pools leave, a pass reads them once, and a pool
// of which only the API server knows that it has a node stays.
func TestDriveManyPools(t *testing.T) {
	const pools, busy = namesAtOnce + many, namesAtOnce + 3
	s := newStage(t)
	for i := range pools {
		name := fmt.Sprintf("pool-%d", i)
		made := pool(name, types.UID(name+"-uid"), map[string]any{"limits": map[string]any{"cpu": "0"}})
		if i == 0 {
			made.SetLabels(nil) // someone has taken our label off; it is there all the same
		}
		if err := s.client.Create(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		s.find(render.NodePool, name, types.UID(name+"-uid"))
	}
	s.pass()
	s.cache = blind{s.client}
	name := fmt.Sprintf("pool-%d", busy)
	s.launch("late", name, types.UID(name+"-uid"))
	delete(s.instances, "i-late") // EC2 does not show it yet either
	live := &counting{Reader: s.client}
	s.live = live
	gone := map[string]bool{}
	for range 4 {
		live.gets, live.lists = 0, 0
		s.pass()
		for _, r := range s.last.Removals {
			gone[r.Name] = gone[r.Name] || r.Phase == v1alpha1.RemovalGone
		}
		if live.gets > 1 || live.lists > 3 {
			t.Errorf("a pass made %d GETs and %d LISTs; want one LIST of the pools, and one of the NodeClaims for each %d of them", live.gets, live.lists, namesAtOnce)
		}
	}
	for i := range pools {
		name := fmt.Sprintf("pool-%d", i)
		if stays, want := s.exists(pool(name, "", nil)), i == busy; stays != want || gone[name] == want {
			t.Errorf("%s: exists %t, gone %t; want it gone but for the one with a node", name, stays, gone[name])
		}
	}
}

// TestDriveManyClasses: who names a class is read once for all of them.
func TestDriveManyClasses(t *testing.T) {
	s := newStage(t, pool("batch", "batch-uid", map[string]any{"template": map[string]any{"spec": map[string]any{"nodeClassRef": map[string]any{"name": "class-1"}}}}))
	for _, name := range []string{"class-0", "class-1", "default"} {
		if err := s.client.Create(t.Context(), nodeClass(name, types.UID(name+"-uid"))); err != nil {
			t.Fatal(err)
		}
		s.find(render.EC2NodeClass, name, types.UID(name+"-uid"))
	}
	s.launch("a", "batch", "batch-uid") // its class is "default"
	live := &counting{Reader: s.client}
	s.live = live
	for range 4 {
		live.lists = 0
		s.pass()
		if live.lists > 2 {
			t.Errorf("a pass made %d LISTs; want one of the pools and one of the NodeClaims", live.lists)
		}
	}
	for name, want := range map[string]bool{"class-0": false, "class-1": true, "default": true} {
		if got := s.exists(nodeClass(name, "")); got != want {
			t.Errorf("%s: exists %t, want %t", name, got, want)
		}
	}
}
