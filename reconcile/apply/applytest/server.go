package applytest

import (
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/render"
)

// Server stores definitions like an API server.
type Server struct {
	// Fault, if set, is called before each write; its error is the response.
	Fault func(Write) error

	mu          sync.Mutex
	definitions map[string]definition
	objects     map[render.Ref]*unstructured.Unstructured
	writes      []Write
	clock       int
}

// Write is one write request to the server.
type Write struct {
	Ref     render.Ref
	Type    types.PatchType
	Manager string
	Force   bool
}

// TB is the part of a test that a Server needs: testing.TB and rapid.TB both have it.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

var _ TB = testing.TB(nil)

// New returns an empty Server.
func New(t TB) *Server {
	t.Helper()
	known, err := definitions()
	if err != nil {
		t.Fatalf("start the server: %v", err)
	}
	return &Server{definitions: known, objects: map[render.Ref]*unstructured.Unstructured{}}
}

// Reset deletes all objects and writes.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects, s.writes, s.Fault = map[render.Ref]*unstructured.Unstructured{}, nil, nil
}

// Objects returns copies of all objects.
func (s *Server) Objects() map[render.Ref]*unstructured.Unstructured {
	s.mu.Lock()
	defer s.mu.Unlock()
	copies := map[render.Ref]*unstructured.Unstructured{}
	for ref, object := range s.objects {
		copies[ref] = object.DeepCopy()
	}
	return copies
}

// Object returns a copy of one object; nil if there is none.
func (s *Server) Object(ref render.Ref) *unstructured.Unstructured { return s.Objects()[ref] }

// Writes returns the writes since the last call.
func (s *Server) Writes() []Write {
	s.mu.Lock()
	defer s.mu.Unlock()
	writes := s.writes
	s.writes = nil
	return writes
}

// Edit changes an object as a field manager that does not apply, such as kubectl-edit; it creates the object if it does
// not exist.
func (s *Server) Edit(t TB, ref render.Ref, manager string, change func(*unstructured.Unstructured)) {
	t.Helper()
	s.mu.Lock()
	live := s.live(ref)
	s.mu.Unlock()
	edited := live.DeepCopy()
	change(edited)

	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.definitions[ref.Kind]
	d.defaulted(edited)
	managed, err := d.managers.Update(live, edited, manager)
	if err != nil {
		t.Fatalf("edit %s as %s: %v", ref, manager, err)
	}
	if _, err := s.store(ref, managed); err != nil {
		t.Fatalf("edit %s as %s: %v", ref, manager, err)
	}
}

// Put stores an object unchanged, and replaces the one of its name.
func (s *Server) Put(object *unstructured.Unstructured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[render.RefOf(object)] = object
}

// Terminate marks an object as deleted, as if a finalizer kept it.
func (s *Server) Terminate(ref render.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock++
	now := metav1.Unix(int64(s.clock), 0)
	s.objects[ref].SetDeletionTimestamp(&now)
	s.objects[ref].SetResourceVersion(strconv.Itoa(s.clock))
}

// Delete deletes an object.
func (s *Server) Delete(ref render.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, ref)
}

// live returns the object, or an empty one of its kind.
func (s *Server) live(ref render.Ref) *unstructured.Unstructured {
	if object, ok := s.objects[ref]; ok {
		return object.DeepCopy()
	}
	return ref.Empty()
}

// store stores an object. If only the times of its managers differ, it is not a write, and the resourceVersion stays
// (apiserver pkg/endpoints/handlers/fieldmanager/equality.go).
func (s *Server) store(ref render.Ref, result any) (*unstructured.Unstructured, error) {
	object, ok := result.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s became a %T", ref, result)
	}
	before, existed := s.objects[ref]
	if existed && reflect.DeepEqual(timeless(before), timeless(object)) {
		return before.DeepCopy(), nil
	}
	s.clock++
	if !existed {
		object.SetUID(types.UID(fmt.Sprintf("uid-%d", s.clock)))
		object.SetCreationTimestamp(metav1.Unix(int64(s.clock), 0))
	}
	object.SetResourceVersion(strconv.Itoa(s.clock))
	s.objects[ref] = object
	return object.DeepCopy(), nil
}

func timeless(object *unstructured.Unstructured) *unstructured.Unstructured {
	still := object.DeepCopy()
	entries := still.GetManagedFields()
	for i := range entries {
		entries[i].Time = nil
	}
	still.SetManagedFields(entries)
	return still
}
