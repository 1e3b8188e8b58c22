package soak

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/tests/sandbox/kube"
)

func TestForbidden(t *testing.T) {
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	h := &history{}
	h.push("1", fleet{pools: map[string]pool{"a": {}, "b-c": {}, "gone": {}}, classes: map[string]class{"x": {}}}, now.Add(-time.Hour), now.Add(-time.Hour))
	h.push("2", fleet{pools: map[string]pool{"a": {}, "b-c": {}}, classes: map[string]class{"x": {}}}, now.Add(-30*time.Second), now.Add(-30*time.Second))
	for name, test := range map[string]struct {
		resource, name string
		want           string
	}{
		"a pool that Git has":           {nodePools, "a", "each HEAD"},
		"a pool that has left":          {nodePools, "gone", ""},
		"a NodeClaim of a pool Git has": {nodeClaims, "b-c-x7k2p", "each HEAD"},
		"a NodeClaim of one that left":  {nodeClaims, "gone-x7k2p", ""},
		"a class that Git has":          {nodeClasses, "x", "each HEAD"},
		"a class that Git never had":    {nodeClasses, "y", ""},
		"a CRD":                         {"customresourcedefinitions", "nodepools.karpenter.sh", "never"},
		"Karpenter's Deployment":        {"deployments", "karpenter", "never"},
	} {
		t.Run(name, func(t *testing.T) {
			got := forbidden(kube.Write{Resource: test.resource, Name: test.name, Time: now}, h)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestDifference holds that what a fleet writes is what it is compared with.
func TestDifference(t *testing.T) {
	f := fleet{pools: map[string]pool{"a": {class: "x", cpu: 70, weight: 3}}, classes: map[string]class{"x": {team: "red"}}}
	object := func(file string) unstructured.Unstructured {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(f.files(place{})[file]), &o.Object); err != nil {
			t.Fatal(err)
		}
		return o
	}
	for name, test := range map[string]struct {
		change func(pool, class *unstructured.Unstructured)
		fewer  bool
		want   string
	}{
		"as Git says":    {func(_, _ *unstructured.Unstructured) {}, false, ""},
		"another weight": {func(pool, _ *unstructured.Unstructured) { pool.Object["spec"].(map[string]any)["weight"] = int64(4) }, false, "pool a"},
		"another limit": {func(pool, _ *unstructured.Unstructured) {
			pool.Object["spec"].(map[string]any)["limits"] = map[string]any{"cpu": "0"}
		}, false, "pool a"},
		"another tag": {func(_, class *unstructured.Unstructured) {
			class.Object["spec"].(map[string]any)["tags"] = map[string]any{"team": "blue"}
		}, false, "class x"},
		"a pool too many": {func(pool, _ *unstructured.Unstructured) { pool.SetName("b") }, false, "pool"},
		"a class too few": {func(_, _ *unstructured.Unstructured) {}, true, "class x"},
	} {
		t.Run(name, func(t *testing.T) {
			pool, class := object("nodes/a.yaml"), object("nodes/class-x.yaml")
			test.change(&pool, &class)
			classes := []unstructured.Unstructured{class}
			if test.fewer {
				classes = nil
			}
			got := difference(f, []unstructured.Unstructured{pool}, classes)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestReadGoroutines(t *testing.T) {
	got, err := readGoroutines(strings.NewReader(`goroutine profile: total 9
7 @ 0x1 0x2
#	0x1	k8s.io/apimachinery/pkg/watch.(*StreamWatcher).receive+0x9b	/mod/streamwatcher.go:105

2 @ 0x3
#	0x3	main.main+0x1	/main.go:1
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample{goroutines: 9, watches: 7}, got, cmp.AllowUnexported(sample{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLeaks(t *testing.T) {
	var l leaks
	for _, s := range []sample{{goroutines: 100, watches: 9, memory: 80 << 20}, {goroutines: 120, watches: 9, memory: 120 << 20}} {
		if err := l.add(s); err != nil {
			t.Fatal(err)
		}
	}
	for name, s := range map[string]sample{
		"goroutines": {goroutines: 150, watches: 9}, "watches": {goroutines: 100, watches: 12}, "memory": {goroutines: 100, watches: 9, memory: 300 << 20},
	} {
		if l.add(s) == nil {
			t.Errorf("more %s than in the beginning are no leak", name)
		}
	}
}
