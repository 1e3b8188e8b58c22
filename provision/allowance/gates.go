package allowance

import "strings"

// featureGates is the variable by which the controller has its feature gates: Name=true,Name=false.
const featureGates = "FEATURE_GATES"

// closedGates are the values of the chart for the feature gates that a list turns on, and that a commit may not turn on.
func (a Allowance) closedGates(list string) []string {
	var found []string
	for gate := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(gate, "=")
		if name == "" || value != "true" {
			continue
		}
		path := "settings.featureGates." + strings.ToLower(name[:1]) + name[1:]
		if _, isClosed := closed[path]; isClosed && !a.allows(path) {
			found = append(found, path)
		}
	}
	return found
}
