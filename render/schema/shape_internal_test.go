package schema

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// TestFieldSetsOfShapes: the cached set of a shape equals that of each object with this shape, whatever else is
// changed.
func TestFieldSetsOfShapes(t *testing.T) {
	crds, _, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	validator, err := New(crds)
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/accepted/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no objects: %v", err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]bool{}
	const rounds = 150
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for range rounds {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(text, object); err != nil {
				t.Fatal(err)
			}
			object.SetFinalizers([]string{"a/b", "c/d"}[:random.IntN(3)])
			disturb(random, object.Object["spec"])
			k, err := validator.kindOf(object)
			if err != nil {
				t.Fatal(err)
			}
			shapes[string(k.layout.appendShape(nil, object.Object))] = true
			want, refused := k.fieldSet(object)
			got, err := validator.FieldSet(object)
			if (err != nil) != (refused != nil) || err == nil && !got.Equals(want) {
				t.Fatalf("%s: kept for its shape: %v, %v; its own: %v, %v\n%v", file, got, err, want, refused, object.Object)
			}
		}
	}
	if all := rounds * len(files); len(shapes) > all*9/10 {
		t.Errorf("%d objects have %d shapes: none is ever shared", all, len(shapes))
	}
}

// disturb changes some of the content of a value, in place.
func disturb(random *rand.Rand, value any) {
	seldom := func() bool { return random.IntN(20) == 0 }
	switch value := value.(type) {
	case map[string]any:
		for _, key := range sortedKeys(value) {
			switch field := value[key].(type) {
			case string:
				value[key] = []any{field, "other", int64(7)}[random.IntN(2)+bit(seldom())]
			case []any:
				value[key] = relist(random, field)
			}
			disturb(random, value[key])
			if seldom() {
				delete(value, key)
			}
		}
	case []any:
		for _, item := range value {
			disturb(random, item)
		}
	}
}

// relist repeats or drops items of a list.
func relist(random *rand.Rand, list []any) []any {
	changed := []any{}
	for _, item := range list {
		for range random.IntN(3) {
			changed = append(changed, (&unstructured.Unstructured{Object: map[string]any{"item": item}}).DeepCopy().Object["item"])
		}
	}
	if len(changed) == 0 && random.IntN(4) > 0 {
		return list
	}
	return changed
}

func bit(set bool) int {
	if set {
		return 1
	}
	return 0
}

func sortedKeys(value map[string]any) []string {
	keys := make([]string, 0, len(value))
	for key := range value {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
