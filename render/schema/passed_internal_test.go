package schema

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// TestPartsPassAsTheWhole: an object passes by its parts, cached or not, exactly if OpenAPI and the rules find nothing
// in the whole object.
func TestPartsPassAsTheWhole(t *testing.T) {
	crds, _, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	validator, err := New(crds)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*e*d/*.yaml") // accepted and refused
	if err != nil || len(files) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	passing, failing := 0, 0
	for _, file := range files {
		for round := range 60 {
			object := objectIn(t, file)
			if round > 0 {
				disturb(random, object.Object["spec"])
			}
			k, err := validator.kindOf(object)
			if err != nil {
				continue // a kind that no CRD defines
			}
			k.setDefaults(object.Object)
			errs := validation.ValidateCustomResource(nil, object.Object, k.openapi)
			if rules := k.rules(); rules != nil && len(errs) == 0 {
				errs, _ = rules.Validate(t.Context(), nil, k.structural, object.Object, nil, celconfig.RuntimeCELCostBudget)
			}
			known, err := k.passed()
			if err != nil {
				t.Fatal(err)
			}
			if passes := known.all(t.Context(), object.Object, celconfig.RuntimeCELCostBudget); passes != (len(errs) == 0) {
				t.Fatalf("%s: by its parts it passes: %v; the whole: %v\n%v", file, passes, errs, object.Object)
			}
			if len(errs) == 0 {
				passing++
			} else {
				failing++
			}
		}
	}
	if passing < 100 || failing < 100 {
		t.Errorf("%d objects pass and %d do not: too few to tell", passing, failing)
	}
}

// TestKnownPartsCostAsMuch: the cost of the rules on a part counts each time that it passes, so that an object cannot
// exceed the API server's budget because its parts are cached.
func TestKnownPartsCostAsMuch(t *testing.T) {
	crds, _, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	validator, err := New(crds)
	if err != nil {
		t.Fatal(err)
	}
	object := objectIn(t, "testdata/accepted/pool-most.yaml")
	k, err := validator.kindOf(object)
	if err != nil {
		t.Fatal(err)
	}
	k.setDefaults(object.Object)
	known, err := k.passed()
	if err != nil {
		t.Fatal(err)
	}
	const budget = celconfig.RuntimeCELCostBudget
	first, _ := known.pass(t.Context(), known.root, object.Object, budget)
	again, _ := known.pass(t.Context(), known.root, object.Object, budget)
	_, whole := k.rules().Validate(t.Context(), nil, k.structural, object.Object, nil, budget)
	if first != whole || again != whole || whole == budget {
		t.Errorf("of a budget of %d are left: %d at first, %d again; want %d", int64(budget), first, again, whole)
	}
	if known.all(t.Context(), object.Object, budget-whole-1) {
		t.Error("it passes beyond its budget")
	}
}

func objectIn(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, object); err != nil {
		t.Fatal(err)
	}
	return object
}
