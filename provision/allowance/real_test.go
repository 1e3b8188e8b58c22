package allowance

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/internal/modcache"
)

// released are versions whose charts the module proxy has.
var released = []string{"1.0.8", "1.3.3", "1.6.3", "1.8.6", "1.12.1", "1.14.1", "1.14.3", "1.15.0"}

// chartValues returns the defaults of a version's main chart, from Go's module cache.
func chartValues(t *testing.T, version string) map[string]any {
	t.Helper()
	folder, err := modcache.Folder(t.Context(), "github.com/aws/karpenter-provider-aws@v"+version)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(folder, "charts", "karpenter", "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// leaves calls each for every value that is not a map with entries.
func leaves(at string, values map[string]any, each func(path string, value any)) {
	for key, value := range values {
		if below, ok := value.(map[string]any); ok && len(below) > 0 {
			leaves(join(at, key), below, each)
			continue
		}
		each(join(at, key), value)
	}
}

// listed reports whether a table contains a path, or a parent of it.
func listed(at string) bool {
	return slices.ContainsFunc(slices.Concat(slices.Collect(maps.Keys(open)), slices.Collect(maps.Keys(closed))), func(known string) bool {
		return at == known || strings.HasPrefix(at, known+".") || strings.HasPrefix(at, known+"[") || strings.HasPrefix(known, at+".")
	})
}

// TestEveryValueIsListed: each value of each released chart is open or closed, and no default of a closed one is
// refused in a map that only repeats the chart, except for those that name an image or a security context.
func TestEveryValueIsListed(t *testing.T) {
	seen := map[string]bool{}
	for _, version := range released {
		values := chartValues(t, version)
		leaves("", values, func(path string, value any) {
			if !listed(path) {
				t.Errorf("karpenter %s has the value %s, which is in neither table of table.go", version, path)
			}
			seen[path] = true
			if wants, ok := shapeOf(path); ok && value != nil && !wants.fits(value) {
				t.Errorf("karpenter %s: the chart's own %s does not fit: %v is not %s", version, path, value, wants.is)
			}
		})
		for _, refusal := range (Allowance{}).CheckValues(values) {
			switch path := refusal.Entry; {
			case strings.HasPrefix(path, "controller.image."), strings.HasPrefix(path, "podSecurityContext"):
			default:
				t.Errorf("karpenter %s: the chart's own default is refused: %s", version, refusal)
			}
		}
	}
	beyond := []string{"affinity.podAffinity"}
	for path := range open {
		if strings.HasPrefix(path, "controller.env[") || strings.HasSuffix(path, "/*]") || slices.ContainsFunc(beyond, func(of string) bool { return strings.HasPrefix(path, of) }) {
			continue
		}
		parent := path
		for !seen[parent] && strings.Contains(parent, ".") {
			parent = parent[:strings.LastIndex(parent, ".")]
		}
		whole := seen[parent] || slices.ContainsFunc(slices.Collect(maps.Keys(seen)), func(s string) bool { return strings.HasPrefix(s, path+".") || strings.HasPrefix(s, path+"[") })
		if !whole {
			t.Errorf("%s is open, and no chart has it", path)
		}
	}
}
