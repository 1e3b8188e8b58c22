package bench_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/bench"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// TestCounts checks what does not depend on the machine: how often the daemon writes and reads, at a size small enough
// for every test run. Run itself fails if a row exceeds its counts.
func TestCounts(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	table, err := bench.Run(t.Context(), bench.Options{
		Root: root, Objects: 200, Repeat: 2, Scenes: []string{"changes", "removal", "rollout"}, Claims: 100, Progress: &binaries.Progress{Out: t.Output()},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"200 objects, first apply":                                200,
		"200 objects, 1 changed":                                  1,
		"200 objects, commit outside the inputs":                  0,
		"200 objects, an edit by hand corrected":                  1,
		"200 objects, restart to in-sync":                         0,
		"200 objects, restart to in-sync without its --cache-dir": 0,
		"200 objects, all changed":                                200,
		"200 objects, 18 pools without nodes removed":             36, // growth stopped, then the delete
		"100 NodeClaims drift, a commit is held":                  0,
		"100 NodeClaims are replaced":                             0,
	}
	got := map[string]int{}
	for _, row := range table.Rows {
		got[row.Work] = row.Writes
		if row.Wall <= 0 || row.CPU < 0 {
			t.Errorf("%s: nothing was measured: %+v", row.Work, row)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("object writes (-want +got):\n%s", diff)
	}
}
