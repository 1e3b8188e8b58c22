package render_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/plumbline-dev/plumbline/render"
)

// counting is a schema that notes what it is asked about.
type counting struct{ validated []string }

func (c *counting) Default(object *unstructured.Unstructured) {
	_ = unstructured.SetNestedField(object.Object, "set", "spec", "default")
}

func (c *counting) Validate(_ context.Context, object *unstructured.Unstructured) field.ErrorList {
	c.validated = append(c.validated, object.GetName())
	return nil
}

func TestCacheRendersWhatChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(files map[string]string)
		// validated again, and opened again beside plumbline.yaml
		validated, opened []string
	}{
		"nothing":        {func(map[string]string) {}, nil, nil},
		"a file outside": {func(f map[string]string) { f["README.md"] = "y" }, nil, nil},
		"a file":         {func(f map[string]string) { f["clusters/a/own/class.yaml"] += "  tags: {a: b}\n" }, []string{"default"}, []string{"clusters/a/own/class.yaml"}},
		"a new file":     {func(f map[string]string) { f["clusters/a/own/pool.yaml"] = pool("new") }, []string{"new"}, []string{"clusters/a/own/pool.yaml"}},
		"a base":         {func(f map[string]string) { f["base/pool.yaml"] = pool("other") }, []string{"other"}, []string{"base/kustomization.yaml", "base/pool.yaml", "clusters/a/k/kustomization.yaml"}},
		"a variable": {
			func(f map[string]string) {
				f["clusters/a/plumbline.yaml"] = strings.Replace(plumblineYAML, "demo", "other", 1)
			},
			[]string{"base", "default"},
			[]string{"base/kustomization.yaml", "base/pool.yaml", "clusters/a/k/kustomization.yaml", "clusters/a/own/class.yaml"},
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

func TestCacheIsNotSharedWithSets(t *testing.T) {
	snap, _ := withIdentities(fleet())
	validator, cache := &counting{}, &render.Cache{}
	for range 2 {
		set := cached(t, snap, validator, cache)
		set.Objects[0].Desired.SetLabels(map[string]string{"a": "b"})
		set.Objects[0].Defaulted.SetLabels(map[string]string{"a": "b"})
	}
	last := cached(t, snap, validator, cache).Objects[0]
	if last.Desired.GetLabels() != nil || last.Defaulted.GetLabels() != nil {
		t.Error("a change to an object of one Set is in the next")
	}
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
