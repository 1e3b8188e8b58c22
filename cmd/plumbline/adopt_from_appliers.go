package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/handover"
	"github.com/plumbline-dev/plumbline/reconcile/wake"
	"github.com/plumbline-dev/plumbline/render"
)

// applier is a Kustomization or an Application.
type applier struct {
	owners.Owner
	// folder is what it applies, in its repository; empty where that is not one.
	folder string
	// several are the folders of an Application with more than one source that has one; folder is empty then.
	several []string
	// set is the ApplicationSet that makes an Application, and with are the others that it makes from the same folder.
	set  string
	with []string
	// deep says that it applies what is in folders below as well.
	deep bool
	// lists are the definitions that it applies.
	lists map[render.Ref]bool
	// trouble is why it applies nothing now; empty where it does.
	trouble string
	// wake are the objects to annotate so that it looks at Git now, and how.
	wake []*unstructured.Unstructured
	key  string
}

// ownerOfTool is what applies objects in a tool.
func ownerOfTool(from string) owners.Owner {
	if from == "argocd" {
		return owners.Owner{Tool: "Argo CD", Kind: "Application"}
	}
	return owners.Owner{Tool: "Flux", Kind: "Kustomization"}
}

// The kinds of the objects by which Flux and Argo CD apply others.
var (
	kustomizationKind = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}
	applicationKind   = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}
)

// listOf reads all objects of a kind.
func listOf(ctx context.Context, c client.Reader, kind schema.GroupVersionKind) (*unstructured.UnstructuredList, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list, c.List(ctx, list)
}

// appliers reads all of a tool.
func (h *handing) appliers(ctx context.Context, from string) ([]applier, error) {
	kind, read := kustomizationKind, kustomization
	if from == "argocd" {
		kind, read = applicationKind, application
	}
	list, err := listOf(ctx, h, kind)
	if apimeta.IsNoMatchError(err) {
		return nil, fmt.Errorf("this cluster has no %ss (%s): --from names the tool that applies the definitions", kind.Kind, kind.Group)
	} else if err != nil {
		return nil, explain(err, "list "+kind.Kind+"s")
	}
	found := make([]applier, 0, len(list.Items))
	for i := range list.Items {
		one := read(&list.Items[i])
		one.Owner = ownerOfTool(from)
		one.Namespace, one.Name = list.Items[i].GetNamespace(), list.Items[i].GetName()
		if list.Items[i].GetDeletionTimestamp() != nil {
			one.trouble = "is being deleted"
		}
		found = append(found, one)
	}
	shareFolders(found)
	return found, nil
}

// kustomization reads one of Flux.
func kustomization(object *unstructured.Unstructured) applier {
	a := applier{deep: true, lists: map[render.Ref]bool{}, key: "reconcile.fluxcd.io/requestedAt"}
	a.folder, _, _ = unstructured.NestedString(object.Object, "spec", "path")
	a.folder = path.Clean("./" + a.folder)
	entries, _, _ := unstructured.NestedSlice(object.Object, "status", "inventory", "entries")
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		id, _ := fields["id"].(string)
		if parts := strings.Split(id, "_"); len(parts) == 4 { // namespace_name_group_kind
			a.list(parts[2], parts[3], parts[1])
		}
	}
	suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
	if suspended {
		a.trouble = fmt.Sprintf("is suspended: flux resume kustomization %s --namespace %s", object.GetName(), object.GetNamespace())
	} else if why := notReady(object); why != "" {
		a.trouble = "is not Ready: " + why
		if strings.Contains(why, "path not found") {
			a.trouble += fmt.Sprintf(" (Git has no empty folders: put an empty file %s into %s, and push that)", handover.KeepFile, a.folder)
		}
	}
	source := &unstructured.Unstructured{}
	kind, _, _ := unstructured.NestedString(object.Object, "spec", "sourceRef", "kind")
	name, _, _ := unstructured.NestedString(object.Object, "spec", "sourceRef", "name")
	namespace, _, _ := unstructured.NestedString(object.Object, "spec", "sourceRef", "namespace")
	source.SetGroupVersionKind(schema.GroupVersionKind{Group: "source.toolkit.fluxcd.io", Version: "v1", Kind: kind})
	source.SetName(name)
	if source.SetNamespace(namespace); namespace == "" {
		source.SetNamespace(object.GetNamespace())
	}
	a.wake = []*unstructured.Unstructured{source, object}
	return a
}

// nested says whether a file that moves between its folder and another one would stay in the first:
// one of them is the other, or in it, as all are in the root.
func (a *applier) nested(other string) bool {
	return slices.ContainsFunc(append([]string{a.folder}, a.several...), func(folder string) bool {
		theirs, ours := strings.TrimSuffix(path.Join("/", folder, "x"), "x"), strings.TrimSuffix(path.Join("/", other, "x"), "x")
		return folder != "" && (a.deep && strings.HasPrefix(ours, theirs) || strings.HasPrefix(theirs, ours))
	})
}

// list notes a definition.
func (a *applier) list(group, kind, name string) {
	if known, ok := render.KindOf(kind); ok && known.GVK.Group == group {
		a.lists[render.Ref{Kind: kind, Name: name}] = true
	}
}

func notReady(object *unstructured.Unstructured) string {
	all, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range all {
		fields, _ := condition.(map[string]any)
		if fields["type"] == "Ready" && fields["status"] == "False" {
			return fmt.Sprint(fields["message"])
		}
	}
	return ""
}

// applierOf is the one that an object is handed over by, or goes to: by its name, by the object's
// marks, or as it lists it. nil where there is none.
func (h *handing) applierOf(appliers []applier, ref render.Ref, live *unstructured.Unstructured) (*applier, error) {
	if h.owner != "" {
		for i := range appliers {
			if a := &appliers[i]; h.owner == a.Name || h.owner == a.Namespace+"/"+a.Name {
				return a, nil
			}
		}
		return nil, fmt.Errorf("--owner %s: there is no such %s", h.owner, ownerOfTool(h.from).Kind)
	}
	var found *applier
	for i := range appliers {
		a := &appliers[i]
		marked := slices.ContainsFunc(owners.All(live), func(owner owners.Owner) bool {
			return owner.Kind == a.Kind && owner.Name == a.Name && (owner.Namespace == a.Namespace || owner.Namespace == "")
		})
		switch {
		case marked && a.lists[ref]:
			return a, nil
		case marked, a.lists[ref] && found == nil:
			found = a
		}
	}
	return found, nil
}

// nudge has the other tool and plumbline look at Git now. Who may not write to them waits for
// their intervals.
func (h *handing) nudge(ctx context.Context, r *handoverReport) {
	nudged := map[string]bool{}
	for i := range r.Objects {
		by := r.Objects[i].by
		if by == nil || nudged[by.String()] {
			continue
		}
		nudged[by.String()] = true
		value := time.Now().Format(time.RFC3339Nano)
		if by.Kind == "Application" {
			value = "normal"
		}
		for _, object := range by.wake {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, by.key, value))
			_ = h.Patch(ctx, object.DeepCopy(), patch) // it is only faster
		}
	}
	_, _ = wake.Request(ctx, h, client.ObjectKeyFromObject(r.sync), time.Now()) // likewise
}

// waitsFor says what an object waits for.
func (h *handing) waitsFor(sync *v1alpha1.NodeSync, o *handedObject) string {
	ours, theirs := saysOurs(sync), o.owner.String()
	if o.by != nil && o.by.trouble != "" {
		theirs += ", which " + o.by.trouble
	}
	from, to := theirs, ours
	if h.back {
		from, to = ours, theirs
	}
	switch {
	case o.Step == handover.Mark:
		return fmt.Sprintf("the annotation of %s is committed: waiting for %s", o.ref, from)
	case o.Step == handover.Unmark:
		return fmt.Sprintf("the annotation is taken out of the file of %s: waiting for %s", o.ref, to)
	case h.back && o.state.From.Applies && holds(sync, o.ref):
		return fmt.Sprintf("NodeSync %s/%s holds that %s leaves it until people approve that: %s", sync.Namespace, sync.Name, o.ref, approval.Command(sync, sync.Status.Held.Digest))
	case h.back && o.state.From.Applies, !h.back && !o.state.To.Applies:
		return fmt.Sprintf("the file of %s has moved: waiting for %s", o.ref, ours)
	}
	return fmt.Sprintf("the file of %s has moved: waiting for %s", o.ref, theirs)
}

// saysOurs names a NodeSync, and says why it is not Ready.
func saysOurs(sync *v1alpha1.NodeSync) string {
	ours := fmt.Sprintf("NodeSync %s/%s", sync.Namespace, sync.Name)
	if is := resting(sync); is != "" {
		return fmt.Sprintf("%s, which is %s: plumbline resume %s", ours, is, sync.Name)
	}
	if !conditions.IsReady(sync) {
		return ours + ": " + oneLine(conditions.GetMessage(sync, meta.ReadyCondition))
	}
	return ours
}
