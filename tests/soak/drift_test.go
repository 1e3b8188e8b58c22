package soak

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestDrifted(t *testing.T) {
	object := func(name, class, hash string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": name, "annotations": map[string]any{"hash": hash}},
			"spec":     map[string]any{"nodeClassRef": map[string]any{"name": class}},
		}}
	}
	classes := []unstructured.Unstructured{object("default", "", "2"), object("other", "", "1")}
	for want, claims := range map[string][]unstructured.Unstructured{
		"":   {object("a", "default", "2"), object("b", "other", "1"), object("c", "gone", "0")},
		"ab": {object("a", "default", "2"), object("ab", "default", "1")},
	} {
		if got := drifted(claims, classes, "hash", classOf); got != want {
			t.Errorf("drifted %q, want %q", got, want)
		}
	}
}
