package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// TestPace replaces 1,000 NodeClaims with Karpenter's real controller: from a tenth of the rollout on, the estimate of
// the whole is within a factor of two. PLUMBLINE_PACED is another number of them.
func TestPace(t *testing.T) {
	if full, _ := os.LookupEnv("PLUMBLINE_FULL"); full != "1" {
		t.Skip("takes half an hour: told with PLUMBLINE_FULL=1")
	}
	nodes := 1000
	if other, ok := os.LookupEnv("PLUMBLINE_PACED"); ok {
		var err error
		if nodes, err = strconv.Atoi(other); err != nil {
			t.Fatal(err)
		}
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	table, err := Run(t.Context(), Options{
		Root: root, Objects: 2, Repeat: 1, Scenes: []string{paceScene}, Nodes: nodes, Progress: &binaries.Progress{Out: t.Output()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(table.Paced.line())
	if !table.Paced.Met() {
		t.Errorf("the estimates differ from the pace: %+v", *table.Paced)
	}
}

func TestOnlyEstimatesFromATenthOn(t *testing.T) {
	since := time.Unix(1000, 0)
	at := func(share float64, whole time.Duration, atLeast bool) estimated {
		e := estimated{share: share, since: since, atLeast: atLeast, limitedBy: "Karpenter"}
		if whole > 0 {
			e.ends = since.Add(whole)
		}
		return e
	}
	var p Paced
	for _, e := range []estimated{
		{},
		at(0.05, time.Minute, true), at(0.1, 50*time.Minute, false), at(0.12, 40*time.Minute, false), at(0.15, time.Hour, true),
		at(0.16, 0, false), at(0.2, 60*time.Minute, false), at(0.3, 10*time.Hour, false),
	} {
		p.add(e)
	}
	want := Paced{Estimates: 3, Missing: 2, Least: 40 * time.Minute, Most: time.Hour, LimitedBy: "Karpenter"}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPaceIsMetWithinAFactorOfTwo(t *testing.T) {
	whole := wholeBy(20*time.Minute, 10*time.Minute)
	if whole != time.Hour {
		t.Fatalf("the whole takes %s", whole)
	}
	for name, test := range map[string]struct {
		paced Paced
		met   bool
	}{
		"within":            {Paced{Estimates: 2, Least: 30 * time.Minute, Most: 2 * time.Hour, Whole: whole}, true},
		"too short":         {Paced{Estimates: 2, Least: 29 * time.Minute, Most: time.Hour, Whole: whole}, false},
		"too long":          {Paced{Estimates: 2, Least: time.Hour, Most: 121 * time.Minute, Whole: whole}, false},
		"once without one":  {Paced{Estimates: 2, Missing: 1, Least: time.Hour, Most: time.Hour, Whole: whole}, false},
		"never with one":    {Paced{Whole: whole}, false},
		"an unknown length": {Paced{Estimates: 2, Least: time.Hour, Most: time.Hour}, false},
	} {
		if met := test.paced.Met(); met != test.met {
			t.Errorf("%s: %t", name, met)
		}
	}
}
