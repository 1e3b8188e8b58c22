package release

import (
	"slices"
	"testing"

	"github.com/go-logr/logr"

	"github.com/plumbline-dev/plumbline/provision/charts/chartstest"
	"github.com/plumbline-dev/plumbline/provision/charts/survey"
)

// TestReplicasAreLeftToWhoeverScales: a repair and an upgrade keep them, unless Git sets another number.
func TestReplicasAreLeftToWhoeverScales(t *testing.T) {
	cases := map[string]struct {
		change func(*bed)
		want   float64
	}{
		"a repair":         {func(b *bed) { field(b.api.objects[deploymentPath], "spec")["minReadySeconds"] = 7 }, 5},
		"other values":     {func(b *bed) { b.want.Values = map[string]any{"settings": map[string]any{"batchIdleDuration": "2s"}} }, 5},
		"the same, in Git": {func(b *bed) { b.want.Values = map[string]any{"replicas": 2} }, 5},
		"another version": {func(b *bed) {
			b.charts = stored(b.T, "1.15.0", chartstest.CRDs(b.T, "1.15.0"), chartstest.Controller(b.T, "1.15.0"))
		}, 5},
		"another number":    {func(b *bed) { b.want.Values = map[string]any{"replicas": 3} }, 3},
		"it was never made": {func(b *bed) { delete(b.api.objects, deploymentPath) }, 2},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.both()
			field(b.api.objects[deploymentPath], "spec")["replicas"] = float64(5)
			c.change(b)
			result, err := b.controller()
			if err != nil || !result.Changed {
				t.Fatalf("ensure = %+v, %v", result, err)
			}
			if got := field(b.api.objects[deploymentPath], "spec")["replicas"]; got != c.want {
				t.Errorf("%v replicas, want %v", got, c.want)
			}
		})
	}
}

// TestWhatIsIgnoredIsNeitherComparedNorWritten: ignored fields are no drift, and stay.
func TestWhatIsIgnoredIsNeitherComparedNorWritten(t *testing.T) {
	b := newBed(t)
	b.both()
	b.want.Ignored = []survey.Ignore{{Kind: "Deployment", JSONPointers: []string{"/spec/minReadySeconds"}}}
	spec := func() map[string]any { return field(b.api.objects[deploymentPath], "spec") }
	spec()["minReadySeconds"] = float64(7)
	if result, err := b.controller(); err != nil || result.Step != Keep {
		t.Fatalf("ensure = %+v, %v; want nothing done", result, err)
	}
	b.want.Values = map[string]any{"replicas": 3}
	if result, err := b.controller(); err != nil || result.Step != Upgrade {
		t.Fatalf("ensure = %+v, %v", result, err)
	}
	if spec()["minReadySeconds"] != float64(7) || spec()["replicas"] != float64(3) {
		t.Errorf("afterwards it is %v", spec())
	}
	b.want.Ignored = nil
	if result, err := b.controller(); err != nil || result.Step != Repair || spec()["minReadySeconds"] != float64(3) {
		t.Errorf("ignored no more: %+v, %v; it is %v", result, err, spec())
	}
}

// TestTheClustersAPIsAreInOrder: Helm lists them in any order. A chart that exceeded the limits of a child process is
// recognised by the whole request, which contains them.
func TestTheClustersAPIsAreInOrder(t *testing.T) {
	helm, err := newHelm(newFakeAPIServer(t).config(), "kube-system", logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := helm.capabilities()
	if err != nil {
		t.Fatal(err)
	}
	if len(cluster.APIs) < 7 || !slices.IsSorted(cluster.APIs) {
		t.Errorf("the cluster's APIs are %q, want them all, in order", cluster.APIs)
	}
}
