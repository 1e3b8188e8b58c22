package teardown

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Owner tells whose an object is.
type Owner interface {
	// Label returns the value of the ownership label.
	Label() (label, annotation string)
	// Owns says whether an object bears it.
	Owns(object metav1.Object) bool
}

// LetGo leaves every object of a NodeSync to itself, with its nodes, and drops
// the record of its removals. It is done when nothing bears the NodeSync's label
// any more; else the next pass, a moment later, goes on. Objects are read past
// the cache: one that is overlooked would bear the label of nobody.
func LetGo(ctx context.Context, w World, sync *v1alpha1.NodeSync, owner Owner) (done bool, err error) {
	owned, err := ownedBy(ctx, w.Live, owner)
	if err != nil {
		return false, err
	}
	kept, err := loadRecords(ctx, w.Home, sync)
	switch {
	case w.RecordsGo && apierrors.IsForbidden(err):
		kept = &records{}
	case err != nil:
		return false, err
	}
	unlabelled, err := restrainedUnlabelled(ctx, w.Live, sync, kept)
	if err != nil {
		return false, err
	}
	owned = append(owned, unlabelled...)
	if done, err := w.releaseAll(ctx, Releases(owned, kept.growth(sync))); !done || err != nil {
		return false, err
	}
	if err := w.StillLeader(ctx); err != nil {
		return false, fmt.Errorf("delete the record of removals: %w", err)
	}
	return w.dropRecords(ctx, kept)
}

// Orphan leaves some objects of a NodeSync to themselves, with their nodes, labelled as that. It is
// done when none of them bears the NodeSync's label any more; else the next pass, a moment later, goes on.
// Objects are read past the cache.
func Orphan(ctx context.Context, w World, sync *v1alpha1.NodeSync, owner Owner, uids map[types.UID]bool) (done bool, err error) {
	owned, err := ownedBy(ctx, w.Live, owner)
	if err != nil {
		return false, err
	}
	owned = slices.DeleteFunc(owned, func(o *unstructured.Unstructured) bool { return !uids[o.GetUID()] })
	kept, err := loadRecords(ctx, w.Home, sync)
	if err != nil {
		return false, err
	}
	label, _ := owner.Label()
	releases := Releases(owned, kept.growth(sync))
	for i := range releases {
		releases[i].Patch = append(releases[i].Patch, Operation{Op: "add", Path: "/metadata/labels/" + strings.ReplaceAll(v1alpha1.OrphanedLabel, "/", "~1"), Value: label})
	}
	return w.releaseAll(ctx, releases)
}

// releaseAll takes these steps, as many as can be.
func (w World) releaseAll(ctx context.Context, releases []Release) (done bool, err error) {
	done = true
	var failures []error
	for _, release := range releases {
		released, err := w.release(ctx, release)
		done = done && released
		if err != nil {
			failures = append(failures, err)
		}
	}
	return done && len(failures) == 0, errors.Join(failures...)
}

// growth is what the removals had stopped, by object; where there is no record, as the status has it.
func (r *records) growth(sync *v1alpha1.NodeSync) map[types.UID]Growth {
	stopped := map[types.UID]Growth{}
	for _, removal := range sync.Status.Removals {
		if removal.Growth != nil {
			stopped[removal.UID] = Growth{}.or(removal.Growth)
		}
	}
	for uid, entry := range r.entries {
		stopped[uid] = entry.Growth
	}
	return stopped
}

// dropRecords deletes the record of removals. One that another writer has changed is
// read again in the next pass; one that goes with its namespace is released.
func (w World) dropRecords(ctx context.Context, kept *records) (done bool, err error) {
	err = kept.drop(ctx, w.Home)
	switch {
	case err == nil, w.RecordsGo && apierrors.IsForbidden(err):
		return true, nil
	case apierrors.IsConflict(err):
		return false, nil
	}
	return false, err
}

// ownedBy reads the objects that bear an owner's label. Where a kind is not
// served there are none of it.
func ownedBy(ctx context.Context, reader client.Reader, owner Owner) ([]*unstructured.Unstructured, error) {
	label, _ := owner.Label()
	var owned []*unstructured.Unstructured
	for _, kind := range render.Kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GVK)
		err := reader.List(ctx, list, client.MatchingLabels{v1alpha1.OwnerLabel: label})
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("read the %ss to release: %w", kind.GVK.Kind, err)
		}
		for i := range list.Items {
			if owner.Owns(&list.Items[i]) {
				owned = append(owned, &list.Items[i])
			}
		}
	}
	return owned, nil
}

// restrainedUnlabelled reads the objects whose growth a removal has stopped and whose
// label another client has removed since. One that bears the label of another is that
// one's.
func restrainedUnlabelled(ctx context.Context, reader client.Reader, sync *v1alpha1.NodeSync, records *records) ([]*unstructured.Unstructured, error) {
	removed := map[types.UID]render.Ref{}
	for uid, entry := range records.entries {
		removed[uid] = render.Ref{Kind: entry.Kind, Name: entry.Name}
	}
	for _, r := range sync.Status.Removals {
		removed[r.UID] = render.Ref{Kind: r.Kind, Name: r.Name}
	}
	var found []*unstructured.Unstructured
	for uid, ref := range removed {
		kind, known := render.KindOf(ref.Kind)
		if !known || ref.Kind != render.NodePool {
			continue // only the growth of a pool is ever stopped
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind.GVK)
		err := reader.Get(ctx, types.NamespacedName{Name: ref.Name}, object)
		switch {
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("read %s to release it: %w", ref, err)
		}
		if object.GetUID() == uid && object.GetLabels()[v1alpha1.OwnerLabel] == "" && restrained(object) >= 0 {
			found = append(found, object)
		}
	}
	slices.SortFunc(found, func(a, b *unstructured.Unstructured) int { return strings.Compare(a.GetName(), b.GetName()) })
	return found, nil
}

// release patches one object. It is not released where it is another one by now
// or was written since it was read.
func (w World) release(ctx context.Context, r Release) (released bool, err error) {
	if err := w.StillLeader(ctx); err != nil {
		return false, fmt.Errorf("release %s/%s: %w", r.Kind, r.Name, err)
	}
	kind, _ := render.KindOf(r.Kind)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind.GVK)
	object.SetName(r.Name)
	body, err := r.body()
	if err != nil {
		return false, err
	}
	err = w.Writer.Patch(ctx, object, client.RawPatch(types.JSONPatchType, body), client.FieldOwner(r.Manager))
	switch {
	case err == nil, apierrors.IsNotFound(err):
		return true, nil
	case apierrors.IsConflict(err), w.changed(ctx, r):
		return false, nil
	}
	return false, fmt.Errorf("release %s/%s: %w", r.Kind, r.Name, err)
}

// changed says whether an object is not as a release has seen it: the API server
// answers a failed test of a JSON patch as it does an invalid object.
func (w World) changed(ctx context.Context, r Release) bool {
	kind, _ := render.KindOf(r.Kind)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind.GVK)
	if err := w.Live.Get(ctx, types.NamespacedName{Name: r.Name}, object); err != nil {
		return apierrors.IsNotFound(err)
	}
	return object.GetUID() != r.UID || object.GetResourceVersion() != r.ResourceVersion
}
