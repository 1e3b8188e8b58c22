package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestANamespaceIsLeftOut: it is removed with a warning, because kustomize and templates add it to everything.
func TestANamespaceIsLeftOut(t *testing.T) {
	text := strings.Replace(pool("a"), "  name: a\n", "  name: a\n  namespace: karpenter\n", 1)
	set, err := renderAll(t, folder(map[string]string{"plumbline.yaml": plumblineYAML, "a.yaml": text}), ".", embedded(t))
	if err != nil {
		t.Fatal(err)
	}
	if namespace := set.Objects[0].Desired.GetNamespace() + set.Objects[0].Defaulted.GetNamespace(); namespace != "" {
		t.Errorf("namespace %q", namespace)
	}
	want := []string{"a.yaml:1: NodePool belongs to the whole cluster: metadata.namespace karpenter is left out"}
	if diff := cmp.Diff(want, set.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
