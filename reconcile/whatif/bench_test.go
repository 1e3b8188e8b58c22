package whatif_test

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/whatif"
)

// BenchmarkSimulate is a commit that replaces a tenth of 10,000 nodes with 50,000 pods, in 100
// pools, where EC2 offers 200 instance types.
func BenchmarkSimulate(b *testing.B) {
	t := &testing.T{}
	definitions := []map[string]any{classNamed(t, "default")}
	for i := range 100 {
		definitions = append(definitions, poolNamed(t, fmt.Sprintf("p%d", i), "", any64))
	}
	c, touched := fleet(definitions...), []types.UID(nil)
	for i := range 10_000 {
		uid := node(c, fmt.Sprintf("p%d", i%100), fmt.Sprintf("n%d", i), "300m", "300m", "300m", "300m", "300m")
		if i%10 == 0 {
			touched = append(touched, uid)
		}
	}
	var described []string
	for i := range 200 {
		described = append(described, fmt.Sprintf("x%d.large %d %d", i, 2<<(i%6), 8<<(i%6)))
	}
	catalog := catalogOf(t, described...)
	b.ReportAllocs()
	for b.Loop() {
		o, err := offers.New(b.Context(), catalog, offers.Defaults())
		if err != nil {
			b.Fatal(err)
		}
		out, err := whatif.Simulate(b.Context(), c, commitOf(definitions, touched), o)
		if err != nil || out.Leaving != 5*len(touched) {
			b.Fatalf("%v, %+v", err, out)
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapSys)/(1<<20), "MiB-heap")
		b.ReportMetric(float64(len(out.Moves)), "moves")
		b.ReportMetric(float64(len(out.Nowhere)), "nowhere")
	}
}
