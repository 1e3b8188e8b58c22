package applytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/render"
)

// Patch handles an apply or a JSON patch.
func (s *Server) Patch(_ context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	into, ok := object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("patch of a %T: definitions are unstructured here", object)
	}
	opts := (&client.PatchOptions{}).ApplyOptions(options)
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	ref := render.RefTo(object.GetObjectKind().GroupVersionKind().Kind, object)
	write := Write{Ref: ref, Type: patch.Type(), Manager: opts.FieldManager, Force: opts.Force != nil && *opts.Force}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Fault != nil {
		if err := s.Fault(write); err != nil {
			return err
		}
	}
	s.writes = append(s.writes, write)
	if _, known := s.definitions[ref.Kind]; !known {
		return fmt.Errorf("patch %s: the server does not know the kind", ref)
	}
	var result *unstructured.Unstructured
	switch patch.Type() {
	case types.ApplyPatchType:
		result, err = s.apply(write, data)
	case types.JSONPatchType:
		result, err = s.jsonPatch(write, data)
	default:
		err = fmt.Errorf("patch %s: the server does not know %s", ref, patch.Type())
	}
	if err != nil {
		return err
	}
	into.Object = result.Object
	return nil
}

// Get returns an object, without a cache.
func (s *Server) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	into, ok := object.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("get a %T: definitions are unstructured here", object)
	}
	ref := render.RefTo(object.GetObjectKind().GroupVersionKind().Kind, &metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name})
	live := s.Object(ref)
	if live == nil {
		return apierrors.NewNotFound(s.resource(Write{Ref: ref}), key.Name)
	}
	into.Object = live.Object
	return nil
}

// List returns the names of a kind, without a cache.
func (s *Server) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	into, ok := list.(*metav1.PartialObjectMetadataList)
	if !ok {
		return fmt.Errorf("list into a %T: only names are listed here", list)
	}
	kind := strings.TrimSuffix(list.GetObjectKind().GroupVersionKind().Kind, "List")
	for ref := range s.Objects() {
		if ref.Kind == kind {
			into.Items = append(into.Items,
				metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Key().Namespace, Name: ref.Key().Name}})
		}
	}
	return nil
}

func (s *Server) apply(write Write, data []byte) (*unstructured.Unstructured, error) {
	applied := &unstructured.Unstructured{}
	if err := applied.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	live := s.live(write.Ref)
	if uid := applied.GetUID(); uid != "" && uid != live.GetUID() {
		return nil, s.conflict(write, fmt.Errorf("precondition failed: UID in precondition: %s, UID in object meta: %s", uid, live.GetUID()))
	}
	if applied.GetManagedFields() != nil {
		return nil, apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	d := s.definitions[write.Ref.Kind]
	result, err := d.managers.Apply(live, applied, write.Manager, write.Force)
	if err != nil {
		return nil, err
	}
	if version := applied.GetResourceVersion(); version != "" && version != live.GetResourceVersion() {
		return nil, s.conflict(write, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	object, ok := result.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("apply %s: became a %T", write.Ref, result)
	}
	d.defaulted(object)
	return s.store(write.Ref, object)
}

func (s *Server) jsonPatch(write Write, data []byte) (*unstructured.Unstructured, error) {
	live, ok := s.objects[write.Ref]
	if !ok {
		return nil, apierrors.NewNotFound(s.resource(write), write.Ref.Name)
	}
	patch, err := jsonpatch.DecodePatch(data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	before, err := json.Marshal(live.Object)
	if err != nil {
		return nil, err
	}
	after, err := patch.Apply(before)
	if errors.Is(err, jsonpatch.ErrTestFailed) {
		return nil, apierrors.NewGenericServerResponse(422, "patch", s.resource(write), write.Ref.Name, err.Error(), 0, false)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	patched := &unstructured.Unstructured{}
	if err := patched.UnmarshalJSON(after); err != nil {
		return nil, err
	}
	if patched.GetResourceVersion() != live.GetResourceVersion() {
		return nil, s.conflict(write, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	result, err := s.definitions[write.Ref.Kind].managers.Update(live.DeepCopy(), patched, write.Manager)
	if err != nil {
		return nil, err
	}
	return s.store(write.Ref, result)
}

// ApplyAs applies an object as any field manager.
func (s *Server) ApplyAs(ctx context.Context, object *unstructured.Unstructured, manager string, force bool) error {
	data, err := json.Marshal(object.Object)
	if err != nil {
		return err
	}
	options := []client.PatchOption{client.FieldOwner(manager)}
	if force {
		options = append(options, client.ForceOwnership)
	}
	return s.Patch(ctx, object.DeepCopy(), client.RawPatch(types.ApplyPatchType, data), options...)
}

func (s *Server) conflict(write Write, err error) error {
	return apierrors.NewConflict(s.resource(write), write.Ref.Name, err)
}

func (s *Server) resource(write Write) schema.GroupResource {
	return s.definitions[write.Ref.Kind].kind.GVR.GroupResource()
}
