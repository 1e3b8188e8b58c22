package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// ignoring is a NodePool with the annotation.
func ignoring(pointers string) string {
	text := strings.Replace(pool("a"), "name: a\n", "name: a\n  annotations:\n    "+render.IgnoreDifferencesAnnotation+": "+pointers+"\n", 1)
	return strings.Replace(text, "requirements: []", "requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]\n  weight: 3", 1)
}

// TestIgnoredDifferences are read between commas and line breaks.
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

// TestIgnoredDifferencesRefused names the pointer, the line and the reason.
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
		"/spec/weight, /spec/limits/cpu":                          "/spec/limits/cpu: it cannot be ignored: a removal stops the growth",
		"/spec/limits":                                            "/spec/limits: it cannot be ignored, for it contains /spec/limits/cpu (a removal",
		"/spec/replicas":                                          "/spec/replicas: it cannot be ignored: a removal ends the nodes",
		"/spec/disruption":                                        "/spec/disruption: it cannot be ignored, for it contains /spec/disruption/budgets (",
		"/spec/disruption/budgets/0":                              "/spec/disruption/budgets/0: it cannot be ignored: a rollout that fails",
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
