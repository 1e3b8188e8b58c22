package bench

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// TestApart runs the scenes without a cluster with a small fleet: their counts are exact, or an error, and every figure
// exists.
func TestApart(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	table, err := Run(t.Context(), Options{Root: root, Objects: 2, Repeat: 1, Fleet: 200, Scenes: []string{"plan", "what-if"}, Progress: &binaries.Progress{Out: t.Output()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Print(t.Output()); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range table.Plans {
		names = append(names, p.Name)
		if p.Wall <= 0 || p.CPU <= 0 || p.Peak <= 0 || p.Ratio <= 0 {
			t.Errorf("not measured: %+v", p)
		}
	}
	if diff := cmp.Diff([]string{"first", "again", "policies"}, names); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
	if w := table.WhatIf; w.Ending != 20 || w.Leaving != 100 || w.Wall <= 0 || w.CPU <= 0 || w.Peak <= 0 || w.Own <= 0 || w.OwnCPU <= 0 {
		t.Errorf("not measured: %+v", w)
	}
}

func TestBenchmarks(t *testing.T) {
	const out = "goos: linux\nBenchmarkFleet/first-2 \t 1\t 37995494 ns/op\t 149254144 B-peak\t 5.5 decode/plan\nBenchmarkFleet/again \t 3\t 1 ns/op\nPASS\n"
	want := map[string]map[string]float64{
		"BenchmarkFleet/first": {"ns/op": 37995494, "B-peak": 149254144, "decode/plan": 5.5},
		"BenchmarkFleet/again": {"ns/op": 1},
	}
	if diff := cmp.Diff(want, benchmarks(out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAWhatIfOfLessIsAnError: a figure is for the whole fleet, or missing.
func TestAWhatIfOfLessIsAnError(t *testing.T) {
	const whole = `{"whatIf":{"nodesEnding":20,"podsLeaving":100,"newNodes":[{}]}}`
	for out, ok := range map[string]bool{
		whole:                             true,
		`{}`:                              false,
		`{"whatIf":{"unavailable":"no"}}`: false,
		`{"whatIf":{"nodesEnding":19,"podsLeaving":95,"newNodes":[{}]}}`:                 false,
		`{"whatIf":{"nodesEnding":20,"podsLeaving":99,"newNodes":[{}]}}`:                 false,
		`{"whatIf":{"nodesEnding":20,"podsLeaving":100}}`:                                false,
		`{"whatIf":{"nodesEnding":20,"podsLeaving":100,"newNodes":[{}],"nowhere":[{}]}}`: false,
	} {
		if err := (&WhatIf{Claims: 200}).read([]byte(out)); (err == nil) != ok {
			t.Errorf("%s: %v", out, err)
		}
	}
}
