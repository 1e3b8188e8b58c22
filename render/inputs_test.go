package render_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plumbline-dev/plumbline/render"
)

// identified is a file system that knows identities, and records what is opened.
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

// Stat does not open the file, as in a Git tree.
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

// withIdentities returns a Snapshot whose file system is Identified.
func withIdentities(files map[string]string) (render.Snapshot, *identified) {
	known := &identified{MapFS: folder(files).FS.(fstest.MapFS), opened: map[string]int{}}
	return render.Snapshot{FS: known}, known
}

// fleet returns a path with a base elsewhere, and other files in the repository.
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

// named knows identities.
type named struct{ fstest.MapFS }

func (named) Identity(name string) (string, error) { return "of " + name, nil }

// reads returns the ways to read a Snapshot.
func reads(snap render.Snapshot) map[string]func() error {
	return map[string]func() error{
		"open":    func() error { _, err := snap.FS.Open("a.yaml"); return err },
		"read":    func() error { _, err := fs.ReadFile(snap.FS, "a.yaml"); return err },
		"list":    func() error { _, err := fs.ReadDir(snap.FS, "."); return err },
		"look":    func() error { _, err := fs.Stat(snap.FS, "a.yaml"); return err },
		"compare": func() error { _, err := render.Inputs{"a.yaml": "of a.yaml"}.Unchanged(snap); return err },
	}
}

// TestReadingEnds: reads fail once the reconcile's context is done, and once they have taken too long: a commit
// determines how long each read takes.
func TestReadingEnds(t *testing.T) {
	plain := render.Snapshot{FS: fstest.MapFS{"a.yaml": {Data: []byte("a")}}}
	known := render.Snapshot{FS: named{plain.FS.(fstest.MapFS)}}
	for name, snap := range map[string]render.Snapshot{"by content": plain, "by identity": known} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			within := snap.Within(ctx, "./prod", time.Hour)
			if _, is := within.FS.(render.Identified); is != (name == "by identity") {
				t.Errorf("it knows identities: %t", is)
			}
			for how, read := range reads(within) {
				if err := read(); err != nil {
					t.Errorf("%s: %v", how, err)
				}
			}
			cancel()
			for how, read := range reads(within) {
				if err := read(); !errors.Is(err, context.Canceled) {
					t.Errorf("%s after the context's end: %v", how, err)
				}
			}
			over := snap.Within(t.Context(), "./prod", -1)
			for how, read := range reads(over) {
				var slow *render.SlowError
				if err := read(); !errors.As(err, &slow) || slow.Path != "./prod" {
					t.Errorf("%s after the time is over: %v", how, err)
				}
			}
		})
	}
}

// TestASlowReadEndsTheRender: the error is a SlowError, and not an error of a file.
func TestASlowReadEndsTheRender(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"files":           {"plumbline.yaml": plumblineYAML, "a.yaml": pool("a")},
		"a kustomization": {"plumbline.yaml": plumblineYAML, "k/kustomization.yaml": "namePrefix: my-\nresources: [a.yaml]\n", "k/a.yaml": pool("a")},
	} {
		t.Run(name, func(t *testing.T) {
			snap := folder(files)
			k, err := render.ReadKarpenter(snap, ".")
			if err != nil {
				t.Fatal(err)
			}
			for left := range 40 {
				few := render.Snapshot{FS: &fewReads{FS: snap.FS, left: left}}
				_, err := render.Render(t.Context(), few, ".", k, nil)
				if err == nil {
					return
				}
				if !errors.As(err, new(*render.SlowError)) {
					t.Fatalf("after %d reads: %v", left, err)
				}
			}
			t.Error("it reads on and on")
		})
	}
}

// fewReads has time for a number of reads.
type fewReads struct {
	fs.FS
	left int
}

func (f *fewReads) Open(name string) (fs.File, error) {
	if f.left--; f.left < 0 {
		return nil, &fs.PathError{Op: "open", Path: name, Err: &render.SlowError{Path: ".", Reading: true}}
	}
	return f.FS.Open(name)
}

// counting is a schema that records which objects it validates.
type counting struct {
	mu        sync.Mutex
	validated []string
}

func (c *counting) Default(object *unstructured.Unstructured) {
	_ = unstructured.SetNestedField(object.Object, "set", "spec", "default")
}

func (c *counting) Validate(_ context.Context, object *unstructured.Unstructured) field.ErrorList {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.validated = append(c.validated, object.GetName())
	return nil
}

func (c *counting) Schema(schema.GroupVersionKind) *structural.Structural { return nil }

func TestCacheRendersWhatChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(files map[string]string)
		// validated again, and opened again besides plumbline.yaml
		validated, opened []string
	}{
		"nothing":         {func(map[string]string) {}, nil, nil},
		"a file outside":  {func(f map[string]string) { f["README.md"] = "y" }, nil, nil},
		"a file":          {func(f map[string]string) { f["clusters/a/own/class.yaml"] += "  tags: {a: b}\n" }, []string{"default"}, []string{"clusters/a/own/class.yaml"}},
		"a new file":      {func(f map[string]string) { f["clusters/a/own/pool.yaml"] = pool("new") }, []string{"new"}, []string{"clusters/a/own/pool.yaml"}},
		"a base":          {func(f map[string]string) { f["base/pool.yaml"] = pool("other") }, []string{"other"}, []string{"base/pool.yaml"}},
		"a kustomization": {func(f map[string]string) { f["base/kustomization.yaml"] = "resources: [unused.yaml]\n" }, []string{"unused"}, []string{"base/kustomization.yaml", "base/unused.yaml", "clusters/a/k/kustomization.yaml"}},
		"a variable": {
			func(f map[string]string) {
				f["clusters/a/plumbline.yaml"] = strings.Replace(plumblineYAML, "demo", "other", 1)
			},
			[]string{"base", "default"},
			[]string{"base/pool.yaml", "clusters/a/own/class.yaml"},
		},
		"values of the chart": {func(f map[string]string) { f["clusters/a/plumbline.yaml"] += "values: {replicas: 2}\n" }, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			validator, cache := &counting{}, &render.Cache{}
			files := fleet()
			first, _ := withIdentities(files)
			cached(t, first, validator, cache)
			tc.change(files)
			second, known := withIdentities(files)
			validator.validated = nil
			got := cached(t, second, validator, cache)
			opened := slices.Sorted(maps.Keys(known.opened))
			opened = slices.DeleteFunc(opened, func(name string) bool {
				_, there := files[name]
				return !there || strings.HasSuffix(name, "/plumbline.yaml")
			})
			if diff := cmp.Diff(tc.opened, opened, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("opened (-want +got):\n%s", diff)
			}
			slices.Sort(validator.validated)
			if diff := cmp.Diff(tc.validated, validator.validated); diff != "" {
				t.Errorf("validated (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(cached(t, second, &counting{}, &render.Cache{}), got); diff != "" {
				t.Errorf("another Set than without a cache (-without +with):\n%s", diff)
			}
		})
	}
}

func cached(t *testing.T, snap render.Snapshot, validator render.Validator, cache *render.Cache) *render.Set {
	t.Helper()
	karpenter, err := render.ReadKarpenter(snap, "clusters/a")
	if err != nil {
		t.Fatal(err)
	}
	set, err := render.Render(t.Context(), snap, "clusters/a", karpenter, validator, render.WithCache(cache))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestCacheIsOfOneSchema(t *testing.T) {
	snap, _ := withIdentities(fleet())
	cache := &render.Cache{}
	cached(t, snap, &counting{}, cache)
	other := &counting{}
	cached(t, snap, other, cache)
	if len(other.validated) != 2 {
		t.Errorf("another schema was asked about %v, want both objects", other.validated)
	}
}

// TestOverlaysThatHaveNotChangedAreNotBuilt: a build opens the files that it lists.
func TestOverlaysThatHaveNotChangedAreNotBuilt(t *testing.T) {
	files := fleet()
	files["clusters/a/x/kustomization.yaml"] = "namePrefix: x-\nresources: [../../../base, own.yaml]\n"
	files["clusters/a/x/own.yaml"] = pool("own")
	files["clusters/a/y/kustomization.yaml"] = "namePrefix: y-\nresources: [../../../base, own.yaml]\n"
	files["clusters/a/y/own.yaml"] = pool("own")
	validator, cache := &counting{}, &render.Cache{}
	for _, step := range []struct {
		name   string
		change func()
		// built are the overlays, made the new objects from them.
		built, made []string
	}{
		{"the first render", func() {}, []string{"x", "y"}, []string{"base", "default", "x-base", "x-own", "y-base", "y-own"}},
		{"nothing", func() {}, nil, nil},
		{"a file of one", func() { files["clusters/a/y/own.yaml"] += "  weight: 3\n" }, []string{"y"}, []string{"y-own"}},
		{"a kustomization", func() { files["clusters/a/x/kustomization.yaml"] += "nameSuffix: -z\n" }, []string{"x"}, []string{"x-base-z", "x-own-z"}},
		{"a base of both", func() { files["base/pool.yaml"] += "  weight: 3\n" }, []string{"x", "y"}, []string{"base", "x-base-z", "y-base"}},
	} {
		step.change()
		snap, known := withIdentities(files)
		validator.validated = nil
		cached(t, snap, validator, cache)
		var built []string
		for _, overlay := range []string{"x", "y"} {
			if known.opened["clusters/a/"+overlay+"/own.yaml"] > 0 {
				built = append(built, overlay)
			}
		}
		slices.Sort(validator.validated)
		if diff := cmp.Diff([][]string{step.built, step.made}, [][]string{built, validator.validated}); diff != "" {
			t.Errorf("%s: built and made (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestSetsShareWhatHasNotChanged: an unchanged object has the same address in both Sets.
func TestSetsShareWhatHasNotChanged(t *testing.T) {
	validator, cache, files := &counting{}, &render.Cache{}, fleet()
	files["clusters/a/own/many.yaml"] = pool("first") + "---\n" + pool("second")
	snap, _ := withIdentities(files)
	before := byRef(cached(t, snap, validator, cache))
	files["clusters/a/own/many.yaml"] = "# moved down\n" + pool("first") + "---\n" + pool("second") + "  weight: 7\n"
	snap, _ = withIdentities(files)
	validator.validated = nil
	after := byRef(cached(t, snap, validator, cache))
	if diff := cmp.Diff([]string{"second"}, validator.validated); diff != "" {
		t.Errorf("validated (-want +got):\n%s", diff)
	}
	for ref, object := range after {
		if same := before[ref].Defaulted == object.Defaulted; same != (ref.Name != "second") {
			t.Errorf("%s is the same object: %t", ref, same)
		}
	}
	first := render.Ref{Kind: render.NodePool, Name: "first"}
	if was, is := before[first].Origin.Line, after[first].Origin.Line; is != was+1 {
		t.Errorf("first was in line %d and is in line %d", was, is)
	}
}

func byRef(set *render.Set) map[render.Ref]render.Object {
	objects := map[render.Ref]render.Object{}
	for _, object := range set.Objects {
		objects[object.Ref] = object
	}
	return objects
}

func TestCacheKeepsTheGoodPartOfABadCommit(t *testing.T) {
	validator, cache := &counting{}, &render.Cache{}
	files := fleet()
	files["clusters/a/own/broken.yaml"] = "a: [\n"
	bad, _ := withIdentities(files)
	karpenter, err := render.ReadKarpenter(bad, "clusters/a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := render.Render(t.Context(), bad, "clusters/a", karpenter, validator, render.WithCache(cache)); err == nil {
		t.Fatal("a broken file was rendered")
	}
	validator.validated = nil
	files["clusters/a/own/broken.yaml"] = pool("mended")
	good, _ := withIdentities(files)
	cached(t, good, validator, cache)
	if diff := cmp.Diff([]string{"mended"}, validator.validated); diff != "" {
		t.Errorf("validated (-want +got):\n%s", diff)
	}
}

func TestDesiredAndDefaulted(t *testing.T) {
	snap, _ := withIdentities(fleet())
	for _, object := range cached(t, snap, &counting{}, nil).Objects {
		if _, found, _ := unstructured.NestedString(object.Desired.Object, "spec", "default"); found {
			t.Errorf("%s: a default is in Desired", object.Ref)
		}
		if _, found, _ := unstructured.NestedString(object.Defaulted.Object, "spec", "default"); !found {
			t.Errorf("%s: no default is in Defaulted", object.Ref)
		}
	}
}
