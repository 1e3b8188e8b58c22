package plan

import (
	"strings"
	"testing"
)

// TestEachReasonIsJudged: a drift reason of Karpenter that has no judge is reported as unknown, and not counted as
// another one.
func TestEachReasonIsJudged(t *testing.T) {
	known := map[string]bool{"TenancyDrift": false}
	for _, field := range resolvedFields() {
		known[field.reason] = true
	}
	for reason, judged := range known {
		v := (&Answer{}).driftCheck(reason)(&NodeClaim{})
		if unknown := strings.Contains(v.why, "does not support"); unknown == judged || v.drifts {
			t.Errorf("%s: drifts %v, why %q", reason, v.drifts, v.why)
		}
	}
}
