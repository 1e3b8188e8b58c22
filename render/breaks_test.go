package render_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/render"
)

// TestLinesAreThoseThatShow: hidden line breaks after a comment are refused in every file that is read.
func TestLinesAreThoseThatShow(t *testing.T) {
	const (
		hidden = "# nothing\u2028a: b\n"
		why    = "it has the character U+2028, which ends a line for YAML and may not show as one in a review: remove it"
		built  = "namePrefix: my-\nresources: [b.yaml]\npatches: [{path: p.yaml, target: {kind: NodePool}}]\n"
		patch  = "- {op: add, path: /spec/weight, value: 1}\n"
	)
	for name, tc := range map[string]struct{ file, text, want string }{
		"plumbline.yaml":                      {"plumbline.yaml", plumblineYAML + "nodes: [x]\n" + hidden, "plumbline.yaml:6: "},
		"values":                              {"v.yaml", "b: c\n" + hidden, "v.yaml:2: "},
		"a definition":                        {"a.yaml", pool("a") + hidden, "a.yaml:10: "},
		"a kustomization":                     {"x/kustomization.yaml", built + hidden, "x/kustomization.yaml:4: the file: "},
		"a patch":                             {"x/p.yaml", patch + hidden, "x/p.yaml:2: the file: "},
		"a definition of a kustomization":     {"x/b.yaml", pool("b") + hidden, "x/b.yaml:10: the file: "},
		"a kustomization that lists":          {"x/kustomization.yaml", "resources: [b.yaml]\n" + hidden, "x/kustomization.yaml:2: the file: "},
		"a patch in place, behind an escape ": {"x/kustomization.yaml", "resources: [b.yaml]\npatches: [{target: {kind: NodePool}, patch: \"# nothing\\u2028- {op: add, path: /spec/weight, value: 1}\"}]\n", "x/kustomization.yaml:2: patches[0].patch: x/kustomization.yaml: the file: "},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\nvaluesFiles: [v.yaml]\n", "a.yaml": pool("a"), "x/b.yaml": pool("b"), "x/p.yaml": patch, "x/kustomization.yaml": built, "v.yaml": "{}\n"}
			files[tc.file] = tc.text
			snap := folder(files)
			karpenter, err := render.ReadKarpenter(snap, ".")
			if err == nil {
				_, err = karpenter.ReadValues(render.NewFiles(snap), ".")
			}
			if err == nil {
				_, err = render.Render(t.Context(), snap, ".", karpenter, nil)
			}
			expectErrors(t, err, []string{tc.want + why})
		})
	}
}
