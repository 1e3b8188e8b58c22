package inventory

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/render"
)

// many is from how many objects of a kind on one LIST costs less than a GET of
// each.
const many = 16

// Missing are those of some entries that the API server does not have either: a
// watch cache may not have learned yet of what was applied a moment ago. Where a
// kind is not served there are none of it.
func Missing(ctx context.Context, reader client.Reader, entries []Entry) ([]Entry, error) {
	byKind := map[string][]Entry{}
	for _, e := range entries {
		byKind[e.Ref.Kind] = append(byKind[e.Ref.Kind], e)
	}
	found := map[render.Ref]types.UID{}
	for kind, some := range byKind {
		if err := find(ctx, reader, kind, some, found); err != nil {
			return nil, err
		}
	}
	var missing []Entry
	for _, e := range entries {
		if found[e.Ref] != e.UID {
			missing = append(missing, e)
		}
	}
	return missing, nil
}

// find reads the UIDs of some objects of one kind.
func find(ctx context.Context, reader client.Reader, name string, entries []Entry, found map[render.Ref]types.UID) error {
	kind, known := render.KindOf(name)
	if !known {
		return nil // a later version of plumbline has applied it
	}
	if len(entries) >= many {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GVK.GroupVersion().WithKind(name + "List"))
		err := reader.List(ctx, list)
		if err != nil && !absent(err) {
			return fmt.Errorf("find out which %ss are missing: %w", name, err)
		}
		for i := range list.Items {
			found[render.Ref{Kind: name, Name: list.Items[i].Name}] = list.Items[i].UID
		}
		return nil
	}
	for _, e := range entries {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(kind.GVK)
		err := reader.Get(ctx, types.NamespacedName{Name: e.Ref.Name}, object)
		if err != nil && !absent(err) {
			return fmt.Errorf("find out whether %s is missing: %w", e.Ref, err)
		}
		if err == nil {
			found[e.Ref] = object.UID
		}
	}
	return nil
}

func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
