package kustomize_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// hostile returns kustomizations that reach outside, each with the field that is refused.
func hostile() map[string]struct{ text, field string } {
	cases := map[string]struct{ text, field string }{
		"a chart":                {"helmCharts: [{name: x, repo: 'https://example.com'}]\n", "helmCharts"},
		"a chart, the old way":   {"helmChartInflationGenerator: [{chartName: x}]\n", "helmCharts"},
		"chart settings":         {"helmGlobals: {chartHome: x}\n", "helmGlobals"},
		"a generator":            {"generators: [pool.yaml]\n", "generators"},
		"a generator in place":   {"generators:\n- |-\n  apiVersion: x\n  kind: y\n", "generators"},
		"a transformer":          {"transformers: [pool.yaml]\n", "transformers"},
		"a validator":            {"validators: [pool.yaml]\n", "validators"},
		"in capitals":            {"RESOURCES: ['https://example.com/a.yaml']\n", "resources[0]"},
		"patch path in capitals": {"resources: [pool.yaml]\nPatches: [{PATH: 'https://example.com/a.yaml'}]\n", "patches[0].path"},
		"types from afar":        {"resources: [pool.yaml]\nopenapi: {path: 'https://example.com/a.json'}\n", "openapi.path"},
		"a patch from afar":      {"resources: [pool.yaml]\npatches: [{path: 'https://example.com/a.yaml'}]\n", "patches[0].path"},
		"a json patch from afar": {"resources: [pool.yaml]\npatchesJson6902: [{path: 'https://example.com/a.yaml', target: {kind: x, name: z}}]\n", "patchesJson6902[0].path"},
		"an old patch from afar": {"resources: [pool.yaml]\npatchesStrategicMerge: ['https://example.com/a.yaml']\n", "patchesStrategicMerge[0]"},
		"replacements from afar": {"resources: [pool.yaml]\nreplacements: [{path: 'https://example.com/a.yaml'}]\n", "replacements[0].path"},
		"crds from afar":         {"resources: [pool.yaml]\ncrds: ['https://example.com/a.yaml']\n", "crds[0]"},
		"configuration afar":     {"resources: [pool.yaml]\nconfigurations: ['https://example.com/a.yaml']\n", "configurations[0]"},
		"a config map's file":    {"configMapGenerator: [{name: x, files: ['k=https://example.com/a']}]\n", "configMapGenerator[0].files[0]"},
		"a config map's env":     {"configMapGenerator: [{name: x, envs: ['https://example.com/a']}]\n", "configMapGenerator[0].envs[0]"},
		"a secret's file":        {"secretGenerator: [{name: x, files: ['https://example.com/a']}]\n", "secretGenerator[0].files[0]"},
		"a secret's env":         {"secretGenerator: [{name: x, env: 'https://example.com/a'}]\n", "secretGenerator[0].envs[0]"},
		"a component from afar":  {"resources: [pool.yaml]\ncomponents: ['https://example.com/a.git']\n", "components[0]"},
		"a base from afar":       {"bases: ['https://example.com/a.git']\n", "resources[0]"},
		"a bomb in a patch":      {"resources: [pool.yaml]\npatches:\n- patch: |\n    " + strings.ReplaceAll(bomb(), "\n", "\n    ") + "\n", "patches[0].patch"},
	}
	for i, remote := range []string{
		"https://example.com/a.yaml", "HTTP://127.0.0.1/a.yaml", "https://example.com/org/repo//base?ref=main", "ssh://git@example.com/a/b",
		"git@example.com:org/repo", "user@host:org/repo", "github.com/org/repo", "GitHub.com:org/repo", "git::https://example.com/a", "file:///etc",
		"example.com/a/_git/b", "a.git/b", "base?ref=x", "s3::https://example.com/x", "oci://example.com/x",
		"/etc/passwd", "../../outside", "missing.yaml",
	} {
		cases[fmt.Sprintf("a resource %d %s", i, strings.ReplaceAll(remote, "/", "|"))] = struct{ text, field string }{"resources: [pool.yaml, '" + remote + "']\n", "resources[1]"}
	}
	return cases
}

func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	return text
}

// hostileTree puts the kustomization below the one that is built.
func hostileTree(text string) map[string]string {
	return map[string]string{
		"kustomization.yaml":      "resources: [deep]\n",
		"deep/kustomization.yaml": text,
		"deep/pool.yaml":          pool,
		// Folders with the names of remote targets do not help: kustomize tries a clone first.
		"deep/github.com/org/repo/kustomization.yaml": "resources: []\n",
		"deep/a.git/b/kustomization.yaml":             "resources: []\n",
		"deep/example.com/a/_git/b":                   "x",
		"deep/base?ref=x":                             "x",
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, tc := range hostile() {
		t.Run(name, func(t *testing.T) {
			_, err := build(t, tree(hostileTree(tc.text)), ".")
			var refused *kustomize.RefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("error %v, want *RefusedError", err)
			}
			one := refused.Refusals[0]
			if one.File != "deep/kustomization.yaml" || one.Field != tc.field || len(refused.Refusals) != 1 {
				t.Errorf("refused %v, want %s of deep/kustomization.yaml alone", refused.Refusals, tc.field)
			}
		})
	}
}

func TestBuildRefusesAllAtOnceWithLines(t *testing.T) {
	_, err := build(t, tree(map[string]string{
		"kustomization.yaml":      "resources:\n  - deep\n  - https://example.com/a.yaml\nhelmCharts:\n  - name: x\n",
		"deep/kustomization.yaml": "resources:\n  - ../../outside\n",
	}), ".")
	var refused *kustomize.RefusedError
	if !errors.As(err, &refused) {
		t.Fatalf("error %v, want *RefusedError", err)
	}
	var got []string
	for _, one := range refused.Refusals {
		got = append(got, fmt.Sprintf("%s:%d %s", one.File, one.Line, one.Field))
	}
	want := []string{"kustomization.yaml:4 helmCharts", "kustomization.yaml:3 resources[1]", "deep/kustomization.yaml:2 resources[0]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBuildRefusesBombs(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"as a resource":      {"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": bomb()},
		"as a kustomization": {"kustomization.yaml": bomb()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build(t, tree(files), ".")
			if err == nil || !strings.Contains(err.Error(), "aliases make more") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestEveryFieldIsKnown: a new field of kustomize may load something; it must be checked before it is allowed.
func TestEveryFieldIsKnown(t *testing.T) {
	known := strings.Fields(`TypeMeta MetaData OpenAPI NamePrefix NameSuffix Namespace CommonLabels Labels CommonAnnotations
		PatchesStrategicMerge PatchesJson6902 Patches Images ImageTags Replacements Replicas Vars SortOptions Resources Components
		Crds Bases ConfigMapGenerator SecretGenerator HelmGlobals HelmCharts HelmChartInflationGenerator GeneratorOptions
		Configurations Generators Transformers Validators BuildMetadata`)
	var fields []string
	for field := range reflect.TypeFor[types.Kustomization]().Fields() {
		fields = append(fields, field.Name)
	}
	if diff := cmp.Diff(known, fields); diff != "" {
		t.Errorf("kustomize has other fields now (-known +now):\n%s", diff)
	}
}

// doubling returns a kustomization that uses two that use two, and so on.
func doubling(levels int) map[string]string {
	files := map[string]string{"kustomization.yaml": "resources: [a0, b0]\n"}
	for level := range levels {
		draws := fmt.Sprintf("resources: [../a%d, ../b%d]\n", level+1, level+1)
		if level == levels-1 {
			draws = "resources: [../pool.yaml]\n"
		}
		for _, one := range []string{"a", "b"} {
			files[fmt.Sprintf("%s%d/kustomization.yaml", one, level)] = "namePrefix: " + one + "-\n" + draws
		}
	}
	files["pool.yaml"] = pool
	return files
}

func TestBuildRefusesWhatExplodes(t *testing.T) {
	made, err := build(t, tree(doubling(4)), ".")
	if err != nil || len(made) != 16 {
		t.Fatalf("16 objects of one: got %d, %v", len(made), err)
	}
	_, err = build(t, tree(doubling(40)), ".")
	var refused *kustomize.RefusedError
	if !errors.As(err, &refused) || len(refused.Refusals) == 0 || !strings.Contains(refused.Error(), "more than 1000 kustomizations") {
		t.Errorf("2⁴⁰ objects of one: error %v", err)
	}
}
