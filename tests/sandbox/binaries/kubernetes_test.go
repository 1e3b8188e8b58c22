package binaries

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKubernetesOf: only versions that the usual program does not emulate need the older one.
func TestKubernetesOf(t *testing.T) {
	for minor, want := range map[string]Name{
		"1.33": OlderKubernetes, "1.34": Kubernetes, "1.36": Kubernetes, "1.37": Kubernetes, DefaultKubernetes(): Kubernetes,
	} {
		if diff := cmp.Diff(want, KubernetesOf(minor)); diff != "" {
			t.Errorf("the program for %s (-want +got):\n%s", minor, diff)
		}
	}
}

// TestKubernetesFollowsKarpenter: the version that a cluster serves by default is one that its Karpenter supports, and no
// newer one than the program.
func TestKubernetesFollowsKarpenter(t *testing.T) {
	for karpenter, want := range map[string]string{"1.6.3": "1.33", "1.14.3": "1.36", "1.15.0": "1.37", "1.99.0": "1.37"} {
		if diff := cmp.Diff(want, newestKubernetes(karpenter)); diff != "" {
			t.Errorf("for Karpenter %s (-want +got):\n%s", karpenter, diff)
		}
	}
}

// TestOlderKubernetesHasTheSameSources: its module has only go.mod and go.sum, and an edit of a source changes both keys.
func TestOlderKubernetesHasTheSameSources(t *testing.T) {
	source, err := FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	b := &Builder{Source: t.TempDir(), Cache: t.TempDir()}
	for _, name := range []Name{Kubernetes, OlderKubernetes} {
		if err := os.CopyFS(filepath.Join(b.Source, string(name)), os.DirFS(filepath.Join(source, string(name)))); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := fs.Glob(os.DirFS(b.Source), string(OlderKubernetes)+"/*.go")
	if err != nil || len(sources) > 0 {
		t.Errorf("sources of its own: %v, %v", sources, err)
	}
	_, before, err := b.place(t.Context(), OlderKubernetes)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.Source, string(Kubernetes), "main.go")
	if err := os.WriteFile(file, []byte("package main\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, after, err := b.place(t.Context(), OlderKubernetes); err != nil || after == before {
		t.Errorf("an edit of main.go left the key as it was: %s, %v", after, err)
	}
}
