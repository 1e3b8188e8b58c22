package render_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

const (
	aliasConfig = "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: demo, region: eu-west-1}\nversion: 1.15.0\n"
	aliasClass  = "# the class of all pools\napiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n" +
		"  role: nodes # made by bootstrap\n  amiSelectorTerms:\n    - alias: al2023@v20251103 # pinned\n" +
		"  subnetSelectorTerms: [{tags: {a: b}}]\n  securityGroupSelectorTerms: [{tags: {a: b}}]\n"
)

// TestSetAliases: only the alias changes, in the file that has it.
func TestSetAliases(t *testing.T) {
	swap := strings.NewReplacer("v20251103", "v20261120").Replace
	patch := "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n  amiSelectorTerms: [{alias: al2023@v20251103}]\n"
	kustomization := "resources: [../../base]\n"
	for name, c := range map[string]struct {
		files map[string]string
		// changed are the files that change, by their names: in each, the version is replaced.
		changed []string
		says    string
	}{
		"a plain file": {
			files:   map[string]string{"fleet/plumbline.yaml": aliasConfig, "fleet/nodes/a.yaml": aliasClass},
			changed: []string{"fleet/nodes/a.yaml"},
		},
		"two classes in one file, one of them with another alias": {
			files: map[string]string{
				"fleet/plumbline.yaml": aliasConfig,
				"fleet/nodes/a.yaml":   aliasClass + "---\n" + strings.ReplaceAll(strings.ReplaceAll(aliasClass, "default", "other"), "v20251103", "v20250101"),
			},
			changed: []string{"fleet/nodes/a.yaml"},
		},
		"a base outside of the path": {
			files: map[string]string{
				"clusters/a/plumbline.yaml": aliasConfig, "clusters/a/kustomization.yaml": kustomization,
				"base/kustomization.yaml": "resources: [class.yaml]\n", "base/class.yaml": aliasClass,
			},
			changed: []string{"base/class.yaml"},
		},
		"a patch of the overlay, while the base stays for other clusters": {
			files: map[string]string{
				"clusters/a/plumbline.yaml": aliasConfig, "clusters/a/kustomization.yaml": kustomization + "patches: [{path: patch.yaml}]\n",
				"clusters/a/patch.yaml":   patch,
				"base/kustomization.yaml": "resources: [class.yaml]\n", "base/class.yaml": aliasClass,
			},
			changed: []string{"clusters/a/patch.yaml"},
		},
		"a JSON patch": {
			files: map[string]string{
				"clusters/a/plumbline.yaml":     aliasConfig,
				"clusters/a/kustomization.yaml": kustomization + "patches:\n  - target: {kind: EC2NodeClass}\n    path: patch.json\n",
				"clusters/a/patch.json":         `[{"op": "replace", "path": "/spec/amiSelectorTerms/0/alias", "value": "al2023@v20251103"}]`,
				"base/kustomization.yaml":       "resources: [class.yaml]\n", "base/class.yaml": strings.ReplaceAll(aliasClass, "v20251103", "v20250101"),
			},
			changed: []string{"clusters/a/patch.json"},
		},
		"a variable": {
			files: map[string]string{
				"fleet/plumbline.yaml": aliasConfig + "substitute:\n  AMI: v20251103 # of all\n  ELSE: x\n",
				"fleet/nodes/a.yaml":   strings.ReplaceAll(aliasClass, "al2023@v20251103", "al2023@${AMI}"),
			},
			changed: []string{"fleet/plumbline.yaml"},
		},
		"folded text": {
			files: map[string]string{
				"fleet/plumbline.yaml": aliasConfig, "fleet/nodes/a.yaml": strings.ReplaceAll(aliasClass, "al2023@v20251103 # pinned", ">-\n        al2023@v20251103"),
			},
			says: "not written as plain text on one line",
		},
		"no class": {
			files: map[string]string{"fleet/plumbline.yaml": aliasConfig, "fleet/nodes/a.yaml": strings.ReplaceAll(aliasClass, "v20251103", "v20250101")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files, folder := fstest.MapFS{}, ""
			for name, text := range c.files {
				files[name] = &fstest.MapFile{Data: []byte(text)}
				if at, is := strings.CutSuffix(name, "/plumbline.yaml"); is {
					folder = at
				}
			}
			snap := render.Snapshot{FS: files}
			changes := []render.AliasChange{{From: "al2023@v20251103", To: "al2023@v20261120"}}
			got, err := render.SetAliases(t.Context(), snap, folder, changes)
			if c.says != "" {
				if err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want an error with %q", err, c.says)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.changed, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Fatal(diff)
			}
			for name, text := range got {
				if diff := cmp.Diff(swap(c.files[name]), string(text)); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
			}
		})
	}
}

// TestSetAliasesLeavesTheRest: what only looks like the alias of an EC2NodeClass stays.
func TestSetAliasesLeavesTheRest(t *testing.T) {
	const deployment = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\nspec: {template: {spec: {containers: [{name: a, env: [{name: AMI, value: al2023@v20251103}]}]}}}\n"
	next := strings.NewReplacer("v20251103", "v20261120").Replace
	for name, c := range map[string]struct{ files, want map[string]string }{
		"an object of another tool in the same file": {
			map[string]string{"fleet/plumbline.yaml": aliasConfig + "ignoreKinds: [Deployment]\n", "fleet/nodes/a.yaml": aliasClass + deployment},
			map[string]string{"fleet/nodes/a.yaml": next(aliasClass) + deployment},
		},
		"a variable of the same value that the class does not use": {
			map[string]string{
				"fleet/plumbline.yaml": aliasConfig + "substitute:\n  OTHER: v20251103\n  AMI: v20251103\n",
				"fleet/nodes/a.yaml":   strings.ReplaceAll(aliasClass, "al2023@v20251103", "al2023@${AMI}"),
			},
			map[string]string{"fleet/plumbline.yaml": aliasConfig + "substitute:\n  OTHER: v20251103\n  AMI: v20261120\n"},
		},
	} {
		files := fstest.MapFS{}
		for path, text := range c.files {
			files[path] = &fstest.MapFile{Data: []byte(text)}
		}
		got, err := render.SetAliases(t.Context(), render.Snapshot{FS: files}, "fleet", []render.AliasChange{{From: "al2023@v20251103", To: "al2023@v20261120"}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		texts := map[string]string{}
		for path, text := range got {
			texts[path] = string(text)
		}
		if diff := cmp.Diff(c.want, texts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
