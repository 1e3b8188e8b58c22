package soak

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestEveryKindOfTroubleIsDrawn: no kind is lost, and each can be drawn.
func TestEveryKindOfTroubleIsDrawn(t *testing.T) {
	want := strings.Fields(`
		break drop-pools force-push edit-by-hand
		kill stop freeze api-fault cut-watches no-controller
		git-fault status-fault chart-fault
		aws-fault aws-error ec2-answers zone-outage protect stop-instance eks-status`)
	weights := map[string]int{}
	for _, a := range actions() {
		weights[a.name] = a.weight
		if a.do == nil {
			t.Errorf("%s does nothing", a.name)
		}
	}
	for _, name := range want {
		if weights[name] <= 0 {
			t.Errorf("%s is not drawn", name)
		}
	}
	kinds := awsFaults()
	slices.Sort(kinds)
	if diff := cmp.Diff([]string{"delay", "deny", "expire", "loseResponse", "throttle"}, kinds); diff != "" {
		t.Errorf("faults of AWS (-want +got):\n%s", diff)
	}
}
