package removal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Owner is the owner of objects.
type Owner interface {
	// Label returns the value of the ownership label.
	Label() (label, annotation string)
	// Owns reports whether an object has its label.
	Owns(object metav1.Object) bool
}

// OrphanAll orphans every object of a NodeSync, with its nodes, and drops the record of its removals. It is done when
// no object has the NodeSync's label any more; otherwise the next reconcile, a moment later, continues. It reads
// objects past the cache: one that is missed would keep the label of a NodeSync that no longer exists.
func OrphanAll(ctx context.Context, w World, sync *v1alpha1.NodeSync, owner Owner) (done bool, err error) {
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

// Orphan stops managing some objects of a NodeSync, with their nodes, and labels them as orphaned. It is done when none
// of them has the NodeSync's label any more; otherwise the next reconcile, a moment later, continues. It reads objects
// past the cache.
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
		releases[i].Patch = append(releases[i].Patch,
			Operation{Op: "add", Path: "/metadata/labels/" + strings.ReplaceAll(v1alpha1.OrphanedLabel, "/", "~1"), Value: label})
	}
	return w.releaseAll(ctx, releases)
}

// releaseAll makes as many of these releases as possible.
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

// growth returns the growth that the removals had stopped, by object; without a record, it uses the status.
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

// dropRecords deletes the record of removals. If another client has changed it, the next reconcile reads it again; if
// it is deleted with its namespace, nothing is left to do.
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

// ownedBy reads the objects with an owner's label. A kind that is not served has none.
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

// restrainedUnlabelled reads the objects whose growth a removal has stopped and whose label another client has removed
// since. An object with another owner's label belongs to that owner.
func restrainedUnlabelled(
	ctx context.Context, reader client.Reader, sync *v1alpha1.NodeSync, records *records,
) ([]*unstructured.Unstructured, error) {
	removed := map[types.UID]render.Ref{}
	for uid, entry := range records.entries {
		removed[uid] = render.Ref{Kind: entry.Kind, Name: entry.Name}
	}
	for _, r := range sync.Status.Removals {
		removed[r.UID] = plan.RefOf(r)
	}
	var found []*unstructured.Unstructured
	for uid, ref := range removed {
		if ref.Kind != render.NodePool {
			continue // only the growth of a pool is ever stopped
		}
		object := ref.Empty()
		err := reader.Get(ctx, ref.Key(), object)
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

// release patches one object. It returns false if the object was replaced or written since it was read.
func (w World) release(ctx context.Context, r Release) (released bool, err error) {
	if err := w.StillLeader(ctx); err != nil {
		return false, fmt.Errorf("release %s/%s: %w", r.Kind, r.Name, err)
	}
	object := render.Ref{Kind: r.Kind, Name: r.Name}.Empty()
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

// changed reports whether an object differs from the version that a release has seen: the API server returns the same
// error for a failed test of a JSON patch as for an invalid object.
func (w World) changed(ctx context.Context, r Release) bool {
	ref := render.Ref{Kind: r.Kind, Name: r.Name}
	object := ref.Empty()
	if err := w.Live.Get(ctx, ref.Key(), object); err != nil {
		return apierrors.IsNotFound(err)
	}
	return object.GetUID() != r.UID || object.GetResourceVersion() != r.ResourceVersion
}

// Release stops managing one object that stays: it removes plumbline's label and, if a removal had stopped its growth,
// restores the growth and removes the removal's field manager; a brake is removed in the same way. The rest of spec and
// managedFields is unchanged. Karpenter completes the termination of NodeClaims.
type Release struct {
	Kind, Name      string
	UID             types.UID
	ResourceVersion string
	// Manager is the field manager that writes it.
	Manager string
	// Patch is a JSON patch that applies only to the object in the version that was seen.
	Patch []Operation
}

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Releases returns the releases that stop managing the objects of a NodeSync. growth is what their removals had
// recorded.
func Releases(owned []*unstructured.Unstructured, growth map[types.UID]Growth) []Release {
	releases := make([]Release, 0, len(owned))
	for _, object := range owned {
		r := releaseOf(object)
		key := strings.ReplaceAll(v1alpha1.OwnerLabel, "/", "~1")
		if _, labelled := object.GetLabels()[v1alpha1.OwnerLabel]; labelled {
			r.Patch = append(r.Patch, Operation{Op: "remove", Path: "/metadata/labels/" + key})
		}
		if _, annotated := object.GetAnnotations()[v1alpha1.OwnerLabel]; annotated {
			r.Patch = append(r.Patch, Operation{Op: "remove", Path: "/metadata/annotations/" + key})
		}
		r.Patch = append(r.Patch, restorePatch(object, growth, true)...)
		releases = append(releases, r)
	}
	return releases
}

// Restores returns the releases that restore what plumbline itself has changed on pools that are in Git and cannot be
// written yet; none for an unchanged pool. growth is what removals had recorded, and braked are the pools whose brake
// stays on.
func Restores(pools []*unstructured.Unstructured, growth map[types.UID]Growth, braked map[string]bool) []Release {
	var restores []Release
	for _, pool := range pools {
		r := releaseOf(pool)
		given := restorePatch(pool, growth, !braked[pool.GetName()])
		if len(given) == 0 {
			continue
		}
		r.Manager = v1alpha1.RemovalFieldManager // the values in Git are applied over it
		r.Patch = append(r.Patch, given...)
		restores = append(restores, r)
	}
	return restores
}

// releaseOf returns a Release of the object in the version that was seen.
func releaseOf(object *unstructured.Unstructured) Release {
	r := Release{
		Kind: object.GetKind(), Name: render.RefOf(object).Name, UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
		Manager: v1alpha1.FieldManager,
	}
	r.Patch = []Operation{
		{Op: "test", Path: "/metadata/uid", Value: string(r.UID)},
		{Op: "test", Path: "/metadata/resourceVersion", Value: r.ResourceVersion},
	}
	return r
}

// restorePatch returns the patch that restores growth and, if brake is true, the disruption budgets.
func restorePatch(object *unstructured.Unstructured, growth map[types.UID]Growth, brake bool) (patch []Operation) {
	stopped, braked := restrained(object), -1
	if brake {
		braked = plan.AppliedAt(object, v1alpha1.BrakeFieldManager)
	}
	if stopped >= 0 {
		before, known := growth[object.GetUID()]
		patch = append(patch, regrow(growthOf(object), before, known)...)
		patch = append(patch, unreplaced(object, before)...)
	}
	if braked >= 0 {
		patch = append(patch, Operation{Op: "replace", Path: "/spec/disruption/budgets", Value: plan.WithoutBrake(object)})
	}
	for _, at := range []int{max(stopped, braked), min(stopped, braked)} { // the last one first, so the index of the other stays valid
		if at >= 0 {
			patch = append(patch, Operation{Op: "remove", Path: fmt.Sprintf("/metadata/managedFields/%d", at)})
		}
	}
	return patch
}

// restrained returns the index in the object's managedFields of a removal that has stopped its growth; -1 if there is
// none.
func restrained(object *unstructured.Unstructured) int {
	return plan.AppliedAt(object, v1alpha1.RemovalFieldManager)
}

// regrow restores what was changed to stop a pool's growth, or to scale a static pool down. If the previous value is
// unknown, it removes a cpu limit, as a revert does, but keeps replicas: without replicas the pool would no longer be
// static.
func regrow(now, before Growth, known bool) []Operation {
	switch {
	case now.Replicas != nil && known && before.Replicas != nil && *before.Replicas > *now.Replicas:
		return []Operation{{Op: "replace", Path: "/spec/replicas", Value: *before.Replicas}}
	case now.Replicas != nil, !now.stopped():
		return nil
	case known && before.CPU != nil:
		return []Operation{{Op: "replace", Path: "/spec/limits/cpu", Value: before.CPU}}
	}
	return []Operation{{Op: "remove", Path: "/spec/limits/cpu"}}
}

// unreplaced makes the nodes of a pool match its template again, and restores its disruption budgets: the recorded ones
// or, if the record is lost, those that remain.
func unreplaced(object *unstructured.Unstructured, before Growth) (patch []Operation) {
	labels, _, _ := unstructured.NestedMap(object.Object, "spec", "template", "metadata", "labels")
	if _, bears := labels[v1alpha1.LeavingLabel]; bears {
		path := "/spec/template/metadata/labels"
		if len(labels) > 1 { // an empty map would change Karpenter's hash of the template
			path += "/" + strings.ReplaceAll(v1alpha1.LeavingLabel, "/", "~1")
		}
		patch = append(patch, Operation{Op: "remove", Path: path})
	}
	if !plan.BudgetsAppliedBy(object, v1alpha1.RemovalFieldManager) {
		return patch
	}
	budgets := before.Budgets
	if budgets == nil {
		budgets = append([]any{}, unpaced(plan.BudgetsOf(object))...)
	}
	return append(patch, Operation{Op: "replace", Path: "/spec/disruption/budgets", Value: budgets})
}

func (r Release) body() ([]byte, error) {
	body, err := json.Marshal(r.Patch)
	if err != nil {
		return nil, fmt.Errorf("encode the release of %s/%s: %w", r.Kind, r.Name, err)
	}
	return body, nil
}

// restraint returns the whole spec that the removal's own manager applies to a pool: a field that it applied before and
// now omits is removed. That is why it includes the disruption budgets, all of which it owns once it has applied any,
// and the labels of the template, which are one field to the API server.
func (d *drive) restraint(it *item, a Action) map[string]any {
	before := d.records.entries[it.before.UID].Growth
	spec := map[string]any{}
	// A stale cache does not contain the budgets that were written; by the record they were about to be.
	budgets, paces := d.budgetsBefore(it), it.paces || before.Budgets != nil
	labels, label := maps.Clone(it.labels), it.labels[v1alpha1.LeavingLabel]
	delete(labels, v1alpha1.LeavingLabel)
	switch a := a.(type) {
	case RestoreGrowth:
		if before.CPU != nil {
			spec["limits"] = map[string]any{"cpu": before.CPU}
		}
		if before.Replicas != nil {
			spec["replicas"] = *before.Replicas
		}
		if paces && a.Paced {
			budgets = pacedBudgets(budgets, 0, time.Time{})
		}
	case Replace:
		if it.seen.Replacing == nil {
			// Never reuse the previous label: nodes that were launched since must drift, too.
			label = d.Now.UTC().Format("20060102T150405Z")
		}
		if labels == nil {
			labels = map[string]any{}
		}
		labels[v1alpha1.LeavingLabel] = label
		budgets, paces = pacedBudgets(budgets, a.Nodes, d.Now.Add(leaseDuration).Truncate(time.Minute)), true
		spec["limits"] = map[string]any{"cpu": "0"}
	default:
		spec["limits"] = map[string]any{"cpu": "0"}
		if paces { // drifted nodes are still limited to the pace of the removal
			budgets = pacedBudgets(budgets, 0, time.Time{})
		}
	}
	if paces {
		spec["disruption"] = map[string]any{"budgets": append([]any{}, budgets...)}
		if len(labels) > 0 {
			spec["template"] = map[string]any{"metadata": map[string]any{"labels": labels}}
		}
	}
	if len(spec) == 0 {
		return nil
	}
	return spec
}

// budgetsBefore returns the disruption budgets of a pool from before the removal wrote any: those in the record or, if
// it has none, the remaining ones of the pool.
func (d *drive) budgetsBefore(it *item) []any {
	if recorded := d.records.entries[it.before.UID].Growth.Budgets; recorded != nil {
		return recorded
	}
	return it.budgets
}

// keeps notes that a pod prevents Karpenter from replacing its node, because it must not be disrupted
// (ValidatePodsDisruptable in sigs.k8s.io/karpenter pkg/controllers/state/statenode.go) or may run nowhere else.
func (p *podReader) keeps(node string, pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil {
		return
	}
	if plan.Undisrupted(pod, p.now) {
		p.stays[node] = ""
		return
	}
	_, known := p.stays[node]
	if bound := poolFor(&pod.Spec); bound != "" && blocker.Drains(pod) && !known {
		p.stays[node] = bound
	}
}
