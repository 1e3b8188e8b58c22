package status

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestExcusedWorkloadsFitIntoAStatus shows that the workloads that do not count in the waves of many pools, each with the
// longest names, do not make a status too large for etcd, and that those of few pools are all kept.
func TestExcusedWorkloadsFitIntoAStatus(t *testing.T) {
	waving := func(pools int) *v1alpha1.NodeSyncStatus {
		s := &v1alpha1.NodeSyncStatus{}
		for i := range pools {
			w := &v1alpha1.RolloutWave{State: v1alpha1.WaveOpen, Message: strings.Repeat("m", 1<<20), Continued: &v1alpha1.ContinuedWave{Reason: strings.Repeat("r", 1<<20)}}
			for n := range 200 {
				w.Excused = append(w.Excused, fmt.Sprintf("Deployment %s/%0250d 5d4f", strings.Repeat("n", 63), n))
			}
			s.PoolRollouts = append(s.PoolRollouts, v1alpha1.PoolRollout{Pool: fmt.Sprintf("pool-%d", i), Wave: w})
		}
		return s
	}
	size := func(s *v1alpha1.NodeSyncStatus) int {
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return len(text)
	}
	one, many := waving(1), waving(60)
	bound(one)
	bound(many)
	if n := len(one.PoolRollouts[0].Wave.Excused); n != 200 {
		t.Errorf("one pool keeps %d workloads, want 200", n)
	}
	if n := size(many); n > 512<<10 || len(many.PoolRollouts[59].Wave.Excused) == 0 {
		t.Errorf("the status of 60 pools has %d bytes, and %d workloads in the last", n, len(many.PoolRollouts[59].Wave.Excused))
	}
	first := many.PoolRollouts[0].Wave.Excused[0]
	shorten(many)
	if n := size(many); n > 128<<10 || many.PoolRollouts[59].Wave.Excused[0] != first {
		t.Errorf("the shortened status has %d bytes, and begins with %q", n, many.PoolRollouts[59].Wave.Excused)
	}
}
