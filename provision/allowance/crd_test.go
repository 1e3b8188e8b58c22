package allowance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// realCRDs are those of Karpenter's own CRD chart.
func realCRDs(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(module(t), "pkg/apis/crds/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	var crds []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		crds = append(crds, object(t, string(text)))
	}
	return crds
}

// TestKindsThatAreServedNoMore: a CRD chart that would take a kind from the API server, which
// ends every watch of it, is refused by name.
func TestKindsThatAreServedNoMore(t *testing.T) {
	const claims = "CustomResourceDefinition nodeclaims.karpenter.sh"
	replace := func(path, value string) string {
		return "[{op: replace, path: " + path + ", value: " + value + "}]"
	}
	for name, c := range map[string]struct{ crd, patch, want string }{
		"as released":              {claims, "[]", ""},
		"a version beside v1":      {claims, "[{op: add, path: /spec/versions/-, value: {name: v2, served: true, storage: false}}]", ""},
		"not served":               {claims, replace("/spec/versions/0/served", "false"), claims + " does not serve v1 of NodeClaim"},
		"renamed":                  {claims, replace("/spec/versions/0/name", "v2"), claims + " does not serve v1 of NodeClaim"},
		"no version":               {claims, replace("/spec/versions", "[]"), claims + " does not serve v1 of NodeClaim"},
		"another kind":             {claims, replace("/spec/names/kind", "Claim"), claims + " defines another kind"},
		"another kind of lists":    {claims, replace("/spec/names/listKind", "Claims"), claims + " defines another kind"},
		"another plural":           {claims, replace("/spec/names/plural", "claims"), claims + " defines another kind"},
		"another group":            {claims, replace("/spec/group", "example.com"), claims + " defines another kind"},
		"another scope":            {claims, replace("/spec/scope", "Namespaced"), claims + " defines another kind"},
		"pools that are not there": {"CustomResourceDefinition nodepools.karpenter.sh", "", "renders to no CustomResourceDefinition nodepools.karpenter.sh"},
		"NodeOverlays of another version": {
			"CustomResourceDefinition nodeoverlays.karpenter.sh", replace("/spec/versions/0/name", "v1"), "",
		},
		"no NodeOverlays, as in 1.3": {"CustomResourceDefinition nodeoverlays.karpenter.sh", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			objects := realCRDs(t)
			if c.patch != "" {
				objects = patched(t, objects, c.crd, c.patch)
			} else {
				objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind()+" "+o.GetName() == c.crd })
			}
			err := Refuse((Allowance{Values: []string{Everything}}).CheckObjects(Rendered{Namespace: "kube-system", Version: "1.14.1", CRDs: true, Objects: objects}))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused: %v, want %q", err, c.want)
			}
		})
	}
}
