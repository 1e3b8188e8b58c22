package handover_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/handover"
	"github.com/plumbline-dev/plumbline/render"
)

func pool(name string) string {
	return "kind: NodePool\nmetadata:\n  name: " + name + "\nspec:\n  weight: 1\n  limits: {cpu: \"100\"}\n"
}

func ref(name string) render.Ref { return render.Ref{Kind: render.NodePool, Name: name} }

// lives returns the pool as in the cluster, with a default added.
func lives(names ...string) map[render.Ref]map[string]any {
	found := map[render.Ref]map[string]any{}
	for _, name := range names {
		found[ref(name)] = map[string]any{"spec": map[string]any{"weight": int64(1), "limits": map[string]any{"cpu": "100"}, "disruption": map[string]any{}}}
	}
	return found
}

func texts(files handover.Files) map[string]string {
	found := map[string]string{}
	for name, text := range files {
		found[name] = string(text)
	}
	return found
}

func files(texts map[string]string) handover.Files {
	found := handover.Files{}
	for name, text := range texts {
		found[name] = []byte(text)
	}
	return found
}

// TestMove: a whole file moves unchanged; from a file with other content, only what is handed over moves; a
// kustomization no longer lists the file, or lists it.
func TestMove(t *testing.T) {
	const list, other = "resources:\n- a.yaml # the pool\n- b.yaml\n", "kind: Deployment\nmetadata: {name: web}\n"
	const one = "kind: Kustomization\nresources:\n- a.yaml\n"
	const kept = "# Keeps this folder in Git, since its path is applied. Written by plumbline adopt.\n"
	for name, test := range map[string]struct {
		before, after map[string]string
		refs          []string
		says          string
	}{
		"a file":                  {before: map[string]string{"apps/x/a.yaml": "# ours\n" + pool("a")}, after: map[string]string{"apps/.gitkeep": kept, "nodes/a.yaml": "# ours\n" + pool("a")}},
		"with others":             {before: map[string]string{"apps/a.yaml": other + "---\n" + pool("a") + "---\n" + pool("b")}, after: map[string]string{"apps/a.yaml": other + "---\n" + pool("b"), "nodes/a.yaml": "---\n" + pool("a")}},
		"two of one file":         {refs: []string{"a", "b"}, before: map[string]string{"apps/a.yaml": pool("a") + "---\n" + pool("b")}, after: map[string]string{"apps/.gitkeep": kept, "nodes/a.yaml": pool("a") + "---\n" + pool("b")}},
		"out of a kustomization":  {before: map[string]string{"apps/kustomization.yaml": list, "apps/a.yaml": pool("a")}, after: map[string]string{"apps/kustomization.yaml": "resources:\n- b.yaml\n", "nodes/a.yaml": pool("a")}},
		"into a kustomization":    {before: map[string]string{"nodes/kustomization.yaml": "resources:\n  - b.yaml\n", "apps/a.yaml": pool("a")}, after: map[string]string{"apps/.gitkeep": kept, "nodes/kustomization.yaml": "resources:\n  - a.yaml\n  - b.yaml\n", "nodes/a.yaml": pool("a")}},
		"in both":                 {before: map[string]string{"apps/a.yaml": pool("a"), "nodes/z.yaml": pool("a")}, after: map[string]string{"apps/.gitkeep": kept, "nodes/z.yaml": pool("a")}},
		"beside a README":         {before: map[string]string{"apps/README": "", "apps/a.yaml": pool("a")}, after: map[string]string{"apps/README": "", "nodes/a.yaml": pool("a")}},
		"into a folder kept":      {before: map[string]string{"apps/b.yaml": pool("b"), "apps/a.yaml": pool("a"), "nodes/.gitkeep": kept}, after: map[string]string{"apps/b.yaml": pool("b"), "nodes/a.yaml": pool("a")}},
		"kept by others":          {before: map[string]string{"apps/.gitkeep": "", "apps/a.yaml": pool("a"), "nodes/.gitkeep": ""}, after: map[string]string{"apps/.gitkeep": "", "nodes/.gitkeep": "", "nodes/a.yaml": pool("a")}},
		"the last of a list":      {before: map[string]string{"apps/kustomization.yaml": one, "apps/a.yaml": pool("a")}, after: map[string]string{"apps/.gitkeep": kept, "nodes/a.yaml": pool("a")}},
		"the last of a list with": {before: map[string]string{"apps/kustomization.yaml": one + "namePrefix: x\n", "apps/a.yaml": pool("a")}, after: map[string]string{"apps/kustomization.yaml": "kind: Kustomization\nresources:\nnamePrefix: x\n", "nodes/a.yaml": pool("a")}},
		"the last beside one out": {before: map[string]string{"apps/kustomization.yaml": one, "apps/a.yaml": pool("a"), "apps/out.yaml": other}, after: map[string]string{"apps/kustomization.yaml": "kind: Kustomization\nresources:\n", "apps/out.yaml": other, "nodes/a.yaml": pool("a")}},
		"the last of a list below": {
			before: map[string]string{"apps/kustomization.yaml": "resources:\n- x\n- b.yaml\n", "apps/b.yaml": other, "apps/x/kustomization.yaml": one, "apps/x/a.yaml": pool("a")},
			after:  map[string]string{"apps/kustomization.yaml": "resources:\n- b.yaml\n", "apps/b.yaml": other, "nodes/a.yaml": pool("a")},
		},
		"nowhere":                 {before: map[string]string{"apps/b.yaml": pool("b")}, says: "NodePool/a is in no YAML file below apps"},
		"a list in braces":        {before: map[string]string{"apps/kustomization.yaml": "resources: [a.yaml]\n", "apps/a.yaml": pool("a")}, says: "but not on a line of its own"},
		"patched on its way":      {before: map[string]string{"apps/a.yaml": strings.Replace(pool("a"), "100", "${cpu}", 1)}, says: "differs from the cluster at spec.limits.cpu"},
		"written twice":           {before: map[string]string{"apps/a.yaml": pool("a"), "apps/b.yaml": pool("a")}, says: "defined twice, in apps/a.yaml and apps/b.yaml"},
		"a file of the same name": {before: map[string]string{"apps/a.yaml": pool("a"), "nodes/a.yaml": pool("b")}, says: "nodes/a.yaml exists"},
		"no YAML":                 {before: map[string]string{"apps/a.yaml": "a: [\n"}, says: "read apps/a.yaml: "},
	} {
		t.Run(name, func(t *testing.T) {
			refs := []render.Ref{ref("a")}
			for _, more := range test.refs[min(1, len(test.refs)):] {
				refs = append(refs, ref(more))
			}
			after, err := files(test.before).Move("./apps", "nodes/", refs, lives("a", "b"))
			if err != nil || test.says != "" {
				if err == nil || test.says == "" || !strings.Contains(err.Error(), test.says) {
					t.Fatalf("%v, want %q", err, test.says)
				}
				return
			}
			if diff := cmp.Diff(test.after, texts(after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMarkAndUnmark: adding and removing the mark restores each byte, even in a file with other content.
func TestMarkAndUnmark(t *testing.T) {
	mark, _ := owners.Owner{Kind: "Application"}.Mark()
	before := map[string]string{"apps/a.yaml": "# head\n" + pool("b") + "---\n" + pool("a"), "nodes/c.yaml": pool("c")}
	folders := []string{"apps", "nodes"}
	marked, err := files(before).Mark(folders, ref("a"), mark)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(before["apps/a.yaml"], "name: a\n", "name: a\n  annotations:\n    argocd.argoproj.io/sync-options: \"Prune=false,Delete=false\"\n", 1)
	if diff := cmp.Diff(want, string(marked["apps/a.yaml"])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, want := range map[string]bool{"a": true, "b": false, "d": false} {
		if got, err := marked.Marked(folders, ref(name), mark); got != want || err != nil {
			t.Errorf("%s: marked %t, %v", name, got, err)
		}
	}
	unmarked, err := marked.Unmark(folders, ref("a"), mark)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, texts(unmarked)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := marked.Mark(folders, ref("d"), mark); err == nil {
		t.Error("what is nowhere was marked")
	}
}
