package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/render"
)

// application reads one of Argo CD. A resource that is to be pruned has left its folder.
func application(object *unstructured.Unstructured) applier {
	a := applier{lists: map[render.Ref]bool{}, key: "argocd.argoproj.io/refresh", wake: []*unstructured.Unstructured{object}}
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
		name, _ := fields["name"].(string)
		if pruned, _ := fields["requiresPruning"].(bool); !pruned {
			a.list(group, kind, name)
		}
	}
	_, automated, _ := unstructured.NestedMap(object.Object, "spec", "syncPolicy", "automated")
	if enabled, set, _ := unstructured.NestedBool(object.Object, "spec", "syncPolicy", "automated", "enabled"); !automated || set && !enabled {
		a.trouble = "is not synced automatically: argocd app sync " + object.GetName()
		if a.set != "" {
			a.trouble += fmt.Sprintf(", or set spec.template.spec.syncPolicy.automated of ApplicationSet %s, which makes it", a.set)
		}
	}
	return a
}

// readSources reads the folders of spec.sources, or of spec.source. Charts, and sources that others only
// refer to (ref), have none.
func (a *applier) readSources(object *unstructured.Unstructured) {
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

// shareFolders notes of each Application which others its ApplicationSet makes from the same folder.
func shareFolders(all []applier) {
	for i := range all {
		for j := range all {
			a, b := &all[i], &all[j]
			if i != j && a.set != "" && a.set == b.set && a.Namespace == b.Namespace && a.folder != "" && path.Clean(a.folder) == path.Clean(b.folder) {
				a.with = append(a.with, b.Name)
			}
		}
	}
}

// words name it, and what makes it.
func (a *applier) words() string {
	if a.set != "" {
		return a.String() + ", made by ApplicationSet " + a.set
	}
	return a.String()
}

// refuse says why what it applies cannot be handed over by files that move.
func (a *applier) refuse(ref render.Ref) error {
	switch {
	case len(a.with) > 0:
		return fmt.Errorf("%s is made by ApplicationSet %s, which makes %s from the same folder %s: a file that moves would leave all of their clusters; "+
			"first give this one a folder of its own in the ApplicationSet's template (spec.template.spec.source.path)", a, a.set, strings.Join(a.with, ", "), a.folder)
	case a.Kind == "Application" && a.folder == "" && len(a.several) == 0:
		return fmt.Errorf("%s applies no folder of a repository, only charts: hand %s over by hand, as docs/how-to/beside-flux-or-argo-cd.md says", a, ref)
	}
	return nil
}

// located are the folders that files are read of, after that of each object is found whose Application has several.
func (h *handing) located(ctx context.Context, r *handoverReport) ([]string, error) {
	folders := []string{r.sync.Spec.Path}
	for i := range r.Objects {
		o := &r.Objects[i]
		if err := h.locate(ctx, r, o); err != nil {
			return nil, err
		}
		folders = append(folders, o.both(r)...)
	}
	return folders, nil
}

// locate finds of an Application with several folders the one that has the file of an object.
func (h *handing) locate(ctx context.Context, r *handoverReport, o *handedObject) error {
	if o.by == nil || len(o.by.several) == 0 {
		return nil
	}
	files, err := h.clone.files(ctx, append([]string{r.sync.Spec.Path}, o.by.several...))
	if err != nil {
		return err
	}
	var having []string
	for _, folder := range o.by.several {
		has, err := files.Has(folder, o.ref)
		if err != nil {
			return err
		}
		if has && !slices.Contains(having, folder) {
			having = append(having, folder)
		}
	}
	ours, err := files.Has(r.sync.Spec.Path, o.ref)
	switch {
	case err != nil:
		return err
	case len(having) == 1:
		o.folder = having[0]
	case len(having) > 1:
		return fmt.Errorf("%s of %s is in more than one folder of its sources: %s; leave it in one", o.ref, o.by, strings.Join(having, ", "))
	case !ours:
		return fmt.Errorf("%s of %s is in none of the folders of its sources in %s: %s; give a clone of the repository that has it", o.ref, o.by, h.clone.root, strings.Join(o.by.several, ", "))
	case r.back:
		return fmt.Errorf("%s has sources with several folders (%s): move the file of %s, as it is and with the annotation, from %s to the right one, and run this again",
			o.by, strings.Join(o.by.several, ", "), o.ref, r.sync.Spec.Path)
	}
	return nil
}
