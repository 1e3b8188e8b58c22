package render_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plumbline-dev/plumbline/render"
)

// counting is a schema that notes what it is asked about.
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
		// validated again, and opened again beside plumbline.yaml
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
		// built are the overlays, made the objects that come new out of them.
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

// TestSetsShareWhatHasNotChanged: whoever compares a Set with the last one knows
// an object that has not changed by its address.
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
