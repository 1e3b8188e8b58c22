package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// ignoring returns a NodePool with the annotation.
func ignoring(pointers string) string {
	text := strings.Replace(pool("a"), "name: a\n", "name: a\n  annotations:\n    "+render.IgnoreDifferencesAnnotation+": "+pointers+"\n", 1)
	return strings.Replace(text, "requirements: []", "requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]\n  weight: 3", 1)
}

// TestIgnoredDifferences: pointers are separated by commas and line breaks.
func TestIgnoredDifferences(t *testing.T) {
	for name, tc := range map[string]struct {
		pointers string
		want     [][]string
	}{
		"none":                  {`""`, nil},
		"one":                   {"/spec/weight", [][]string{{"spec", "weight"}}},
		"between commas":        {"/spec/weight, /spec/limits/memory,", [][]string{{"spec", "weight"}, {"spec", "limits", "memory"}}},
		"between line breaks":   {"|\n      /spec/weight\n      /spec/disruption/consolidateAfter\n", [][]string{{"spec", "weight"}, {"spec", "disruption", "consolidateAfter"}}},
		"a key with a slash":    {"/metadata/annotations/example.com~1note", [][]string{{"metadata", "annotations", "example.com/note"}}},
		"what Git has not":      {"/spec/template/metadata/labels", [][]string{{"spec", "template", "metadata", "labels"}}},
		"a list as a whole":     {"/spec/template/spec/requirements", [][]string{{"spec", "template", "spec", "requirements"}}},
		"one of a map of Git's": {"/spec/template/metadata/labels/team", [][]string{{"spec", "template", "metadata", "labels", "team"}}},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": ignoring(tc.pointers)}), ".", embedded(t))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, set.Objects[0].Ignored); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestIgnoredDifferencesRefused: errors name the pointer, the line and the reason.
func TestIgnoredDifferencesRefused(t *testing.T) {
	for pointers, want := range map[string]string{
		"spec.weight":          "spec.weight: it is no JSON pointer to a field",
		"/spec/weight/":        "/spec/weight/: it is no JSON pointer to a field",
		"/":                    "/: it is no JSON pointer to a field",
		"/spec":                "/spec: only a field below /spec, one label and one annotation are compared",
		"/metadata/finalizers": "/metadata/finalizers: only a field below /spec, one label and one annotation are compared with Git: finalizers",
		"/metadata/labels":     "/metadata/labels: only a field below /spec",
		"/status/conditions":   "/status/conditions: only a field below /spec",
		"/metadata/labels/plumbline.dev~1nodesync":                "it is plumbline's own",
		"/metadata/annotations/plumbline.dev~1ignore-differences": "it is plumbline's own",
		"/spec/weight, /spec/limits/cpu":                          "/spec/limits/cpu: it cannot be ignored: a removal sets it to stop the growth",
		"/spec/limits":                                            "/spec/limits: it cannot be ignored, for it contains /spec/limits/cpu (a removal",
		"/spec/replicas":                                          "/spec/replicas: it cannot be ignored: a removal sets it to terminate the nodes",
		"/spec/disruption":                                        "/spec/disruption: it cannot be ignored, for it contains /spec/disruption/budgets (",
		"/spec/disruption/budgets/0":                              "/spec/disruption/budgets/0: it cannot be ignored: plumbline stops a failing rollout",
		"/spec/template":                                          "/spec/template: it cannot be ignored, for it contains /spec/template/spec/nodeClassRef",
		"/spec/template/spec/nodeClassRef/name":                   "it cannot be ignored: an EC2NodeClass is kept as long as",
		"/spec/template/spec/requirements/0/values":               "it leads into a list, which has one owner as a whole: name /spec/template/spec/requirements",
		"/spec/weight/x":                                          "/spec/weight is one value, with nothing in it",
		"/spec/wieght":                                            "/spec/wieght: this version of Karpenter does not have the field",
		"/spec/template/spec/taint/x":                             "/spec/template/spec/taint/x: this version of Karpenter does not have the field",
	} {
		t.Run(pointers, func(t *testing.T) {
			_, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": ignoring(pointers)}), ".", embedded(t))
			expectErrors(t, err, []string{"a.yaml:6: NodePool/a: plumbline.dev/ignore-differences: "})
			if !strings.Contains(err.Error(), want) {
				t.Errorf("error %q, want %q", err, want)
			}
		})
	}
}

const web = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {}\n"

// TestIgnoredKinds: objects are ignored and listed: as files, as documents next to a definition, and in a build.
func TestIgnoredKinds(t *testing.T) {
	for name, tc := range map[string]struct {
		kinds string
		files map[string]string
		want  []string
	}{
		"a file":                    {"[Deployment]", map[string]string{"web.yaml": web}, []string{"ignored by ignoreKinds: Deployment/web"}},
		"a document":                {"[Deployment]", map[string]string{"a.yaml": pool("a") + "---\n" + web}, []string{"ignored by ignoreKinds: Deployment/web"}},
		"with its group":            {"[Deployment.apps]", map[string]string{"web.yaml": web}, []string{"ignored by ignoreKinds: Deployment/web"}},
		"of a build":                {"[Deployment]", map[string]string{"kustomization.yaml": "resources: [a.yaml, web.yaml]\n", "web.yaml": web}, []string{"ignored by ignoreKinds: Deployment/web"}},
		"another kind of that name": {"[Deployment]", map[string]string{"web.yaml": strings.Replace(web, "apps/v1", "example.com/v1", 1)}, []string{"ignored by ignoreKinds: Deployment/web"}},
		"none is there":             {"[Deployment]", nil, []string{}},
		"many": {
			"[Deployment]",
			map[string]string{"web.yaml": strings.Repeat("---\n"+web, 7)},
			[]string{"ignored by ignoreKinds: Deployment/web, Deployment/web, Deployment/web, Deployment/web, Deployment/web and 2 more"},
		},
		"a definition that owns no nodes": {
			"[NodeOverlay, CapacityBuffer]",
			map[string]string{"o.yaml": overlay("price: \"1\"")},
			[]string{"ignored by ignoreKinds: NodeOverlay/cheap"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": plumblineYAML + "ignoreKinds: " + tc.kinds + "\n", "a.yaml": pool("a")}
			for file, text := range tc.files {
				files[file] = text
			}
			set, err := renderAll(t, folder(files), ".", nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, append([]string{}, set.Warnings...)); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if len(set.Objects) != 1 {
				t.Errorf("%d objects, want 1", len(set.Objects))
			}
		})
	}
}

// TestOtherKindsAreRefusedAsBefore: they are refused, and so is a build that turns a definition into an ignored kind.
func TestOtherKindsAreRefusedAsBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"another group": {
			map[string]string{"plumbline.yaml": plumblineYAML + "ignoreKinds: [Deployment.example.com]\n", "web.yaml": web},
			"web.yaml:2: Deployment (apps/v1) is refused: plumbline is for CapacityBuffer, NodePool, NodeOverlay and EC2NodeClass; leave it to the tool that applies the rest, or name Deployment under ignoreKinds in plumbline.yaml to pass over it",
		},
		"a misspelt definition": {
			map[string]string{"plumbline.yaml": plumblineYAML + "ignoreKinds: [ConfigMap]\n", "a.yaml": strings.Replace(pool("a"), "kind: NodePool", "kind: ConfigMap", 1)},
			"a.yaml:2: ConfigMap (karpenter.sh/v1) is no kind of Karpenter's: definitions are CapacityBuffer, NodePool, NodeOverlay and EC2NodeClass",
		},
		"a definition that changes its kind": {
			map[string]string{
				"plumbline.yaml": plumblineYAML + "ignoreKinds: [ConfigMap]\nnodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/b.yaml": pool("b"),
				"x/kustomization.yaml": "resources: [b.yaml]\npatches: [{target: {kind: NodePool}, patch: \"- {op: replace, path: /kind, value: ConfigMap}\\n- {op: replace, path: /apiVersion, value: v1}\"}]\n",
			},
			"x/kustomization.yaml: ConfigMap/b is passed over by ignoreKinds, and no file has this ConfigMap: where the build changes a definition's kind, its nodes would be drained; remove what changes it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := renderAll(t, folder(tc.files), ".", nil)
			expectErrors(t, err, []string{tc.want})
		})
	}
}

// TestWhatIgnoreKindsMayBe: definitions cannot be ignored.
func TestWhatIgnoreKindsMayBe(t *testing.T) {
	for entry, want := range map[string]string{
		"NodePool":                 `plumbline.yaml:5: ignoreKinds[0] is "NodePool": definitions of nodes cannot be ignored, as each that is left out counts as removed`,
		"EC2NodeClass.example.com": `plumbline.yaml:5: ignoreKinds[0] is "EC2NodeClass.example.com": definitions of nodes cannot be ignored, as each that is left out counts as removed`,
		"Nodepool":                 `plumbline.yaml:5: ignoreKinds[0] is "Nodepool": definitions of nodes cannot be ignored, as each that is left out counts as removed`,
		"Provisioner":              `plumbline.yaml:5: ignoreKinds[0] is "Provisioner": definitions of nodes cannot be ignored, as each that is left out counts as removed`,
		"\"*\"":                    `plumbline.yaml:5: ignoreKinds[0] is "*": give a kind, such as Deployment, or with its group, Deployment.apps`,
		"apps/v1":                  `plumbline.yaml:5: ignoreKinds[0] is "apps/v1": give a kind, such as Deployment, or with its group, Deployment.apps`,
	} {
		_, err := render.ReadKarpenter(folder(map[string]string{"plumbline.yaml": plumblineYAML + "ignoreKinds: [" + entry + "]\n"}), ".")
		expectErrors(t, err, []string{want})
	}
}

// TestIgnoredKindsAreTakenAgain: objects are rendered again if plumbline.yaml has changed, and listed again if nothing
// has.
func TestIgnoredKindsAreTakenAgain(t *testing.T) {
	cache := &render.Cache{}
	files := map[string]string{"plumbline.yaml": plumblineYAML + "ignoreKinds: [Deployment]\n", "a.yaml": pool("a"), "web.yaml": web}
	for range 2 {
		set, err := renderAll(t, folder(files), ".", nil, render.WithCache(cache))
		if err != nil {
			t.Fatal(err)
		}
		if len(set.Warnings) != 1 {
			t.Errorf("warnings: %q", set.Warnings)
		}
	}
	files["plumbline.yaml"] = plumblineYAML
	if _, err := renderAll(t, folder(files), ".", nil, render.WithCache(cache)); err == nil {
		t.Error("rendered with a kind that is ignored no longer")
	}
}
