package inventory

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/configmap"
)

const (
	// holds is what the ConfigMap is for.
	holds = "the record of applied objects"
	// dataKey is where the objects are in the ConfigMap.
	dataKey = "applied.json.gz"
	// revisionKey is the annotation with the Revision, which changes with each commit: for
	// that the objects are not written again.
	revisionKey = "plumbline.dev/applied-revision"
)

// Store is the record of one NodeSync as it was read or written last. It is kept
// between passes; a write over what another client has changed fails, and the
// record has to be loaded again.
type Store struct {
	Record Record
	// object is the ConfigMap; nil where there is none.
	object *corev1.ConfigMap
	// revised says that a Revision belongs to what was read or written: an older version of
	// plumbline wrote none.
	revised bool
}

// Exists says that there is a record: without one, nobody knows what was applied.
func (s *Store) Exists() bool { return s.object != nil }

// Lost says that what was applied is not known, if only in part: there is no record, or it lacks
// the Revision that was written with it.
func (s *Store) Lost() bool { return !s.Exists() || s.revised && s.Record.Revision == "" }

// Load reads the record past any cache. There may be none.
func Load(ctx context.Context, reader client.Reader, sync *v1alpha1.NodeSync) (*Store, error) {
	object := &corev1.ConfigMap{}
	name := types.NamespacedName{Namespace: sync.Namespace, Name: v1alpha1.AppliedName(sync.Name)}
	err := reader.Get(ctx, name, object)
	switch {
	case apierrors.IsNotFound(err):
		return &Store{}, nil
	case err != nil:
		return nil, fmt.Errorf("read the record of applied objects in ConfigMap %s: %w", name, err)
	case !metav1.IsControlledBy(object, sync):
		return nil, configmap.InTheWay(object, holds, sync.Name)
	}
	record, revised, err := decode(object.BinaryData[dataKey])
	if err != nil {
		return nil, configmap.Unreadable(object, holds, err, "pools that have vanished from the cluster")
	}
	record.Revision = object.Annotations[revisionKey]
	object.BinaryData = nil // it is in Record
	return &Store{Record: record, object: object, revised: revised}, nil
}

// Save writes a record, where it is another one than was read or written last.
func (s *Store) Save(ctx context.Context, writer client.Writer, sync *v1alpha1.NodeSync, next Record) error {
	if s.Exists() && s.revised && s.Record.Equal(next) {
		return nil
	}
	if s.Exists() && s.revised && s.Record.sameObjects(next) {
		return s.saveRevision(ctx, writer, next.Revision)
	}
	packed, err := encode(next)
	if err != nil {
		return err
	}
	target := configmap.New(sync, v1alpha1.AppliedName(sync.Name))
	if s.Exists() {
		if err := configmap.Writable(s.object, holds); err != nil {
			return err
		}
		target = s.object.DeepCopy()
	}
	target.BinaryData = map[string][]byte{dataKey: packed}
	target.Annotations = map[string]string{revisionKey: next.Revision}
	if s.Exists() {
		err = writer.Update(ctx, target, client.FieldOwner(v1alpha1.FieldManager))
	} else {
		err = writer.Create(ctx, target, client.FieldOwner(v1alpha1.FieldManager))
	}
	if err != nil {
		return fmt.Errorf("write the record of applied objects in ConfigMap %s/%s: %w", target.Namespace, target.Name, err)
	}
	target.BinaryData = nil
	s.Record, s.object, s.revised = next, target, true
	return nil
}

// saveRevision writes the Revision and nothing else.
func (s *Store) saveRevision(ctx context.Context, writer client.Writer, revision string) error {
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: s.object.Namespace, Name: s.object.Name}}
	target.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": s.object.ResourceVersion, "annotations": map[string]string{revisionKey: revision},
	}})
	if err != nil {
		return err
	}
	if err := writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("write the revision of applied objects to ConfigMap %s/%s: %w", target.Namespace, target.Name, err)
	}
	s.Record.Revision, s.object.ResourceVersion = revision, target.ResourceVersion
	s.object.Annotations = target.Annotations
	return nil
}

// Drop deletes the record as it was read. That it is gone already is no error.
func (s *Store) Drop(ctx context.Context, writer client.Writer) error {
	if !s.Exists() {
		return nil
	}
	uid, resourceVersion := s.object.UID, s.object.ResourceVersion
	err := writer.Delete(ctx, s.object, client.Preconditions{UID: &uid, ResourceVersion: &resourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the record of applied objects in ConfigMap %s/%s: %w", s.object.Namespace, s.object.Name, err)
	}
	s.Record, s.object, s.revised = Record{}, nil, false
	return nil
}
