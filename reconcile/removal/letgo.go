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

// Owner tells whose an object is.
type Owner interface {
	// Label returns the value of the ownership label.
	Label() (label, annotation string)
	// Owns reports whether an object bears it.
	Owns(object metav1.Object) bool
}

// LetGo orphans every object of a NodeSync, with its nodes, and drops
// the record of its removals. It is done when nothing bears the NodeSync's label
// any more; else the next reconcile, a moment later, goes on. Objects are read past
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
// done when none of them bears the NodeSync's label any more; else the next reconcile, a moment later, goes on.
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
// read again in the next reconcile; one that goes with its namespace is released.
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
		removed[r.UID] = plan.RefOf(r)
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

// changed reports whether an object is not as a release has seen it: the API server
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

// Release lets one object go that stays: our label is taken off and, where a
// removal had stopped its growth, growth is as it was and the removal's manager
// owns nothing; a brake is taken off likewise. Spec and managedFields are otherwise left as it is. NodeClaims that are ending finish by Karpenter.
type Release struct {
	Kind, Name      string
	UID             types.UID
	ResourceVersion string
	// Manager is the field manager that writes it.
	Manager string
	// Patch is a JSON patch, in one piece, that holds for just that object as
	// it was seen.
	Patch []Operation
}

// Operation is one step of a JSON patch (RFC 6902).
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Releases are the steps that leave the objects of a NodeSync to themselves.
// growth is what their removals had recorded.
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
		r.Patch = append(r.Patch, givenBack(object, growth, true)...)
		releases = append(releases, r)
	}
	return releases
}

// Restores are the steps that give pools of Git, which cannot be written yet, what plumbline itself
// has taken from them; none for one that it has taken nothing from. growth is what removals had
// recorded, and braked says whose brake is on.
func Restores(pools []*unstructured.Unstructured, growth map[types.UID]Growth, braked map[string]bool) []Release {
	var restores []Release
	for _, pool := range pools {
		r := releaseOf(pool)
		given := givenBack(pool, growth, !braked[pool.GetName()])
		if len(given) == 0 {
			continue
		}
		r.Manager = v1alpha1.RemovalFieldManager // what Git says of these fields is applied over it
		r.Patch = append(r.Patch, given...)
		restores = append(restores, r)
	}
	return restores
}

// releaseOf is of just this object as it was seen.
func releaseOf(object *unstructured.Unstructured) Release {
	r := Release{Kind: object.GetKind(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(), Manager: v1alpha1.FieldManager}
	r.Patch = []Operation{
		{Op: "test", Path: "/metadata/uid", Value: string(r.UID)},
		{Op: "test", Path: "/metadata/resourceVersion", Value: r.ResourceVersion},
	}
	return r
}

// givenBack has growth be as it was, and likewise the disruption budgets where the brake is to go.
func givenBack(object *unstructured.Unstructured, growth map[types.UID]Growth, brake bool) (patch []Operation) {
	stopped, braked := restrained(object), -1
	if brake {
		braked = appliedAt(object, v1alpha1.BrakeFieldManager)
	}
	if stopped >= 0 {
		before, known := growth[object.GetUID()]
		patch = append(patch, regrow(growthOf(object), before, known)...)
		patch = append(patch, unreplaced(object, before)...)
	}
	if braked >= 0 {
		patch = append(patch, Operation{Op: "replace", Path: "/spec/disruption/budgets", Value: plan.WithoutBrake(object)})
	}
	for _, at := range []int{max(stopped, braked), min(stopped, braked)} { // the last first: the others stay where they are
		if at >= 0 {
			patch = append(patch, Operation{Op: "remove", Path: fmt.Sprintf("/metadata/managedFields/%d", at)})
		}
	}
	return patch
}

// restrained returns where in the object's managedFields a removal stands that
// has stopped its growth; -1 where none has.
func restrained(object *unstructured.Unstructured) int {
	return appliedAt(object, v1alpha1.RemovalFieldManager)
}

// appliedAt returns where in the object's managedFields a manager stands that has applied
// something; -1 where it has not.
func appliedAt(object *unstructured.Unstructured, manager string) int {
	return slices.IndexFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
	})
}

// regrow gives a pool back what stopping its growth has taken. Where nobody
// knows that any more, a cpu limit is taken away, as a revert does, and replicas
// stay: without any the pool would be of the other kind.
func regrow(now, before Growth, known bool) []Operation {
	switch {
	case !now.stopped():
		return nil
	case now.Replicas != nil && known && before.Replicas != nil:
		return []Operation{{Op: "replace", Path: "/spec/replicas", Value: *before.Replicas}}
	case now.Replicas != nil:
		return nil
	case known && before.CPU != nil:
		return []Operation{{Op: "replace", Path: "/spec/limits/cpu", Value: before.CPU}}
	}
	return []Operation{{Op: "remove", Path: "/spec/limits/cpu"}}
}

// unreplaced has the nodes of a pool match it again, and gives it its disruption budgets back: those that
// are recorded, or, if the record is lost, those that are left.
func unreplaced(object *unstructured.Unstructured, before Growth) (patch []Operation) {
	labels, _, _ := unstructured.NestedMap(object.Object, "spec", "template", "metadata", "labels")
	if _, bears := labels[v1alpha1.LeavingLabel]; bears {
		path := "/spec/template/metadata/labels"
		if len(labels) > 1 { // an empty map would be another template to Karpenter's hash
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

// restraint is what the removal's own manager applies to a pool, as a whole: what it leaves out of
// what it has applied before goes. So the disruption budgets, of which it owns all once it has
// applied any, are given back by name, and so are the labels of the template, which are one field to the API server.
func (d *drive) restraint(it *item, a Action) map[string]any {
	before := d.records.entries[it.before.UID].Growth
	spec := map[string]any{}
	// A cache that lags has not seen what was written over the budgets, which the record says was to be.
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
			// Never the one that it had before: what has been launched since has drifted, too.
			label = d.Now.UTC().Format("20060102T150405Z")
		}
		if labels == nil {
			labels = map[string]any{}
		}
		labels[v1alpha1.LeavingLabel] = label
		budgets, paces = pacedBudgets(budgets, a.Nodes, d.Now.Add(lent).Truncate(time.Minute)), true
		spec["limits"] = map[string]any{"cpu": "0"}
	default:
		spec["limits"] = map[string]any{"cpu": "0"}
		if paces { // what has drifted ends at the pace of the removal all the same
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

// budgetsBefore are the disruption budgets of a pool as they were before the removal wrote any: the
// record's, or where it has none what is left of them.
func (d *drive) budgetsBefore(it *item) []any {
	if recorded := d.records.entries[it.before.UID].Growth.Budgets; recorded != nil {
		return recorded
	}
	return it.budgets
}

// keeps notes that a pod keeps Karpenter from replacing its node: it is not to be disrupted
// (ValidatePodsDisruptable in sigs.k8s.io/karpenter pkg/controllers/state/statenode.go), or it may run
// nowhere else.
func (p *podReader) keeps(node string, pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil {
		return
	}
	if blocker.Undisrupted(pod, p.now) {
		p.stays[node] = ""
		return
	}
	_, known := p.stays[node]
	if bound := poolFor(&pod.Spec); bound != "" && blocker.Drains(pod) && !known {
		p.stays[node] = bound
	}
}
