package soak

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// cluster returns the cluster that a fleet's own files create, after a change.
func cluster(t *testing.T, f fleet, change func(pool, class *unstructured.Unstructured)) fleet {
	t.Helper()
	files := f.files(place{})
	var pool, class unstructured.Unstructured
	for file, object := range map[string]*unstructured.Unstructured{"nodes/a.yaml": &pool, "nodes/class-x.yaml": &class} {
		if err := yaml.Unmarshal([]byte(files[file]), &object.Object); err != nil {
			t.Fatal(err)
		}
	}
	change(&pool, &class)
	var pools, classes []unstructured.Unstructured
	if pool.GetName() != "" {
		pools = append(pools, pool)
	}
	if class.GetName() != "" {
		classes = append(classes, class)
	}
	return fleetOf(pools, classes)
}

// TestDifference checks that what a fleet writes is what it is compared with.
func TestDifference(t *testing.T) {
	f := fleet{pools: map[string]pool{"a": {class: "x", cpu: 70, weight: 3}}, classes: map[string]class{"x": {team: "red"}}}
	later := fleet{pools: map[string]pool{"a": {class: "x", cpu: 70, weight: 4}, "b": {}}, classes: map[string]class{"x": {team: "blue"}}}
	set := func(value any, field string) func(pool, class *unstructured.Unstructured) {
		return func(pool, _ *unstructured.Unstructured) { pool.Object["spec"].(map[string]any)[field] = value }
	}
	for name, test := range map[string]struct {
		change func(pool, class *unstructured.Unstructured)
		edited map[string]int
		said   []fleet
		want   string
	}{
		"as Git says":                  {func(_, _ *unstructured.Unstructured) {}, nil, []fleet{f}, ""},
		"another weight":               {set(int64(4), "weight"), nil, []fleet{f}, "pool a"},
		"the weight of a later commit": {set(int64(4), "weight"), nil, []fleet{f, later}, ""},
		"the weight of an edit":        {set(int64(5), "weight"), map[string]int{"a": 5}, []fleet{f}, ""},
		"another than the edit's":      {set(int64(6), "weight"), map[string]int{"a": 5}, []fleet{f}, "pool a"},
		"the edit of another pool":     {set(int64(5), "weight"), map[string]int{"b": 5}, []fleet{f}, "pool a"},
		"growth stopped":               {set(map[string]any{"cpu": "0"}, "limits"), nil, []fleet{f, later}, "pool a"},
		"a pool on its way out":        {func(pool, _ *unstructured.Unstructured) { now := metav1.Now(); pool.SetDeletionTimestamp(&now) }, nil, []fleet{f}, "pool a"},
		"another tag": {func(_, class *unstructured.Unstructured) {
			class.Object["spec"].(map[string]any)["tags"] = map[string]any{"team": "green"}
		}, nil, []fleet{f, later}, "class x"},
		"a pool that nobody has":         {func(pool, _ *unstructured.Unstructured) { pool.SetName("c") }, nil, []fleet{f, later}, "pool"},
		"a pool that is not there":       {func(pool, _ *unstructured.Unstructured) { pool.SetName("") }, nil, []fleet{f, later}, "pool a"},
		"a class that is not there":      {func(_, class *unstructured.Unstructured) { class.SetName("") }, nil, []fleet{f, later}, "class x"},
		"a pool that a later commit has": {func(_, _ *unstructured.Unstructured) {}, nil, []fleet{f, later}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := difference(cluster(t, f, test.change), test.edited, test.said...)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
