package removal

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// leavingPool returns a NodePool with disruption budgets, as Karpenter reads it.
func leavingPool(t *testing.T, budgets []any) *karpv1.NodePool {
	t.Helper()
	pool := &karpv1.NodePool{}
	object := map[string]any{"spec": map[string]any{"disruption": map[string]any{"budgets": budgets}}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, pool); err != nil {
		t.Fatal(err)
	}
	return pool
}

// TestPacedBudgets uses Karpenter's own code to check how many of 100 nodes it may disrupt.
func TestPacedBudgets(t *testing.T) {
	now := time.Date(2026, 12, 31, 23, 57, 30, 0, time.UTC)
	budget := func(nodes string, fields ...any) map[string]any {
		b := map[string]any{"nodes": nodes}
		for i := 0; i < len(fields); i += 2 {
			b[fields[i].(string)] = fields[i+1]
		}
		return b
	}
	office := []any{"schedule", "0 9 * * *", "duration", "8h"}
	for name, c := range map[string]struct {
		git              []any
		drifted, empty   int
		inOffice, closed int // drifted, and 1 if a budget of the pool is named
	}{
		"Karpenter's own default":        {[]any{budget("10%")}, 3, 10, 3, 0},
		"never":                          {[]any{budget("0")}, 3, 0, 3, 0},
		"no drift":                       {[]any{budget("0", "reasons", []any{"Drifted"}), budget("5")}, 3, 5, 3, 0},
		"a window":                       {[]any{budget("20%"), budget("0", office...)}, 3, 20, 0, 1},
		"a window for drift":             {[]any{budget("0", append(office, "reasons", []any{"Drifted"})...)}, 3, 100, 0, 1},
		"a window for emptiness":         {[]any{budget("0", append(office, "reasons", []any{"Empty"})...)}, 3, 100, 3, 0},
		"a window in which fewer may go": {[]any{budget("2", office...)}, 3, 100, 2, 0},
		"none":                           {[]any{}, 3, 100, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			until := now.Add(leaseDuration).Truncate(time.Minute)
			written := pacedBudgets(c.git, 3, until)
			pool := leavingPool(t, written)
			at := func(when time.Time, reason karpv1.DisruptionReason, want int) {
				t.Helper()
				got, err := pool.GetAllowedDisruptionsByReason(clocktesting.NewFakeClock(when), 100, reason)
				if got = min(got, 100); err != nil || got != want {
					t.Errorf("%s at %s: %d, error %v, want %d", reason, when, got, err, want)
				}
			}
			at(now, karpv1.DisruptionReasonDrifted, c.drifted)
			at(now, karpv1.DisruptionReasonEmpty, c.empty)
			at(until.Add(-time.Second), karpv1.DisruptionReasonDrifted, c.drifted)
			for _, later := range []time.Duration{0, time.Minute, 24 * time.Hour, 200 * 24 * time.Hour, 359 * 24 * time.Hour} {
				at(until.Add(later), karpv1.DisruptionReasonDrifted, 0)
			}
			noon := now.Add(12 * time.Hour)
			pool = leavingPool(t, pacedBudgets(c.git, 3, noon.Add(leaseDuration).Truncate(time.Minute)))
			at(noon, karpv1.DisruptionReasonDrifted, c.inOffice)
			if closed := closedBy(c.git, noon) != ""; closed != (c.closed == 1) || closedBy(c.git, now) != "" {
				t.Errorf("at noon %q, at night %q", closedBy(c.git, noon), closedBy(c.git, now))
			}
			pool = leavingPool(t, pacedBudgets(c.git, 0, time.Time{}))
			at(now, karpv1.DisruptionReasonDrifted, 0)
			at(now, karpv1.DisruptionReasonEmpty, c.empty)

			object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
				"disruption": map[string]any{"budgets": written},
				"template":   map[string]any{"metadata": map[string]any{"labels": map[string]any{"plumbline.dev/leaving": "x"}}},
			}}}
			if diff := cmp.Diff(&Replacing{Nodes: 3, Until: until}, replacingOf(object, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(kept(c.git), unpaced(written)); len(kept(c.git))+len(unpaced(written)) > 0 && diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestWhatKarpenterReplacedBefore checks that an earlier replacement is named while nothing else may be replaced, if
// its new node has not joined.
func TestWhatKarpenterReplacedBefore(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	replaced, bare, other := Claim{Name: "a", Node: "n1", Replacing: now}, Claim{Name: "b"}, Claim{Name: "c", Node: "n3"}
	for name, c := range map[string]struct {
		claims []Claim
		want   string
	}{
		"its replacement has not joined": {[]Claim{replaced, bare, other}, "paced: Karpenter is replacing node n1 and waits for NodeClaim/b to be initialized; it gives up after ten minutes or more"},
		"all have":                       {[]Claim{replaced, other}, "paced"},
		"another one ends":               {[]Claim{{Name: "a", Node: "n1", Deleting: now, Replacing: now}, bare, other}, "paced"},
	} {
		o := Observation{Turn: Turn{Most: 1, Replaces: true}, NodeClaims: c.claims}
		if got := (step{message: "paced"}).replaceNodes(v1alpha1.Removal{}, o, now); got.message != c.want || len(got.actions) > 0 {
			t.Errorf("%s: %q, %v", name, got.message, got.actions)
		}
	}
}
