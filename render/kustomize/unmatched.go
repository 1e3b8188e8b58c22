package kustomize

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"
)

// unmatched are warnings about the patches of the kustomization that change nothing, because no object matches their target.
// kustomize does not report them. A patch may itself change what its target selects by, or delete the object: so if a target
// matches none of the objects that were built, they are built once more with nothing but the resources, under
// their names before a prefix.
func (w work) unmatched(files *locked, made resmap.ResMap) ([]string, error) {
	var own types.Kustomization
	if err := yaml.Unmarshal(w.text, &own); err != nil {
		return nil, fmt.Errorf("read the kustomization: %w", err)
	}
	patches := slices.Concat(own.Patches, own.PatchesJson6902) //nolint:staticcheck // repositories still use the deprecated field
	missed := w.missing(made, patches)
	if len(missed) == 0 {
		return nil, nil
	}
	bare := types.Kustomization{TypeMeta: own.TypeMeta, Resources: own.Resources, Components: own.Components, Crds: own.Crds, OpenAPI: own.OpenAPI, Configurations: own.Configurations}
	text, err := yaml.Marshal(bare)
	if err != nil {
		return nil, fmt.Errorf("write the kustomization without its patches: %w", err)
	}
	files.instead = map[string][]byte{w.file: text}
	before, err := w.run(files)
	if err != nil {
		return nil, nil //nolint:nilerr // a later step needs what a patch adds: then it is not known what a target matches
	}
	var warnings []string
	for _, p := range w.missing(before, missed) {
		warnings = append(warnings, fmt.Sprintf("%s: a patch changes nothing: no object matches its target %s", path.Clean(w.file), target(p.Target)))
	}
	return warnings, nil
}

// missing are the patches whose target matches no object. kustomize also matches the name that an object had in a base: where a
// base changes names, that is lost, and an object counts whose name contains it.
func (w work) missing(made resmap.ResMap, patches []types.Patch) []types.Patch {
	return slices.DeleteFunc(slices.Clone(patches), func(p types.Patch) bool {
		if p.Target == nil {
			return true // kustomize itself refuses one that matches nothing
		}
		wanted, name := *p.Target, p.Target.Name
		if w.renamed {
			wanted.Name = ""
		}
		found, err := made.Select(wanted)
		return err != nil || slices.ContainsFunc(found, func(r *resource.Resource) bool {
			matches, err := regexp.MatchString(name, r.GetName())
			return !w.renamed || matches || err != nil
		})
	})
}

// target is a selector for people.
func target(s *types.Selector) string {
	var parts []string
	for _, part := range [][2]string{
		{"group", s.Group},
		{"version", s.Version},
		{"kind", s.Kind},
		{"name", s.Name},
		{"namespace", s.Namespace},
		{"labelSelector", s.LabelSelector},
		{"annotationSelector", s.AnnotationSelector},
	} {
		if part[1] != "" {
			parts = append(parts, part[0]+": "+part[1])
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
