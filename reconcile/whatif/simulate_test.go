package whatif_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/whatif"
)

const any64 = `[{key: kubernetes.io/arch, operator: In, values: [amd64]}]`

// TestPodsOfAPoolThatLeavesMoveToAnother has what stays take what fits, and a new node the rest.
func TestPodsOfAPoolThatLeavesMoveToAnother(t *testing.T) {
	a, b, class := poolNamed(t, "a", "", any64), poolNamed(t, "b", "", any64), classNamed(t, "default")
	c := fleet(a, b, class)
	leaving := node(c, "a", "leaving", "800m", "800m")
	node(c, "b", "staying", "1")
	out := simulate(t, c, []map[string]any{b, class}, []types.UID{leaving}, "m5.large 2 8", "m5.xlarge 4 16")
	want := []whatif.Move{{From: "a", To: "b", Pods: 1}, {From: "a", To: "b", New: true, Pods: 1}}
	if diff := cmp.Diff(want, out.Moves); diff != "" || len(out.Nowhere) > 0 || out.Ending != 1 || out.Leaving != 2 {
		t.Errorf("%+v\n%s", out, diff)
	}
	if len(out.New) != 1 || out.New[0].Pool != "b" || out.New[0].Types[0] != "m5.large" || len(out.New[0].Types) != 2 || len(out.New[0].Zones) != 2 {
		t.Errorf("new nodes: %+v", out.New)
	}
	// m5.large is 0.096 and m5.xlarge 0.192 in the library's table of us-east-1.
	if diff := cmp.Diff(whatif.Cost{Before: 0.192, Lowest: 0.192, Highest: 0.288}, out.Cost, close); diff != "" {
		t.Error(diff)
	}
}

// TestPodsWithNowhereToGoAreNamed has Karpenter's reason.
func TestPodsWithNowhereToGoAreNamed(t *testing.T) {
	a, class := poolNamed(t, "a", "", any64), classNamed(t, "default")
	arm := poolNamed(t, "arm", "", `[{key: kubernetes.io/arch, operator: In, values: [arm64]}]`)
	c := fleet(a, arm, class)
	leaving := node(c, "a", "leaving", "1")
	out := simulate(t, c, []map[string]any{arm, class}, []types.UID{leaving}, "m5.large 2 8")
	if len(out.Nowhere) != 1 || out.Nowhere[0].Pod != "web/leaving-0" || out.Nowhere[0].Pool != "a" || out.Nowhere[0].Already || len(out.Moves) > 0 {
		t.Errorf("%+v", out)
	}
	if !strings.Contains(out.Nowhere[0].Reason, "filtered out all available instance types") {
		t.Errorf("reason: %s", out.Nowhere[0].Reason)
	}
}
