package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMiddle(t *testing.T) {
	got := middle([]Row{
		{Wall: 3, CPU: 1, Fetch: 9, Writes: 1},
		{Wall: 1, CPU: 5, Fetch: 8, Writes: 2, Events: 1},
		{Wall: 2, CPU: 2, Fetch: 7, Writes: 1, Lists: 4},
	})
	want := Row{Wall: 2, CPU: 2, Fetch: 8, Writes: 2, Events: 1, Lists: 4}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("middle (-want +got):\n%s", diff)
	}
}

func TestTableSaysWhichBarsAreMet(t *testing.T) {
	one := &Row{Work: "1 changed", Wall: time.Second, CPU: time.Second, Late: 3 * time.Second, Limit: 2 * time.Second, CPULimit: time.Second / 2, Fetches: 1, FetchLimit: 1}
	table := &Table{Objects: 400, Rows: []*Row{one}, Peers: []*Peer{
		{Name: ownName, Rows: map[work]Row{oneChanged: {Wall: time.Second}, poolsRemoved: {Wall: time.Second, Told: 2 * time.Second}}},
		{Name: "flux", Rows: map[work]Row{oneChanged: {Wall: 9 * time.Second}, poolsRemoved: {Wall: 8 * time.Second}}},
		{Name: "argo", Rows: map[work]Row{oneChanged: {Wall: 7 * time.Second}}},
		{Name: "other", Skipped: "it is not available here"},
	}}
	var out strings.Builder
	if err := table.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1.000 s ≤ 2.000 s met", "3.000 s ≤ 2.000 s MISSED", "1.000 s ≤ 0.500 s MISSED", "1 ≤ 1 met", "9.0×         ≥ 10× MISSED", "7.0×         ≥ 6× met", "4.0×",
		"other was not measured: it is not available here",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}
