package apply

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/internal/configmap"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Record is what a NodeSync has applied.
type Record struct {
	// Objects are those that exist, and those that vanished and whose nodes are not confirmed to be gone, with the UID
	// of each.
	Objects map[render.Ref]types.UID
	// Pools are the names of all NodePools that were ever in the record.
	Pools map[string]bool
	// Revision is the newest one of which anything was written; empty in the record of an older version.
	Revision string
}

// RecordEntry is one object of a Record.
type RecordEntry struct {
	Ref render.Ref
	UID types.UID
}

// Objects are live objects, by name.
type Objects = map[render.Ref]*plan.Object

// NextRecord returns the record after a reconcile. owned are the live objects of the NodeSync; live are all. An entry
// stays while its object is missing, unless gone reports that nothing of it remains, whatever a cache still contains. A
// live object that no longer belongs to the NodeSync must not be removed by it. Of kinds other than NodePool, nothing
// remains once the object is missing.
func NextRecord(before Record, owned map[render.Ref]types.UID, live Objects, gone map[types.UID]bool) Record {
	next := Record{Objects: maps.Clone(owned), Pools: maps.Clone(before.Pools), Revision: before.Revision}
	if next.Objects == nil {
		next.Objects = map[render.Ref]types.UID{}
	}
	if next.Pools == nil {
		next.Pools = map[string]bool{}
	}
	for ref, uid := range owned {
		if ref.Kind == render.NodePool {
			next.Pools[ref.Name] = true
		}
		if gone[uid] {
			delete(next.Objects, ref)
		}
	}
	for _, entry := range Vanished(before, live) {
		if _, replaced := owned[entry.Ref]; !replaced && !gone[entry.UID] && entry.Ref.Kind == render.NodePool {
			next.Objects[entry.Ref] = entry.UID
		}
	}
	return next
}

// Vanished returns the objects of a record that no longer exist under their UID, by kind and name.
func Vanished(r Record, live Objects) []RecordEntry {
	var vanished []RecordEntry
	for ref, uid := range r.Objects {
		if object := live[ref]; object == nil || object.GetUID() != uid {
			vanished = append(vanished, RecordEntry{Ref: ref, UID: uid})
		}
	}
	slices.SortFunc(vanished, func(a, b RecordEntry) int {
		return cmp.Or(cmp.Compare(a.Ref.Kind, b.Ref.Kind), cmp.Compare(a.Ref.Name, b.Ref.Name))
	})
	return vanished
}

// Equal reports whether two records are the same.
func (r Record) Equal(other Record) bool {
	return r.Revision == other.Revision && r.sameObjects(other)
}

// sameObjects reports whether two records differ at most in their Revision.
func (r Record) sameObjects(other Record) bool {
	return maps.Equal(r.Objects, other.Objects) && maps.Equal(r.Pools, other.Pools)
}

const (
	// recordPurpose is the purpose of the ConfigMap, for messages.
	recordPurpose = "the record of applied objects"
	// dataKey is the key of the objects in the ConfigMap.
	dataKey = "applied.json.gz"
	// revisionKey is the annotation with the Revision. It changes with each commit, without rewriting the objects.
	revisionKey = "plumbline.dev/applied-revision"
)

// RecordStore is the record of one NodeSync as last read or written. It is kept between reconciles; a write conflicts
// if another client has changed the ConfigMap, and the record must be loaded again.
type RecordStore struct {
	Record Record
	// object is the ConfigMap; nil if there is none.
	object *corev1.ConfigMap
	// revised reports whether a Revision belongs to the data: an older version of plumbline wrote none.
	revised bool
}

// Exists reports whether there is a record: without one, what was applied is unknown.
func (s *RecordStore) Exists() bool { return s.object != nil }

// Lost reports whether it is unknown, at least in part, what was applied: there is no record, or it no longer contains
// its Revision.
func (s *RecordStore) Lost() bool { return !s.Exists() || s.revised && s.Record.Revision == "" }

// LoadRecord reads the record without a cache. There may be none.
func LoadRecord(ctx context.Context, reader client.Reader, sync *v1alpha1.NodeSync) (*RecordStore, error) {
	object := &corev1.ConfigMap{}
	name := types.NamespacedName{Namespace: sync.Namespace, Name: v1alpha1.AppliedName(sync.Name)}
	err := reader.Get(ctx, name, object)
	switch {
	case apierrors.IsNotFound(err):
		return &RecordStore{}, nil
	case err != nil:
		return nil, fmt.Errorf("read the record of applied objects in ConfigMap %s: %w", name, err)
	case !metav1.IsControlledBy(object, sync):
		return nil, configmap.InTheWay(object, recordPurpose, sync.Name)
	}
	record, revised, err := decode(object.BinaryData[dataKey])
	if err != nil {
		return nil, configmap.Unreadable(object, recordPurpose, err, "NodePools that no longer exist in the cluster")
	}
	record.Revision = object.Annotations[revisionKey]
	object.BinaryData = nil // it is in Record
	return &RecordStore{Record: record, object: object, revised: revised}, nil
}

// Save writes a record if it differs from the last one.
func (s *RecordStore) Save(ctx context.Context, writer client.Writer, sync *v1alpha1.NodeSync, next Record) error {
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
		if err := configmap.Writable(s.object, recordPurpose); err != nil {
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

// saveRevision only writes the Revision.
func (s *RecordStore) saveRevision(ctx context.Context, writer client.Writer, revision string) error {
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

// Drop deletes the record that was read. It is no error if it no longer exists.
func (s *RecordStore) Drop(ctx context.Context, writer client.Writer) error {
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

// maxEncoded limits the unpacked size: other clients can write the ConfigMap.
const maxEncoded = 64 << 20

// stored is a Record as JSON. The keys of its maps are sorted.
type stored struct {
	// Objects are UIDs by kind/name.
	Objects map[string]types.UID `json:"objects"`
	Pools   []string             `json:"pools,omitempty"`
	// Revised reports whether the revision is stored as well: an older version of plumbline did not write it.
	Revised bool `json:"revised,omitempty"`
}

// encode packs a record without its Revision: 10,000 objects take about 300 kB of the 1 MiB limit of a ConfigMap. Equal
// records have equal bytes.
func encode(r Record) ([]byte, error) {
	s := stored{Objects: make(map[string]types.UID, len(r.Objects)), Pools: slices.Sorted(maps.Keys(r.Pools)), Revised: true}
	for ref, uid := range r.Objects {
		s.Objects[ref.String()] = uid
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if err := json.NewEncoder(writer).Encode(s); err != nil {
		return nil, fmt.Errorf("encode the record of applied objects: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("pack the record of applied objects: %w", err)
	}
	return packed.Bytes(), nil
}

// decode unpacks a record; revised reports whether a Revision belongs to it.
func decode(packed []byte) (r Record, revised bool, err error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Record{}, false, fmt.Errorf("unpack the record of applied objects: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(reader, maxEncoded))
	if err != nil {
		return Record{}, false, fmt.Errorf("unpack the record of applied objects: %w", err)
	}
	var s stored
	if err := json.Unmarshal(data, &s); err != nil {
		return Record{}, false, fmt.Errorf("decode the record of applied objects: %w", err)
	}
	r = Record{Objects: make(map[render.Ref]types.UID, len(s.Objects)), Pools: make(map[string]bool, len(s.Pools))}
	for key, uid := range s.Objects {
		kind, name, _ := strings.Cut(key, "/")
		r.Objects[render.Ref{Kind: kind, Name: name}] = uid
	}
	for _, pool := range s.Pools {
		r.Pools[pool] = true
	}
	return r, s.Revised, nil
}

// manyEntries is the number of objects of a kind from which one LIST costs less than a GET for each.
const manyEntries = 16

// Missing returns the entries that do not exist in the API server either: a watch cache may not contain yet what was
// applied a moment ago. If a kind is not served, all of its entries are missing.
func Missing(ctx context.Context, reader client.Reader, entries []RecordEntry) ([]RecordEntry, error) {
	byKind := map[string][]RecordEntry{}
	for _, e := range entries {
		byKind[e.Ref.Kind] = append(byKind[e.Ref.Kind], e)
	}
	found := map[render.Ref]types.UID{}
	for kind, some := range byKind {
		if err := find(ctx, reader, kind, some, found); err != nil {
			return nil, err
		}
	}
	var missing []RecordEntry
	for _, e := range entries {
		if found[e.Ref] != e.UID {
			missing = append(missing, e)
		}
	}
	return missing, nil
}

// find reads the UIDs of some objects of one kind.
func find(ctx context.Context, reader client.Reader, name string, entries []RecordEntry, found map[render.Ref]types.UID) error {
	kind, known := render.KindOf(name)
	if !known {
		return nil // a later version of plumbline has applied it
	}
	if len(entries) >= manyEntries {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GVK.GroupVersion().WithKind(name + "List"))
		err := reader.List(ctx, list)
		if err != nil && !absent(err) {
			return fmt.Errorf("list the %ss that are missing: %w", name, err)
		}
		for i := range list.Items {
			found[render.RefTo(name, &list.Items[i])] = list.Items[i].UID
		}
		return nil
	}
	for _, e := range entries {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind.GVK)
		err := reader.Get(ctx, e.Ref.Key(), object)
		if err != nil && !absent(err) {
			return fmt.Errorf("check whether %s is missing: %w", e.Ref, err)
		}
		if err == nil {
			found[e.Ref] = object.UID
		}
	}
	return nil
}

func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
