package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// examples copies the examples into a repository, because files are named from its root, and returns the folders that
// can be rendered.
func examples(t *testing.T) map[string]string {
	t.Helper()
	root := t.TempDir()
	copied := filepath.Join(root, "examples")
	if err := os.CopyFS(copied, os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"basic":                         filepath.Join(copied, "basic"),
		"gpu-and-spot":                  filepath.Join(copied, "gpu-and-spot"),
		"kustomize-overlays-production": filepath.Join(copied, "kustomize-overlays", "clusters", "production"),
		"kustomize-overlays-staging":    filepath.Join(copied, "kustomize-overlays", "clusters", "staging"),
	}
}

func TestRenderExamples(t *testing.T) {
	for name, folder := range examples(t) {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{"yaml", "table"} {
				got := plumbline(t, "render", folder, "-o", format)
				if got.code != exitDone || got.err != "" {
					t.Errorf("-o %s: code %d, says %s", format, got.code, got.err)
				}
				golden(t, "render-"+name+"."+format, got.out)
			}
		})
	}
}

// TestRenderFormatsAgree: each format contains the same objects in the same order.
func TestRenderFormatsAgree(t *testing.T) {
	basic := examples(t)["basic"]
	var objects []map[string]any
	if err := json.Unmarshal([]byte(plumbline(t, "render", basic, "-o", "json").out), &objects); err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(strings.TrimPrefix(plumbline(t, "render", basic).out, "---\n"), "---\n")
	if len(documents) != len(objects) {
		t.Fatalf("%d documents, %d objects", len(documents), len(objects))
	}
	for i, document := range documents {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		a, b := object["metadata"].(map[string]any)["name"], objects[i]["metadata"].(map[string]any)["name"]
		if a != b {
			t.Errorf("%d: %v in YAML, %v in JSON", i, a, b)
		}
	}
}

func TestPlanExamples(t *testing.T) {
	for name, folder := range examples(t) {
		t.Run(name, func(t *testing.T) {
			got := plumbline(t, "plan", folder)
			if got.code != exitChanges || got.err != "" {
				t.Errorf("code %d, says %s", got.code, got.err)
			}
			golden(t, "plan-"+name+".table", got.out)
		})
	}
	got := plumbline(t, "plan", examples(t)["basic"], "-o", "json")
	if got.code != exitChanges {
		t.Errorf("code %d, says %s", got.code, got.err)
	}
	golden(t, "plan-basic.json", got.out)
}

// folder writes files into a temporary folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	karpenterYAML = "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: a, region: eu-west-1}\nversion: 1.14.3\n"
	classYAML     = `apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: a
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
`
)

func TestBadFolders(t *testing.T) {
	cases := map[string]struct {
		files map[string]string
		says  []string
	}{
		"nothing in it":     {nil, []string{"contains plumbline.yaml: give the folder of a cluster"}},
		"no definition":     {map[string]string{"plumbline.yaml": karpenterYAML}, []string{"holds no NodePool and no EC2NodeClass"}},
		"two errors":        {map[string]string{"plumbline.yaml": karpenterYAML, "a.yaml": classYAML + "  rolle: b\n", "b.yaml": "kind: Pod\napiVersion: v1\nmetadata: {name: x}\n"}, []string{"a.yaml:", "rolle", "b.yaml:1: ", "Pod"}},
		"unknown field":     {map[string]string{"plumbline.yaml": karpenterYAML + "chart: x\n"}, []string{"plumbline.yaml:5: ", "chart"}},
		"broken plain YAML": {map[string]string{"plumbline.yaml": karpenterYAML, "a.yaml": "a: [\n"}, []string{"a.yaml:"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, command := range []string{"render", "plan"} {
				got := plumbline(t, command, folder(t, c.files))
				if got.code != exitFailed {
					t.Errorf("%s: code %d", command, got.code)
				}
				for _, words := range c.says {
					if !strings.Contains(got.err, words) {
						t.Errorf("%s says %q, want %q in it", command, got.err, words)
					}
				}
			}
		})
	}
}

// TestAClassThatNoFileDefines: render, and a plan without a cluster, warn about it; neither knows what the cluster
// contains.
func TestAClassThatNoFileDefines(t *testing.T) {
	const pool = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: web}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: CLASS}
      requirements: []
`
	for name, c := range map[string]struct {
		class string
		more  map[string]string
		want  string
	}{
		"a typing error": {"defualt", nil, "web.yaml:1: NodePool/web names EC2NodeClass/defualt, which no file of this folder defines; did you mean default?"},
		// kustomize renames objects, but not their reference in nodeClassRef, which it does not know.
		"a name that namePrefix changed": {
			"default",
			map[string]string{"kustomization.yaml": "namePrefix: eu-\nresources: [class.yaml, web.yaml]\n"},
			"web.yaml: NodePool/eu-web names EC2NodeClass/default, which no file of this folder defines",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": karpenterYAML, "class.yaml": classYAML, "web.yaml": strings.ReplaceAll(pool, "CLASS", c.class)}
			maps.Copy(files, c.more)
			dir := folder(t, files)
			for command, code := range map[string]int{"render": exitDone, "plan": exitChanges} {
				got := plumbline(t, command, dir)
				if got.code != code || strings.Count(got.out+got.err, c.want) != 1 || strings.Contains(got.out+got.err, "in the cluster") {
					t.Errorf("%s: code %d, want %d and once %q:\n%s%s", command, got.code, code, c.want, got.out, got.err)
				}
			}
		})
	}
}

// TestGivenCRDs: --crds replaces the CRDs of a version that is not embedded.
func TestGivenCRDs(t *testing.T) {
	dir := folder(t, map[string]string{"plumbline.yaml": strings.Replace(karpenterYAML, "1.14.3", "1.13.0", 1), "a.yaml": classYAML})
	crds := folder(t, map[string]string{"ec2nodeclasses.yaml": looseCRD})
	if got := plumbline(t, "render", dir, "--crds", crds); got.code != exitDone {
		t.Errorf("code %d, says %s", got.code, got.err)
	}
	strict := folder(t, map[string]string{"ec2nodeclasses.yaml": strings.Replace(looseCRD, "x-kubernetes-preserve-unknown-fields: true", "properties: {role: {type: integer}}", 1)})
	if got := plumbline(t, "render", dir, "--crds", strict); got.code != exitFailed || !strings.Contains(got.err, "a.yaml:") {
		t.Errorf("code %d, says %s", got.code, got.err)
	}
	if got := plumbline(t, "render", dir, "--crds", t.TempDir()); got.code != exitFailed || !strings.Contains(got.err, "no YAML file in") {
		t.Errorf("code %d, says %s", got.code, got.err)
	}
}

// TestVendoredCRDs: charts in the checkout provide the CRDs of their version, as in the cluster.
func TestVendoredCRDs(t *testing.T) {
	vendored := strings.Replace(karpenterYAML, "1.14.3", "1.13.0", 1) + "repository: ./charts\n"
	with := func(template string) string {
		dir := folder(t, map[string]string{"plumbline.yaml": vendored, "a.yaml": classYAML})
		for name, text := range map[string]string{
			"karpenter-crd/Chart.yaml":             "apiVersion: v2\nname: karpenter-crd\nversion: 1.13.0\n",
			"karpenter-crd/templates/classes.yaml": template,
			"karpenter/Chart.yaml":                 "apiVersion: v2\nname: karpenter\nversion: 1.13.0\n",
		} {
			file := filepath.Join(dir, "charts", name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	strict := strings.Replace(looseCRD, "x-kubernetes-preserve-unknown-fields: true", "properties: {role: {type: integer}}", 1)
	for _, command := range []string{"render", "plan"} {
		if got := plumbline(t, command, with(looseCRD)); got.code == exitFailed {
			t.Errorf("%s says %s", command, got.err)
		}
		if got := plumbline(t, command, with(strict)); got.code != exitFailed || !strings.Contains(got.err, "a.yaml:") {
			t.Errorf("%s: code %d, says %s", command, got.code, got.err)
		}
	}
	another := with(looseCRD)
	if err := os.WriteFile(filepath.Join(another, "plumbline.yaml"), []byte(strings.Replace(vendored, "1.13.0", "1.12.1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := plumbline(t, "render", another); got.code != exitFailed || !strings.Contains(got.err, "1.12.1") {
		t.Errorf("charts of another version: code %d, says %s", got.code, got.err)
	}
}

const looseCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ec2nodeclasses.karpenter.k8s.aws}
spec:
  group: karpenter.k8s.aws
  names: {kind: EC2NodeClass, plural: ec2nodeclasses, singular: ec2nodeclass, listKind: EC2NodeClassList}
  scope: Cluster
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            apiVersion: {type: string}
            kind: {type: string}
            metadata: {type: object}
            spec:
              type: object
              x-kubernetes-preserve-unknown-fields: true
`
