package kustomize_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// listed reads a folder's kustomization and returns what it lists.
func listed(fsys fs.FS, folder string) ([]string, bool, error) {
	k, err := kustomize.Read(fsys, folder)
	if err != nil {
		return nil, false, err
	}
	files, ok := k.Files()
	return files, ok, nil
}

func TestListed(t *testing.T) {
	base := map[string]string{"base/kustomization.yml": "resources: [b.yaml]\n", "base/b.yaml": pool, "a.yaml": pool, "c.yaml": pool}
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"files":                  {"resources: [c.yaml, a.yaml]\n", []string{"c.yaml", "a.yaml"}},
		"a folder between":       {"resources: [c.yaml, ./base/, a.yaml]\n", []string{"c.yaml", "base/b.yaml", "a.yaml"}},
		"with a name":            {"apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nmetadata: {name: x}\nresources: [a.yaml]\n", []string{"a.yaml"}},
		"in the old spelling":    {"bases: [base]\n", []string{"base/b.yaml"}},
		"a prefix":               {"namePrefix: x-\nresources: [a.yaml]\n", nil},
		"a patch":                {"resources: [a.yaml]\npatches: [{path: c.yaml}]\n", nil},
		"labels":                 {"resources: [a.yaml]\ncommonLabels: {a: b}\n", nil},
		"a component":            {"apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [a.yaml]\n", nil},
		"nothing":                {"resources: []\n", nil},
		"a file twice":           {"resources: [a.yaml, ./a.yaml]\n", nil},
		"a folder twice":         {"resources: [base, ./base]\n", nil},
		"a file and its folder":  {"resources: [base, base/b.yaml]\n", nil},
		"a file that is missing": {"resources: [a.yaml, none.yaml]\n", nil},
		"itself":                 {"resources: [.]\n", nil},
		"another host's":         {"resources: [https://example.com/a.yaml]\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"kustomization.yaml": tc.text}
			for name, text := range base {
				files[name] = text
			}
			got, ok, err := listed(tree(files), ".")
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				got = nil
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatIsListedIsWhatWouldBeBuilt: a build makes the objects of the same files in the same order.
func TestWhatIsListedIsWhatWouldBeBuilt(t *testing.T) {
	files := tree(map[string]string{
		"kustomization.yaml": "resources: [c.yaml, base, a.yaml]\n", "base/kustomization.yaml": "resources: [b.yaml]\n",
		"a.yaml": strings.ReplaceAll(pool, "general", "a"), "base/b.yaml": strings.ReplaceAll(pool, "general", "b"), "c.yaml": strings.ReplaceAll(pool, "general", "c"),
	})
	listed, ok, err := listed(files, ".")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	built, err := build(t, files, ".")
	if err != nil {
		t.Fatal(err)
	}
	var from []string
	for _, resource := range built {
		from = append(from, resource.File)
	}
	if diff := cmp.Diff(from, listed); diff != "" {
		t.Errorf("(-built +listed):\n%s", diff)
	}
}
