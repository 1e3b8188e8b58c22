package allowance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGatesThatTerminateNodes: a feature gate by which Karpenter terminates more nodes needs the NodeSync, however a commit turns it
// on; to turn it off needs nothing, and neither do the other gates.
func TestGatesThatTerminateNodes(t *testing.T) {
	for gate, isClosed := range map[string]bool{
		"NodeRepair": true, "SpotToSpotConsolidation": true, "TerminateFirstDrift": true, "TerminateFirstRepair": true,
		"StaticCapacity": false, "NodeOverlay": false, "ReservedCapacity": false,
	} {
		path := "settings.featureGates." + strings.ToLower(gate[:1]) + gate[1:]
		value := fmt.Sprintf("settings: {featureGates: {%s: %%s}}", strings.ToLower(gate[:1])+gate[1:])
		variable := fmt.Sprintf("controller: {env: [{name: FEATURE_GATES, value: \"StaticCapacity=true,%s=%%s\"}]}", gate)
		for text, on := range map[string]bool{
			fmt.Sprintf(value, "true"): true, fmt.Sprintf(value, `"true"`): true, fmt.Sprintf(variable, "true"): true,
			fmt.Sprintf(value, "false"): false, fmt.Sprintf(value, "null"): false, fmt.Sprintf(variable, "false"): false,
		} {
			var got, want []string
			for _, r := range (Allowance{}).CheckValues(read(t, text)) {
				got = append(got, r.Field+" "+r.Entry)
			}
			if on && isClosed {
				want = []string{fieldValues + " " + path}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", text, diff)
			}
			if found := (Allowance{Values: []string{path}}).CheckValues(read(t, text)); len(found) > 0 {
				t.Errorf("%s, which the NodeSync allows: %v", text, found)
			}
		}
	}
}

// TestGatesThatAChartInGitTurnsOn: its own values and templates need the same as values of a commit.
func TestGatesThatAChartInGitTurnsOn(t *testing.T) {
	const path = "settings.featureGates.spotToSpotConsolidation"
	objects := realChart(t, map[string]any{"settings": map[string]any{"featureGates": map[string]any{"spotToSpotConsolidation": true}}})
	for name, c := range map[string]struct {
		inGit   bool
		allowed []string
		refused bool
	}{
		"in Git": {inGit: true, refused: true}, "allowed": {inGit: true, allowed: []string{path}}, "released, by a value that was checked": {},
	} {
		rendered := Rendered{Namespace: "kube-system", Version: "1.14.1", InGit: c.inGit, Objects: objects}
		found := (Allowance{Values: c.allowed}).CheckObjects(rendered)
		if refused := len(found) == 1 && found[0].Entry == path; refused != c.refused || len(found) > 1 {
			t.Errorf("%s: %v", name, found)
		}
	}
}
