package simulate_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/internal/usage"
	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
)

var (
	largeClaims = flag.Int("claims", 10_000, "number of NodeClaims of a large cluster, with five pods each")
	largeWhole  = flag.Bool("whole", false, "whether Karpenter's own simulation gets all nodes and instance types")
	largeInto   = flag.String("into", "", "folder into which TestWriteLarge writes snapshot.json.gz, and the repository in fleet")
)

// BenchmarkSimulate simulates a commit that replaces a tenth of the nodes of a large cluster. BenchmarkKarpenter is the
// part of it that is one call of Karpenter's own simulation; with -whole, that call with all nodes and instance types.
func BenchmarkSimulate(b *testing.B) {
	l := newLarge(b, *largeClaims)
	o, err := offers.New(b.Context(), l.capture.Catalog, offers.Defaults())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		out, err := simulate.Run(b.Context(), l.capture, l.commit, o)
		if err != nil || out.Leaving != podsPerNode*len(l.commit.Touched) || len(out.Nowhere) > 0 || len(out.New) == 0 {
			b.Fatalf("%v, %+v", err, out)
		}
	}
}

func BenchmarkKarpenter(b *testing.B) {
	l := newLarge(b, *largeClaims)
	o, err := offers.New(b.Context(), l.capture.Catalog, offers.Defaults())
	if err != nil {
		b.Fatal(err)
	}
	var cpu time.Duration
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		simulate, err := simulate.Karpenter(b.Context(), l.capture, l.commit, o, *largeWhole)
		if err != nil {
			b.Fatal(err)
		}
		began := usage.CPU()
		b.StartTimer()
		pods, err := simulate()
		b.StopTimer()
		cpu += usage.CPU() - began
		b.StartTimer()
		if err != nil || pods != podsPerNode*len(l.commit.Touched) {
			b.Fatalf("%d pods, %v", pods, err)
		}
	}
	b.ReportMetric(float64(cpu)/float64(b.N), "CPU-ns")
}

// TestWriteLarge writes a large cluster for `plumbline plan --what-if`, if a folder is given.
func TestWriteLarge(t *testing.T) {
	into := *largeInto
	if into == "" {
		into = t.TempDir()
		*largeClaims = 100
	}
	l := newLarge(t, *largeClaims)
	file, err := os.Create(filepath.Join(into, "snapshot.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.capture.Encode(file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range l.files {
		path := filepath.Join(into, "fleet", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
