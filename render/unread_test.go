package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDefinitionsThatAreNotRead are warned of: their files are passed over by their names.
func TestDefinitionsThatAreNotRead(t *testing.T) {
	set, err := renderAll(t, folder(map[string]string{
		"plumbline.yaml": plumblineYAML, "a.yaml": pool("a"),
		"class.yaml.tpl":             class("templated"),
		"nodes/.disabled/pool.yaml":  pool("hidden"),
		"nodes/.b.yml":               pool("b"),
		"notes.yaml.txt":             "kind: NodePool, as in karpenter.sh/v1\n",
		"README.md":                  "```yaml\n" + pool("example") + "```\n",
		".github/workflows/plan.yml": "on: push\njobs: {}\n",
	}), ".", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"class.yaml.tpl has definitions of nodes and is not read: its name does not end in .yaml, .yml or .json",
		"nodes/.b.yml has definitions of nodes and is not read: its name begins with a dot",
		"nodes/.disabled/pool.yaml has definitions of nodes and is not read: it is in a folder whose name begins with a dot",
	}
	if diff := cmp.Diff(want, set.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	for _, name := range []string{"class.yaml.tpl", "nodes/.disabled", "nodes/.b.yml"} {
		if _, is := set.Inputs[name]; is {
			t.Errorf("%s is an input, and nothing of it counts", name)
		}
	}
}

// TestPatchesThatChangeNothing are warned of; those that move or delete what they match are not.
func TestPatchesThatChangeNothing(t *testing.T) {
	for name, c := range map[string]struct {
		kustomization string
		want          []string
	}{
		"a name that is not there": {
			"resources: [a.yaml]\npatches:\n- target: {kind: NodePool, name: b}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n",
			[]string{"kustomization.yaml: a patch changes nothing: no object matches its target {kind: NodePool, name: b}"},
		},
		"in the old form": {
			"resources: [a.yaml]\npatchesJson6902:\n- target: {group: karpenter.sh, version: v1, kind: NodePool, name: b}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n",
			[]string{"kustomization.yaml: a patch changes nothing: no object matches its target {group: karpenter.sh, version: v1, kind: NodePool, name: b}"},
		},
		"one that matches":            {"resources: [a.yaml]\npatches:\n- target: {kind: NodePool}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n", nil},
		"one that matches a new name": {"resources: [a.yaml]\nnamePrefix: eu-\npatches:\n- target: {kind: NodePool, name: a}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n", nil},
		"labels that are not there": {
			"resources: [a.yaml]\npatches:\n- target: {kind: NodePool}\n  patch: '- {op: add, path: /metadata/labels, value: {x: z}}'\n- target: {labelSelector: none=here}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n",
			[]string{"kustomization.yaml: a patch changes nothing: no object matches its target {labelSelector: none=here}"},
		},
		"a name from a base with a prefix": {
			"resources: [base]\npatches:\n- target: {kind: NodePool, name: c}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n- target: {kind: NodePool, name: gone}\n  patch: '- {op: add, path: /spec/weight, value: 5}'\n",
			[]string{"kustomization.yaml: a patch changes nothing: no object matches its target {kind: NodePool, name: gone}"},
		},
		"one that takes its own label off": {
			"resources: [labelled]\npatches:\n- target: {labelSelector: x=z}\n  patch: '- {op: remove, path: /metadata/labels}'\n", nil,
		},
		"one that deletes": {"resources: [a.yaml, b.yaml]\npatches:\n- target: {kind: NodePool, name: b}\n  patch: '{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: b}, $patch: delete}'\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := renderAll(t, folder(map[string]string{
				"plumbline.yaml": plumblineYAML, "a.yaml": pool("a"), "b.yaml": pool("b"), "kustomization.yaml": c.kustomization,
				"base/kustomization.yaml": "namePrefix: eu-\nresources: [c.yaml]\n", "base/c.yaml": pool("c"),
				"labelled/kustomization.yaml": "labels: [{pairs: {x: z}}]\nresources: [d.yaml]\n", "labelled/d.yaml": pool("d"),
			}), ".", nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, set.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}
