package source_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

// drawn is a commit to a fleet with files, links to files and folders, a kustomization with a base, and many unrelated
// files.
func drawn(random *rand.Rand) files {
	pool := func(name string) string {
		return fmt.Sprintf("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: %s}\nspec: {weight: %d}\n", name, 1+random.IntN(5))
	}
	changes := []func(f files){
		func(f files) {
			n := random.IntN(4)
			f[fmt.Sprintf("fleet/own/p%d.yaml", n)] = pool(fmt.Sprintf("p%d", n))
		},
		func(f files) { f[fmt.Sprintf("fleet/own/p%d.yaml", random.IntN(4))] = "" },
		func(f files) { f["fleet/own/deep/x.yaml"] = pool("x") },
		func(f files) { f["fleet/own/deep"] = "" },
		func(f files) { f["base/b.yaml"] = pool("b") },
		func(f files) { f["shared/l.yaml"] = pool("l") },
		func(f files) { f["other/l.yaml"] = pool("l") },
		func(f files) { f["fleet/own/link.yaml"] = "-> ../../shared/l.yaml" },
		func(f files) { f["fleet/own/link.yaml"] = "-> ../../other/l.yaml" },
		func(f files) { f["fleet/own/link.yaml"] = "" },
		func(f files) { f["linked"] = "-> base" },
		func(f files) { f["linked"] = "-> shared/base" },
		func(f files) { f["shared/base/b.yaml"] = pool("b") },
		func(f files) { f["fleet/k/kustomization.yaml"] = "namePrefix: k-\nresources: [../../linked]\n" },
		func(f files) { f["fleet/k/kustomization.yaml"] = "namePrefix: k-\nresources: [../../base]\n" },
		func(f files) { f["base"] = "-> shared/base" },
		func(f files) {
			f["base/kustomization.yaml"], f["base/b.yaml"], f["base/c.yaml"] = "resources: [b.yaml, c.yaml]\n", pool("b"), pool("c")
		},
		func(f files) { f["base/kustomization.yaml"], f["base/b.yaml"] = "resources: [b.yaml]\n", pool("b") },
		func(f files) { f["docs/a.md"] = fmt.Sprint(random.Int()) },
		func(f files) { f[fmt.Sprintf("docs/%d/a.md", random.IntN(3))] = fmt.Sprint(random.Int()) },
		func(f files) { f["fleet/README.md"] = fmt.Sprint(random.Int()) },
	}
	f := files{}
	defer func() {
		if f["base"] != "" { // a link, or a folder
			delete(f, "base/b.yaml")
			delete(f, "base/c.yaml")
			delete(f, "base/kustomization.yaml")
		}
	}()
	for range 1 + random.IntN(3) {
		changes[random.IntN(len(changes))](f)
	}
	return f
}

// TestWhatDiffersIsFound: after any commits, including symlinks, a Set rendered from the differences equals one
// rendered from the whole commit, and "unchanged" is only reported for equal ones.
func TestWhatDiffersIsFound(t *testing.T) {
	const kustomization = "resources: [b.yaml]\n"
	same, again := 0, 0
	for seed := range uint64(16) {
		random := rand.New(rand.NewPCG(seed, 3))
		h := newHost(t)
		client := newClient(t, h.url, source.Options{})
		f := drawn(random)
		f["fleet/plumbline.yaml"] = "apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: demo, region: eu-west-1}\nversion: 1.14.1\n"
		f["fleet/own/class.yaml"] = "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec: {}\n"
		f["base/kustomization.yaml"], f["shared/base/kustomization.yaml"] = kustomization, kustomization
		cache, last := &render.Cache{}, (*render.Set)(nil)
		var pushed []string
		for range 25 {
			pushed = append(pushed, h.commit(t, "main", f))
			snap := client.mustFetch(t, v1alpha1.GitRef{})
			timed := snap.Within(t.Context(), "fleet", render.Reading)
			if last != nil {
				unchanged, err := cache.Unchanged(last, timed)
				whole, wrong := last.Inputs.Unchanged(*snap)
				if unchanged != whole || (err == nil) != (wrong == nil) {
					t.Fatalf("seed %d, %v: unchanged %t, %v; all looked at %t, %v", seed, f, unchanged, err, whole, wrong)
				}
				if unchanged {
					same++
				}
			}
			want, wrong := renderedWith(t, *snap, &render.Cache{})
			got, err := renderedWith(t, timed, cache)
			if (err == nil) != (wrong == nil) || err != nil && err.Error() != wrong.Error() {
				t.Fatalf("seed %d, %v: error %v, want %v", seed, f, err, wrong)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d, %v: another Set (-whole +made of what differs):\n%s", seed, f, diff)
			}
			if got != nil {
				last, again = got, again+1
			}
			if back := len(pushed) - 5; last != nil && back >= 0 {
				sameHistory(t, client, pushed[back], last)
			}
			f = drawn(random)
		}
	}
	if same < 20 || again < 100 {
		t.Errorf("%d commits changed nothing, %d rendered: they show little", same, again)
	}
}

// sameHistory verifies that the same commits changed a Set whether only differences are compared or everything.
func sameHistory(t *testing.T, c *client, applied string, set *render.Set) {
	t.Helper()
	whole, wrong := c.git.FindSince(t.Context(), c.request, applied, render.Read{Inputs: set.Inputs}, 50)
	got, err := c.git.FindSince(t.Context(), c.request, applied, set.Read(), 50)
	if (err == nil) != (wrong == nil) {
		t.Fatalf("error %v, want %v", err, wrong)
	}
	if diff := cmp.Diff(whole, got); diff != "" {
		t.Fatalf("other commits (-all looked at +what differs):\n%s", diff)
	}
}

func renderedWith(t *testing.T, snap render.Snapshot, cache *render.Cache) (*render.Set, error) {
	t.Helper()
	k, err := render.ReadKarpenter(snap, "fleet")
	if err != nil {
		return nil, err
	}
	return render.Render(t.Context(), snap, "fleet", k, nil, render.WithCache(cache))
}

// TestACommitElsewhereLooksAtNothing shows that an unrelated commit reads none of ten thousand names, and that a commit
// to one file reads only that file.
func TestACommitElsewhereLooksAtNothing(t *testing.T) {
	h := newHost(t)
	client := newClient(t, h.url, source.Options{})
	all := files{"docs/a.md": "1", "docs/link": "-> a.md"}
	for i := range 200 {
		all[fmt.Sprintf("fleet/%d/%d.yaml", i%20, i)] = "a"
	}
	h.commit(t, "main", all)
	first := client.mustFetch(t, v1alpha1.GitRef{})
	if err := fs.WalkDir(first.FS, "fleet", func(string, fs.DirEntry, error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		commit files
		want   render.Difference
	}{
		"elsewhere": {files{"docs/a.md": "2"}, render.Difference{At: []string{"docs"}, Below: []string{"docs"}}},
		"a file":    {files{"docs/a.md": "1", "fleet/3/3.yaml": "b"}, render.Difference{At: []string{"fleet/3/3.yaml"}}},
		"a new one": {files{"fleet/3/3.yaml": "a", "fleet/4/new.yaml": "b"}, render.Difference{At: []string{"fleet/4/new.yaml", "fleet/4"}}},
	} {
		t.Run(name, func(t *testing.T) {
			h.orphan(t, "main", all)
			h.commit(t, "main", c.commit)
			got, known := client.mustFetch(t, v1alpha1.GitRef{}).FS.(render.Compared).Since(first.FS)
			if diff := cmp.Diff(c.want, got); diff != "" || !known {
				t.Errorf("known %t:\n%s", known, diff)
			}
		})
	}
}
