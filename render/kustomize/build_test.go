package kustomize_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// tree returns a repository in memory.
func tree(files map[string]string) fs.FS {
	made := fstest.MapFS{}
	for name, text := range files {
		made[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return made
}

const (
	pool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: general
spec:
  limits: {cpu: 100}
`
	// script has everything in shell that could confuse YAML.
	script = "#!/bin/bash\n\n\ttab\n  trailing  \n${X:-y} $(a) `b` \\n \"c\" 'd' # e\n$$ $1 ${CLUSTER_NAME}\n"
)

// overlay returns a cluster over a base elsewhere in the repository.
func overlay() map[string]string {
	return map[string]string{
		"base/kustomization.yaml": "resources: [pool.yaml, class.yaml]\n",
		"base/pool.yaml":          pool,
		"base/class.yaml": "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n  userData: |\n" +
			"    " + strings.ReplaceAll(strings.TrimSuffix(script, "\n"), "\n", "\n    ") + "\n",
		"clusters/a/nodes/kustomization.yaml": `resources:
  - ../../../base
  - own.yaml
patches:
  - target: {kind: NodePool, name: general}
    patch: '[{"op": "replace", "path": "/spec/limits/cpu", "value": 7}]'
labels:
  - pairs: {team: data}
`,
		"clusters/a/nodes/own.yaml": strings.ReplaceAll(pool, "general", "own"),
	}
}

// build reads a folder's kustomization and builds it.
func build(t *testing.T, fsys fs.FS, folder string) ([]kustomize.Resource, error) {
	t.Helper()
	k, err := kustomize.Read(fsys, folder)
	if err != nil {
		return nil, err
	}
	here, warnings, err := k.Build(t.Context(), nil, fsys)
	confined, confinedWarnings, other := k.Build(t.Context(), runner, fsys)
	if diff := cmp.Diff(here, confined) + cmp.Diff(warnings, confinedWarnings); diff != "" || fmt.Sprint(err) != fmt.Sprint(other) {
		t.Errorf("in a child process it is another (-here +there):\n%s%v, and %v", diff, err, other)
	}
	return here, err
}

// runner runs this test's binary, also as the child.
var runner *confine.Runner

func TestMain(m *testing.M) {
	runner = confine.Serve(os.Args, confine.Options{
		Jobs:   map[string]confine.Job{kustomize.JobName: kustomize.Job},
		Limits: confine.Limits{Memory: 256 << 20, CPU: 2 * time.Second, Wall: 4 * time.Minute, Output: 8 << 20},
	})
	os.Exit(m.Run())
}

func TestBuild(t *testing.T) {
	resources, err := build(t, tree(overlay()), "clusters/a/nodes")
	if err != nil {
		t.Fatal(err)
	}
	object := func(apiVersion, kind, name string, spec map[string]any) map[string]any {
		return map[string]any{
			"apiVersion": apiVersion, "kind": kind, "spec": spec,
			"metadata": map[string]any{"name": name, "labels": map[string]any{"team": "data"}},
		}
	}
	want := []kustomize.Resource{
		{File: "base/pool.yaml", Object: object("karpenter.sh/v1", "NodePool", "general", map[string]any{"limits": map[string]any{"cpu": int64(7)}})},
		{File: "base/class.yaml", Object: object("karpenter.k8s.aws/v1", "EC2NodeClass", "default", map[string]any{"userData": script})},
		{File: "clusters/a/nodes/own.yaml", Object: object("karpenter.sh/v1", "NodePool", "own", map[string]any{"limits": map[string]any{"cpu": int64(100)}})},
	}
	if diff := cmp.Diff(want, resources); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBuildKeepsOriginsThatAreAskedFor(t *testing.T) {
	resources, err := build(t, tree(map[string]string{
		"kustomization.yaml": "resources: [pool.yaml]\nbuildMetadata: [originAnnotations]\n",
		"pool.yaml":          pool,
	}), ".")
	if err != nil {
		t.Fatal(err)
	}
	annotations := resources[0].Object["metadata"].(map[string]any)["annotations"]
	if diff := cmp.Diff(map[string]any{"config.kubernetes.io/origin": "path: pool.yaml\n"}, annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// ownTypes defines that the budgets of a NodePool merge by nodes.
const ownTypes = `{"definitions": {"sh.karpenter.v1.NodePool": {
  "x-kubernetes-group-version-kind": [{"group": "karpenter.sh", "kind": "NodePool", "version": "v1"}],
  "properties": {"spec": {"properties": {"budgets": {"type": "array",
    "x-kubernetes-patch-merge-key": "nodes", "x-kubernetes-patch-strategy": "merge",
    "items": {"properties": {"nodes": {"type": "string"}}}}}}}}}}`

// TestOwnTypesStayInTheirBuild: kustomize keeps types in package variables.
func TestOwnTypesStayInTheirBuild(t *testing.T) {
	withBudgets := "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec:\n  budgets: [{nodes: \"1\"}]\n"
	patch := strings.ReplaceAll(withBudgets, `"1"`, `"2"`)
	plain := map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": withBudgets, "p.yaml": patch}
	typed := map[string]string{"kustomization.yaml": plain["kustomization.yaml"] + "openapi: {path: types.json}\n", "a.yaml": withBudgets, "p.yaml": patch, "types.json": ownTypes}
	budgets := func(files map[string]string) int {
		t.Helper()
		resources, err := build(t, tree(files), ".")
		if err != nil {
			t.Fatal(err)
		}
		return len(resources[0].Object["spec"].(map[string]any)["budgets"].([]any))
	}
	if got := budgets(plain); got != 1 {
		t.Errorf("%d budgets without types, want 1: the patch replaces the list", got)
	}
	if got := budgets(typed); got != 2 {
		t.Errorf("%d budgets with types, want 2: they are merged", got)
	}
	if got := budgets(plain); got != 1 {
		t.Errorf("%d budgets in the build after it, want 1", got)
	}
}

func TestBuildErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"empty":            {map[string]string{"kustomization.yaml": ""}, "kustomization.yaml is empty"},
		"a malformed file": {map[string]string{"kustomization.yaml": "resources: [a.yaml]\n", "a.yaml": "a: [\n"}, "a.yaml"},
		"a wrong patch":    {map[string]string{"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": pool, "p.yaml": strings.ReplaceAll(pool, "general", "other")}, "no matches for Id"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := build(t, tree(tc.files), ".")
			var build *kustomize.BuildError
			if !errors.As(err, &build) {
				t.Fatalf("error %v, want *BuildError", err)
			}
			if build.File != "kustomization.yaml" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q about %s, want %q in it", err, build.File, tc.want)
			}
		})
	}
}

// broken is a file system that currently cannot read one of its files.
type broken struct {
	fstest.MapFS
	name string
}

var errBroken = errors.New("the disk is gone")

func (b broken) Open(name string) (fs.File, error) {
	if name == b.name {
		return nil, errBroken
	}
	return b.MapFS.Open(name)
}

func (b broken) ReadFile(name string) ([]byte, error) {
	if name == b.name {
		return nil, errBroken
	}
	return b.MapFS.ReadFile(name)
}

func TestBuildPassesOnErrorsOfTheFileSystem(t *testing.T) {
	for _, name := range []string{"kustomization.yaml", "pool.yaml"} {
		files := broken{tree(map[string]string{"kustomization.yaml": "resources: [pool.yaml]\n", "pool.yaml": pool}).(fstest.MapFS), name}
		if _, err := build(t, files, "."); !errors.Is(err, errBroken) {
			t.Errorf("%s cannot be read: error %v, want %v", name, err, errBroken)
		}
	}
}

// noted is a file system that records which files are opened.
type noted struct {
	fs.FS

	opened map[string]int
}

func (n noted) Open(name string) (fs.File, error) {
	n.opened[name]++
	return n.FS.Open(name)
}

// TestABuildTakesWhatWasRead: a kustomization that was read can be built repeatedly without reading its own file again.
func TestABuildTakesWhatWasRead(t *testing.T) {
	k, err := kustomize.Read(tree(overlay()), "clusters/a/nodes")
	if err != nil {
		t.Fatal(err)
	}
	for _, cpu := range []string{"100", "200"} {
		changed := overlay()
		changed["clusters/a/nodes/own.yaml"] = strings.ReplaceAll(changed["clusters/a/nodes/own.yaml"], "cpu: 100", "cpu: "+cpu)
		files := noted{tree(changed), map[string]int{}}
		made, _, err := k.Build(t.Context(), nil, files)
		if err != nil {
			t.Fatal(err)
		}
		want, err := build(t, tree(changed), "clusters/a/nodes")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, made); diff != "" {
			t.Errorf("a build of what was read before (-anew +this):\n%s", diff)
		}
		if files.opened["clusters/a/nodes/own.yaml"] == 0 || files.opened["clusters/a/nodes/kustomization.yaml"] > 0 {
			t.Errorf("opened %v", files.opened)
		}
	}
}

// TestValuesAreAsOfAFile: the values of a build have the same types as those of a file.
func TestValuesAreAsOfAFile(t *testing.T) {
	made, err := build(t, tree(map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\ncommonAnnotations: {a: \"1\"}\n",
		"a.yaml":             "apiVersion: v1\nkind: X\nmetadata: {name: x}\nspec: {whole: 7, part: 0.5, float: 2.0, yes: true, day: 2026-01-02, text: \"7\", list: [1, a], none: null, on: on}\n",
	}), ".")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"whole": int64(7), "part": 0.5, "float": int64(2), "yes": true, "day": "2026-01-02", "text": "7", "list": []any{int64(1), "a"}, "on": "on",
	}
	if diff := cmp.Diff(want, made[0].Object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

// TestWhatABuildLeavesOut: excluded objects are marked, without a trace in the objects.
func TestWhatABuildLeavesOut(t *testing.T) {
	with := func(name, annotations string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + ", annotations: {" + annotations + "}}\n---\n"
	}
	made, err := build(t, tree(map[string]string{
		"kustomization.yaml": "resources: [a.yaml]\nbuildMetadata: [transformerAnnotations]\ncommonAnnotations: {a: b}\n",
		"a.yaml":             with("left", `config.kubernetes.io/local-config: "true"`) + with("odd", `config.kubernetes.io/local-config: ""`) + with("kept", `config.kubernetes.io/local-config: "false"`) + with("plain", ""),
	}), ".")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, one := range made {
		metadata := one.Object["metadata"].(map[string]any)
		got[metadata["name"].(string)] = one.Local
		text := fmt.Sprint(metadata)
		if strings.Contains(text, "plumbline") || !strings.Contains(text, "AnnotationsTransformer") || strings.Contains(text, "local-config") != (metadata["name"] != "plain") {
			t.Errorf("metadata %v", metadata)
		}
	}
	if diff := cmp.Diff(map[string]bool{"left": true, "odd": true, "kept": false, "plain": false}, got); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

// TestPatchesThatMatchNothing: a child process returns the warnings, too.
func TestPatchesThatMatchNothing(t *testing.T) {
	files := fstest.MapFS{
		"kustomization.yaml": {Data: []byte("resources: [a.yaml]\npatches: [{target: {kind: NodePool, name: b}, patch: '- {op: add, path: /spec/weight, value: 5}'}]\n")},
		"a.yaml":             {Data: []byte("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: a}\nspec: {}\n")},
	}
	k, err := kustomize.Read(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	_, warnings, err := k.Build(t.Context(), runner, files)
	want := []string{"kustomization.yaml: a patch changes nothing: no object matches its target {kind: NodePool, name: b}"}
	if diff := cmp.Diff(want, warnings); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
