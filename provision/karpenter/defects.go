package karpenter

import (
	"fmt"

	"github.com/Masterminds/semver/v3"
)

// Defect is a known defect of some versions that leaves nodes, or launches none, until a person acts.
type Defect struct {
	// Since is the first version that has it, and Fixed the first later one that does not.
	Since string `json:"since"`
	Fixed string `json:"fixed"`
	// Static reports whether it only concerns clusters with static NodePools (spec.replicas).
	Static bool `json:"static,omitempty"`
	// What happens.
	What string `json:"what"`
	// Source is upstream's issue.
	Source string `json:"source"`
}

// String describes the defect, and which version fixes it.
func (d Defect) String() string {
	return fmt.Sprintf("%s (https://github.com/%s); fixed in %s", d.What, d.Source, d.Fixed)
}

// defects are the known ones, by their first version. The fix of the one with static NodePools is
// pkg/controllers/state/nodeclaimgc in the core of 1.14.3.
var defects = []Defect{
	{
		Since: "1.13.0", Fixed: "1.14.1", Source: "aws/karpenter-provider-aws/issues/9479",
		What: "if an instance is not terminated by Karpenter, such as a Spot instance that AWS reclaims, its Node may stay " +
			"for an hour or longer, and DaemonSets create pods on it that never start",
	},
	{
		Since: "1.14.0", Fixed: "1.14.3", Static: true, Source: "kubernetes-sigs/karpenter/issues/3176",
		What: "if a launch of a static NodePool finds no capacity, the controller may wait for its NodeClaim for ever: " +
			"it then launches and replaces no node of any NodePool until it is restarted",
	},
}

// Defects returns the known defects of a version; those of static NodePools only if static. It returns none for a fork
// (IsFork), which may have fixed them. Errors: *VersionError.
func Defects(version string, static bool) ([]Defect, error) {
	v, err := parse(version)
	if err != nil || isFork(v) {
		return nil, err
	}
	var found []Defect
	for _, d := range defects {
		if !v.LessThan(semver.MustParse(d.Since)) && v.LessThan(semver.MustParse(d.Fixed)) && (static || !d.Static) {
			found = append(found, d)
		}
	}
	return found, nil
}
