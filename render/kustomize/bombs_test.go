package kustomize_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/render/kustomize"
)

// TestABombBehindAnotherErrorIsRefused: the limits are checked even if a parser finds another error first.
func TestABombBehindAnotherErrorIsRefused(t *testing.T) {
	const prefixed = "namePrefix: a-\nresources: [a.yaml]\n"
	for name, text := range map[string]string{
		"a key that is twice":    "a: 1\na: 2\n" + bomb(),
		"an unknown tag":         "a: !!x 1\n" + bomb(),
		"a number too large":     "a: 1e999\n" + bomb(),
		"something that is open": bomb() + "b: [\n",
	} {
		t.Run(name, func(t *testing.T) {
			for at, files := range map[string]map[string]string{
				"a resource":      {"kustomization.yaml": prefixed, "a.yaml": text},
				"a kustomization": {"kustomization.yaml": text},
				"a patch":         {"kustomization.yaml": "resources: [a.yaml]\npatches: [{path: p.yaml}]\n", "a.yaml": pool, "p.yaml": text},
				"inline":          {"kustomization.yaml": "resources: [a.yaml]\npatches:\n- patch: |\n    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n", "a.yaml": pool},
				"a generator":     {"kustomization.yaml": "configMapGenerator: [{name: a, files: [a.yaml]}]\n", "a.yaml": text},
			} {
				_, err := build(t, tree(files), ".")
				var refused *kustomize.RefusedError
				var refusal kustomize.Refusal
				if !errors.As(err, &refused) && !errors.As(err, &refusal) {
					t.Errorf("%s: error %v, want it refused", at, err)
				}
			}
		})
	}
}

// TestBuildsThatTakeTooMuch: they are stopped and named, and the next build works.
func TestBuildsThatTakeTooMuch(t *testing.T) {
	many := func(levels, objects, size int) fstest.MapFS {
		files := doubling(levels)
		var text strings.Builder
		for i := range objects {
			fmt.Fprintf(&text, "---\n%s  annotations: {a: %q}\n", strings.ReplaceAll(strings.ReplaceAll(pool, "general", fmt.Sprint("a", i)), "spec:\n  limits: {cpu: 100}\n", ""), strings.Repeat("x", size))
		}
		files["pool.yaml"] = text.String()
		return tree(files).(fstest.MapFS)
	}
	for name, tc := range map[string]struct {
		files fstest.MapFS
		want  string
	}{
		"processor time": {many(8, 100, 0), "2 s of processor time"},
		"long texts":     {many(6, 4, 900_000), "took more than"}, // of either limit
	} {
		t.Run(name, func(t *testing.T) {
			k, err := kustomize.Read(tc.files, ".")
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = k.Build(t.Context(), runner, tc.files)
			var limit *confine.LimitError
			if !errors.As(err, &limit) || !strings.Contains(err.Error(), "building kustomization.yaml took more than") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want a limit of %s", err, tc.want)
			}
		})
	}
	if _, err := build(t, tree(overlay()), "clusters/a/nodes"); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// FuzzBuild: for any kustomization and resource, the build terminates, here as in a daemon.
func FuzzBuild(f *testing.F) {
	f.Add("resources: [a.yaml]\nnamePrefix: a-\n", pool)
	f.Add("resources: [a.yaml]\nlabels: [{pairs: {a: b}}]\nreplicas: [{name: general, count: 3}]\n", pool)
	f.Add("resources: [a.yaml]\npatches: [{patch: '[{\"op\": \"add\", \"path\": \"/a\", \"value\": 1}]', target: {kind: NodePool}}]\n", pool)
	f.Add("resources: [a.yaml]\n", "a: 1\na: 2\n"+bomb())
	f.Fuzz(func(t *testing.T, kustomization, resource string) {
		files := tree(map[string]string{"kustomization.yaml": kustomization, "a.yaml": resource})
		k, err := kustomize.Read(files, ".")
		if err != nil {
			return
		}
		made, _, err := k.Build(t.Context(), runner, files)
		var limit *confine.LimitError
		if errors.As(err, &limit) {
			t.Fatalf("%d bytes took too much: %v", len(kustomization)+len(resource), err)
		}
		for _, one := range made {
			if one.Object == nil {
				t.Fatal("an object that is none")
			}
		}
	})
}
