package brake_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestWhatEndsBeforeItsReplacement: who reads that a rollout was stopped reads, too, which nodes of the
// pool may be lost all the same. Karpenter's feature gate is asked for only where there may be some.
func TestWhatEndsBeforeItsReplacement(t *testing.T) {
	static := strings.Replace(poolYAML, "spec:\n", "spec:\n  replicas: 2\n", 1)
	of := func(capacity string) []plan.NodeClaim {
		return []plan.NodeClaim{
			{Name: "1", Pool: "general", Labels: plan.PackLabels(map[string]string{karpv1.CapacityTypeLabelKey: capacity})},
			{Name: "2", Pool: "batch", Labels: plan.PackLabels(map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeReserved})},
		}
	}
	for name, c := range map[string]struct {
		pool   string
		claims []plan.NodeClaim
		on     bool
		err    error
		want   string
		asked  int
	}{
		"none":            {pool: poolYAML, claims: of(karpv1.CapacityTypeOnDemand), on: true, want: "removals go on"},
		"reserved":        {pool: poolYAML, claims: of(karpv1.CapacityTypeReserved), on: true, want: "removals go on; with Karpenter's feature gate TerminateFirstDrift a node of a full capacity reservation ends before its replacement is launched, and one that has ended is not given back", asked: 1},
		"the gate is off": {pool: poolYAML, claims: of(karpv1.CapacityTypeReserved), want: "removals go on", asked: 1},
		"static":          {pool: static, on: true, want: "removals go on; with Karpenter's feature gate TerminateFirstDrift a node of a static pool at its limit ends before its replacement is launched, and one that has ended is not given back", asked: 1},
		"not known":       {pool: static, err: errors.New("no answer"), want: "removals go on; whether Karpenter ends a node of a static pool at its limit before its replacement is launched is not known: no answer", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			asked := 0
			w.claims, w.gate = c.claims, func(_ context.Context, gate string) (bool, error) {
				asked++
				return c.on && gate == "TerminateFirstDrift", c.err
			}
			w.commit(classYAML, c.pool)
			w.failThree()
			s := w.pass(true)
			w.pass(true)
			if got := s.Notes[0].Message; !strings.HasSuffix(got, c.want) {
				t.Errorf("it says %q", got)
			}
			if asked != c.asked {
				t.Errorf("the gate is asked for %d times", asked)
			}
		})
	}
}
