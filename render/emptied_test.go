package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// localPool is a NodePool that kustomize leaves out.
func localPool(name string) string {
	return strings.Replace(pool(name), "  name: "+name, "  name: "+name+"\n  annotations: {config.kubernetes.io/local-config: \"true\"}", 1)
}

// TestAnEmptiedFileIsRefused: a definition that is lost by accident is no removal.
func TestAnEmptiedFileIsRefused(t *testing.T) {
	const empty = "x/b.yaml: the file is empty, and its definitions would be removed with their nodes: restore its text, or delete the file to remove them"
	local := func(at string) string {
		return at + ": NodePool/b has the annotation config.kubernetes.io/local-config, by which kustomize leaves it out, and its nodes would be drained: remove the annotation to keep it, or take the definition out of Git to remove it"
	}
	for name, tc := range map[string]struct {
		kustomization, text string
		want                []string
	}{
		"no bytes":                                 {"", "", []string{empty}},
		"blanks":                                   {"", " \n\t\n", []string{empty}},
		"a byte order mark":                        {"", "\ufeff\n", []string{empty}},
		"listed by a kustomization":                {"resources: [b.yaml]\n", "", []string{empty}},
		"built by a kustomization":                 {"namePrefix: my-\nresources: [b.yaml]\n", " ", []string{empty}},
		"left out of a list of files":              {"resources: [b.yaml]\n", localPool("b"), []string{local("x/b.yaml:5")}},
		"left out of a build":                      {"namePrefix: my-\nresources: [b.yaml]\n", localPool("b"), []string{local("x/b.yaml:5")}},
		"left out of a build of what it has below": {"namePrefix: my-\nresources: [../base]\n", localPool("b"), []string{local("base/b.yaml:5")}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/b.yaml": tc.text}
			if tc.kustomization != "" {
				files["x/kustomization.yaml"] = tc.kustomization
			}
			if strings.Contains(tc.kustomization, "../base") {
				files["base/kustomization.yaml"], files["base/b.yaml"] = "nameSuffix: -x\nresources: [b.yaml]\n", tc.text
			}
			_, err := renderAll(t, folder(files), ".", nil)
			expectErrors(t, err, tc.want)
		})
	}
}

// TestAFileOfCommentsIsWarnedOf: what is commented out is removed, and said to be; with
// each render, the ones from the cache as well.
func TestAFileOfCommentsIsWarnedOf(t *testing.T) {
	want := []string{"x/b.yaml: the file has no definition, only comments or empty documents: what was defined there counts as removed; delete the file if that is meant"}
	for name, tc := range map[string]struct{ kustomization, text string }{
		"comments":                  {"", "# " + strings.ReplaceAll(strings.TrimSpace(pool("b")), "\n", "\n# ") + "\n"},
		"an empty document":         {"", "---\n# none\n---\n"},
		"an empty list":             {"", "apiVersion: karpenter.sh/v1\nkind: NodePoolList\nitems: []\n"},
		"listed by a kustomization": {"resources: [b.yaml]\n", "# none\n"},
		"built by a kustomization":  {"namePrefix: my-\nresources: [b.yaml, c.yaml]\n", "---\n# none\n"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"plumbline.yaml": plumblineYAML + "nodes: [a.yaml, x]\n", "a.yaml": pool("a"), "x/b.yaml": tc.text, "x/c.yaml": pool("c")}
			if tc.kustomization != "" {
				files["x/kustomization.yaml"] = tc.kustomization
			}
			cache := &render.Cache{}
			for range 2 {
				set, err := renderAll(t, folder(files), ".", nil, render.WithCache(cache))
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, set.Warnings); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}
