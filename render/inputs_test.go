package render_test

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/render"
)

// identified is a file system that knows identities, and notes what is opened.
type identified struct {
	fstest.MapFS

	mu     sync.Mutex
	opened map[string]int
}

func (i *identified) Open(name string) (fs.File, error) {
	i.mu.Lock()
	i.opened[name]++
	i.mu.Unlock()
	return i.MapFS.Open(name)
}

// Stat does not open, as in a tree of Git.
func (i *identified) Stat(name string) (fs.FileInfo, error) { return i.MapFS.Stat(name) }

func (i *identified) ReadDir(name string) ([]fs.DirEntry, error) { return i.MapFS.ReadDir(name) }

func (i *identified) Identity(name string) (string, error) {
	info, err := i.MapFS.Stat(name)
	if err != nil {
		return "", err
	}
	sum := fnv.New64()
	if !info.IsDir() {
		_, _ = sum.Write(i.MapFS[name].Data)
		return fmt.Sprintf("blob %x", sum.Sum64()), nil
	}
	entries, err := i.MapFS.ReadDir(name)
	if err != nil {
		return "", err
	}
	for _, entry := range entries {
		fmt.Fprintln(sum, entry.Name(), entry.IsDir())
	}
	return fmt.Sprintf("tree %x", sum.Sum64()), nil
}

// withIdentities is a Snapshot whose file system is Identified.
func withIdentities(files map[string]string) (render.Snapshot, *identified) {
	known := &identified{MapFS: folder(files).FS.(fstest.MapFS), opened: map[string]int{}}
	return render.Snapshot{FS: known}, known
}

// fleet is a path with a base elsewhere, and more in the repository.
func fleet() map[string]string {
	return map[string]string{
		"README.md":                       "x",
		"base/kustomization.yaml":         "resources: [pool.yaml]\n",
		"base/pool.yaml":                  pool("base"),
		"base/unused.yaml":                pool("unused"),
		"clusters/a/plumbline.yaml":       plumblineYAML,
		"clusters/a/notes.txt":            "x",
		"clusters/a/own/class.yaml":       class("default"),
		"clusters/a/k/kustomization.yaml": "resources: [../../../base]\n",
		"clusters/b/plumbline.yaml":       plumblineYAML,
	}
}

func TestInputs(t *testing.T) {
	set, err := renderAll(t, folder(fleet()), "clusters/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, identity := range set.Inputs {
		got[name] = "content"
		if identity == "" || identity == "is:folder" || identity == "is:file" {
			got[name] = identity
		}
	}
	want := map[string]string{
		"clusters/a": "content", "clusters/a/k": "content", "clusters/a/own": "content",
		"clusters/a/plumbline.yaml": "content", "clusters/a/own/class.yaml": "content",
		"clusters/a/k/kustomization.yaml": "content", "clusters/a/k/kustomization.yml": "", "clusters/a/k/Kustomization": "",
		"base": "is:folder", "base/pool.yaml": "content",
		"base/kustomization.yaml": "content", "base/kustomization.yml": "", "base/Kustomization": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnchanged(t *testing.T) {
	for name, tc := range map[string]struct {
		change    func(files map[string]string)
		unchanged bool
	}{
		"nothing":                   {func(map[string]string) {}, true},
		"a file outside":            {func(f map[string]string) { f["README.md"] = "y"; f["clusters/b/pool.yaml"] = pool("b") }, true},
		"an unused file of a base":  {func(f map[string]string) { f["base/unused.yaml"] = "y"; delete(f, "base/unused.yaml") }, true},
		"a file of a base":          {func(f map[string]string) { f["base/pool.yaml"] += "# x\n" }, false},
		"a kustomization of a base": {func(f map[string]string) { f["base/kustomization.yaml"] += "# x\n" }, false},
		"a base that is gone": {func(f map[string]string) {
			delete(f, "base/kustomization.yaml")
			delete(f, "base/pool.yaml")
			delete(f, "base/unused.yaml")
		}, false},
		"a base that is a file":  {func(f map[string]string) { clear(f); f["base"] = "x" }, false},
		"a second kustomization": {func(f map[string]string) { f["base/Kustomization"] = "" }, false},
		"a file":                 {func(f map[string]string) { f["clusters/a/own/class.yaml"] += "# x\n" }, false},
		"plumbline.yaml":         {func(f map[string]string) { f["clusters/a/plumbline.yaml"] += "# x\n" }, false},
		"a new file":             {func(f map[string]string) { f["clusters/a/own/pool.yaml"] = pool("x") }, false},
		"a new folder":           {func(f map[string]string) { f["clusters/a/new/pool.yaml"] = pool("x") }, false},
		"a file renamed": {func(f map[string]string) {
			f["clusters/a/own/other.yaml"] = f["clusters/a/own/class.yaml"]
			delete(f, "clusters/a/own/class.yaml")
		}, false},
		"the path": {func(f map[string]string) {
			maps.DeleteFunc(f, func(name, _ string) bool { return len(name) > 10 && name[:10] == "clusters/a" })
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			changed := fleet()
			tc.change(changed)
			set, err := renderAll(t, folder(fleet()), "clusters/a", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := set.Inputs.Unchanged(folder(changed)); err != nil || got != tc.unchanged {
				t.Errorf("by content: unchanged %v, %v, want %v", got, err, tc.unchanged)
			}
			before, _ := withIdentities(fleet())
			if set, err = renderAll(t, before, "clusters/a", nil); err != nil {
				t.Fatal(err)
			}
			after, known := withIdentities(changed)
			if got, err := set.Inputs.Unchanged(after); err != nil || got != tc.unchanged {
				t.Errorf("by identity: unchanged %v, %v, want %v", got, err, tc.unchanged)
			}
			if len(known.opened) > 0 {
				t.Errorf("files were opened to compare identities: %v", slices.Collect(maps.Keys(known.opened)))
			}
		})
	}
}
