package plan

import (
	"strings"
	"testing"
)

// TestEachReasonIsJudged goes by Karpenter's reasons: one that nobody judges is said to be unknown,
// and counted as none of the others.
func TestEachReasonIsJudged(t *testing.T) {
	known := map[string]bool{"TenancyDrift": false}
	for _, field := range resolvedFields() {
		known[field.reason] = true
	}
	for reason, judged := range known {
		v := (&Answer{}).judge(reason)(&NodeClaim{})
		if unknown := strings.Contains(v.why, "does not support"); unknown == judged || v.drifts {
			t.Errorf("%s: drifts %v, why %q", reason, v.drifts, v.why)
		}
	}
}
