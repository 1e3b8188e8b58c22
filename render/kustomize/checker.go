package kustomize

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
)

// checker goes through the fields of one kustomization.
type checker struct {
	guard         *guard
	folder, file  string
	kustomization *types.Kustomization
	lineOf        func(path string) int
	// folders are the kustomizations that it draws upon.
	folders []string
}

func (c *checker) check() {
	c.programs()
	k := c.kustomization
	c.each("resources", k.Resources)
	for _, reference := range k.Resources {
		if name := path.Join(c.folder, reference); !c.guard.isFolder(name) {
			c.guard.resources[name] = true
		}
	}
	c.reserved("commonAnnotations", slices.Collect(maps.Keys(k.CommonAnnotations))...)
	c.each("components", k.Components)
	c.each("crds", k.Crds)
	c.each("configurations", k.Configurations)
	for i, patch := range k.Patches {
		c.patch(fmt.Sprintf("patches[%d].path", i), patch.Path)
		c.inline(fmt.Sprintf("patches[%d].patch", i), patch.Patch)
	}
	for i, patch := range k.PatchesJson6902 { //nolint:staticcheck // deprecated, and still loaded
		c.patch(fmt.Sprintf("patchesJson6902[%d].path", i), patch.Path)
		c.inline(fmt.Sprintf("patchesJson6902[%d].patch", i), patch.Patch)
	}
	for i, patch := range k.PatchesStrategicMerge { //nolint:staticcheck // deprecated, and still loaded
		c.strategicMerge(fmt.Sprintf("patchesStrategicMerge[%d]", i), string(patch))
	}
	for i, replacement := range k.Replacements {
		c.path(fmt.Sprintf("replacements[%d].path", i), replacement.Path)
		for j, target := range replacement.Targets {
			for l, at := range target.FieldPaths {
				c.reserved(fmt.Sprintf("replacements[%d].targets[%d].fieldPaths[%d]", i, j, l), at)
			}
		}
	}
	for i, generator := range k.ConfigMapGenerator {
		c.generated(fmt.Sprintf("configMapGenerator[%d]", i), generator.KvPairSources)
	}
	for i, generator := range k.SecretGenerator {
		c.generated(fmt.Sprintf("secretGenerator[%d]", i), generator.KvPairSources)
	}
	if own, ok := k.OpenAPI["path"]; ok {
		c.guard.ownTypes = true
		c.path("openapi.path", own)
	}
}

// programs refuses the fields that run something.
func (c *checker) programs() {
	k := c.kustomization
	for _, field := range []struct {
		name  string
		given bool
	}{
		{"generators", len(k.Generators) > 0},
		{"transformers", len(k.Transformers) > 0},
		{"validators", len(k.Validators) > 0},
		{"helmCharts", len(k.HelmCharts) > 0},
		{"helmChartInflationGenerator", len(k.HelmChartInflationGenerator) > 0},
		{"helmGlobals", k.HelmGlobals != nil},
	} {
		if field.given {
			c.refuse(field.name, "a render runs no plugin and no chart: write out what it would make")
		}
	}
}

func (c *checker) refuse(field, why string) {
	line := 0
	if c.lineOf != nil {
		line = c.lineOf(field)
	}
	c.guard.refuse(c.file, line, field, why)
}

func (c *checker) each(field string, references []string) {
	for i, reference := range references {
		c.path(fmt.Sprintf("%s[%d]", field, i), reference)
	}
}

// path checks a reference, and goes on into a folder.
func (c *checker) path(field, reference string) {
	if reference == "" {
		return
	}
	if why := checkReference(c.guard.fsys, c.folder, reference); why != "" {
		c.refuse(field, why)
		return
	}
	if name := path.Join(c.folder, reference); c.guard.isFolder(name) {
		c.folders = append(c.folders, name)
	}
}

// inline checks a patch that is written in place.
func (c *checker) inline(field, patch string) {
	if err := readable(c.file, []byte(patch)); err != nil {
		c.refuse(field, err.Error())
	}
	if why := WhyReserved([]byte(patch)); why != "" {
		c.refuse(field, why)
	}
}

// reserved refuses names and paths that lead to a reserved annotation.
func (c *checker) reserved(field string, names ...string) {
	if why := whyReserved(names...); why != "" {
		c.refuse(field, why)
	}
}

// patch is the path of one.
func (c *checker) patch(field, reference string) {
	c.path(field, reference)
	c.guard.patches[path.Join(c.folder, reference)] = true
}

// strategicMerge is a patch in place, or the path of one.
func (c *checker) strategicMerge(field, patch string) {
	if strings.ContainsAny(patch, "\n{") {
		c.inline(field, patch)
		return
	}
	c.patch(field, patch)
}

// generated checks the files that keys and values come from.
func (c *checker) generated(field string, sources types.KvPairSources) {
	for i, source := range sources.FileSources {
		_, file, named := strings.Cut(source, "=")
		if !named {
			file = source
		}
		c.path(fmt.Sprintf("%s.files[%d]", field, i), file)
	}
	for i, source := range sources.EnvSources {
		c.path(fmt.Sprintf("%s.envs[%d]", field, i), source)
	}
	c.path(field+".env", sources.EnvSource)
}
