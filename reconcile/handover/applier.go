package handover

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/render"
)

// Applier is a Kustomization or an Application.
type Applier struct {
	owners.Owner
	// folder is what it applies, in its repository; empty if that is not one folder.
	folder string
	// several are the folders of an Application whose sources have more than one; folder is then empty.
	several []string
	// set is the ApplicationSet that generates an Application, and with are the others that it generates from the same
	// folder.
	set  string
	with []string
	// deep reports whether it also applies folders below.
	deep bool
	// lists are the definitions that it lists as applied.
	lists map[render.Ref]bool
	// trouble is why it applies nothing now; empty if it does.
	trouble string
	// Wake are the objects to annotate with WakeKey so that it looks at Git now.
	Wake    []*unstructured.Unstructured
	WakeKey string
}

// OwnerOf returns the kind of object that applies others in a tool.
func OwnerOf(from string) owners.Owner {
	if from == "argocd" {
		return owners.Owner{Tool: "Argo CD", Kind: "Application"}
	}
	return owners.Owner{Tool: "Flux", Kind: "Kustomization"}
}

// The kinds of objects with which Flux and Argo CD apply others.
var (
	KustomizationKind = schema.GroupVersionKind{Group: "kustomize.toolkit.fluxcd.io", Version: "v1", Kind: "Kustomization"}
	ApplicationKind   = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application"}
)

// kustomization reads a Kustomization of Flux.
func kustomization(object *unstructured.Unstructured) Applier {
	a := Applier{deep: true, lists: map[render.Ref]bool{}, WakeKey: "reconcile.fluxcd.io/requestedAt"}
	a.folder, _, _ = unstructured.NestedString(object.Object, "spec", "path")
	a.folder = path.Clean("./" + a.folder)
	entries, _, _ := unstructured.NestedSlice(object.Object, "status", "inventory", "entries")
	for _, entry := range entries {
		fields, _ := entry.(map[string]any)
		id, _ := fields["id"].(string)
		if parts := strings.Split(id, "_"); len(parts) == 4 { // namespace_name_group_kind
			a.list(parts[2], parts[3], parts[0], parts[1])
		}
	}
	suspended, _, _ := unstructured.NestedBool(object.Object, "spec", "suspend")
	if suspended {
		a.trouble = fmt.Sprintf("is suspended: flux resume kustomization %s --namespace %s", object.GetName(), object.GetNamespace())
	} else if why := notReady(object); why != "" {
		a.trouble = "is not Ready: " + why
		if strings.Contains(why, "path not found") {
			a.trouble += fmt.Sprintf(" (Git has no empty folders: put an empty file %s into %s, and push that)", KeepFile, a.folder)
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
	a.Wake = []*unstructured.Unstructured{source, object}
	return a
}

// nested reports whether a file that moves between its folder and another one would stay in the first: one folder is or
// contains the other, as the root contains all.
func (a *Applier) nested(other string) bool {
	return slices.ContainsFunc(append([]string{a.folder}, a.several...), func(folder string) bool {
		theirs, ours := strings.TrimSuffix(path.Join("/", folder, "x"), "x"), strings.TrimSuffix(path.Join("/", other, "x"), "x")
		return folder != "" && (a.deep && strings.HasPrefix(ours, theirs) || strings.HasPrefix(theirs, ours))
	})
}

// list records a definition.
func (a *Applier) list(group, kind, namespace, name string) {
	if known, ok := render.KindOf(kind); ok && known.GVK.Group == group {
		if known.Namespaced {
			name = namespace + "/" + name
		}
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

// application reads an Application of Argo CD. A resource that requires pruning is no longer in its folder.
func application(object *unstructured.Unstructured) Applier {
	a := Applier{lists: map[render.Ref]bool{}, WakeKey: "argocd.argoproj.io/refresh", Wake: []*unstructured.Unstructured{object}}
	a.readSources(object)
	for _, owner := range object.GetOwnerReferences() {
		if owner.Kind == "ApplicationSet" {
			a.set = owner.Name
		}
	}
	resources, _, _ := unstructured.NestedSlice(object.Object, "status", "resources")
	for _, resource := range resources {
		fields, _ := resource.(map[string]any)
		group, _ := fields["group"].(string)
		kind, _ := fields["kind"].(string)
		namespace, _ := fields["namespace"].(string)
		name, _ := fields["name"].(string)
		if pruned, _ := fields["requiresPruning"].(bool); !pruned {
			a.list(group, kind, namespace, name)
		}
	}
	_, automated, _ := unstructured.NestedMap(object.Object, "spec", "syncPolicy", "automated")
	if enabled, set, _ := unstructured.NestedBool(object.Object, "spec", "syncPolicy", "automated", "enabled"); !automated || set && !enabled {
		a.trouble = "is not synced automatically: argocd app sync " + object.GetName()
		if a.set != "" {
			a.trouble += fmt.Sprintf(", or set spec.template.spec.syncPolicy.automated of ApplicationSet %s, which generates it", a.set)
		}
	}
	return a
}

// readSources reads the folders of spec.sources, or of spec.source. Charts have none, nor do sources that others only
// refer to (ref).
func (a *Applier) readSources(object *unstructured.Unstructured) {
	sources, _, _ := unstructured.NestedSlice(object.Object, "spec", "sources")
	if one, ok, _ := unstructured.NestedMap(object.Object, "spec", "source"); ok && len(sources) == 0 {
		sources = []any{one}
	}
	for _, source := range sources {
		fields, _ := source.(map[string]any)
		folder, _ := fields["path"].(string)
		if chart, _ := fields["chart"].(string); folder == "" || chart != "" {
			continue
		}
		recurse, _, _ := unstructured.NestedBool(fields, "directory", "recurse")
		a.several, a.deep = append(a.several, folder), a.deep || recurse
	}
	if len(a.several) == 1 {
		a.folder, a.several = a.several[0], nil
	}
}

// Appliers reads the Kustomizations or Applications of a tool.
func Appliers(tool owners.Owner, objects []unstructured.Unstructured) []Applier {
	read := kustomization
	if tool.Kind == ApplicationKind.Kind {
		read = application
	}
	found := make([]Applier, 0, len(objects))
	for i := range objects {
		one := read(&objects[i])
		one.Owner = tool
		one.Namespace, one.Name = objects[i].GetNamespace(), objects[i].GetName()
		if objects[i].GetDeletionTimestamp() != nil {
			one.trouble = "is being deleted"
		}
		found = append(found, one)
	}
	shareFolders(found)
	return found
}

// shareFolders records for each Application which others its ApplicationSet generates from the same folder.
func shareFolders(all []Applier) {
	for i := range all {
		for j := range all {
			a, b := &all[i], &all[j]
			if i != j && a.set != "" && a.set == b.set && a.Namespace == b.Namespace && a.folder != "" &&
				path.Clean(a.folder) == path.Clean(b.folder) {
				a.with = append(a.with, b.Name)
			}
		}
	}
}

// words returns its name, and what generates it.
func (a *Applier) words() string {
	if a.set != "" {
		return a.String() + ", generated by ApplicationSet " + a.set
	}
	return a.String()
}

// refuse returns why the objects that it applies cannot be handed over by moving files.
func (a *Applier) refuse(ref render.Ref) error {
	switch {
	case len(a.with) > 0:
		return fmt.Errorf("%s is generated by ApplicationSet %s, which generates %s from the same folder %s: moving a file would remove it from all of their clusters; "+
			"first give this one a folder of its own in the ApplicationSet's template (spec.template.spec.source.path)", a, a.set, strings.Join(a.with, ", "), a.folder)
	case a.Kind == "Application" && a.folder == "" && len(a.several) == 0:
		return fmt.Errorf("%s applies only charts, no folder of a repository: hand %s over by hand, see docs/how-to/beside-flux-or-argo-cd.md",
			a, ref)
	}
	return nil
}

// applierOf returns the Applier that hands an object over, or gets it: by its name (owner), by the object's labels and
// annotations, or by its list of objects. It is nil if there is none.
func applierOf(appliers []Applier, tool owners.Owner, owner string, ref render.Ref, live *unstructured.Unstructured) (*Applier, error) {
	if owner != "" {
		for i := range appliers {
			if a := &appliers[i]; owner == a.Name || owner == a.Namespace+"/"+a.Name {
				return a, nil
			}
		}
		return nil, fmt.Errorf("--owner %s: there is no such %s", owner, tool.Kind)
	}
	var found *Applier
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
