package karpenter

// Permission is one action that the controller's role has to allow.
type Permission struct {
	Action string `json:"action"`
	// Since is the first version of Karpenter that asks for it.
	Since string `json:"since"`
	// For says what needs it; empty where every installation does.
	For string `json:"for,omitempty"`
}

// String is the action, and what needs it.
func (p Permission) String() string {
	if p.For == "" {
		return p.Action
	}
	return p.Action + " (" + p.For + ")"
}

// permissions are the actions by the version that first asks for them, from the
// policies in KPA website/content/en/preview/getting-started/
// getting-started-with-karpenter/cloudformation.yaml of each tag, and the notes of
// upgrade-guide.md at 1.14.1.
var permissions = permissionRows(
	Permission{"ec2:CreateTags", "0.33.0", "on spot-instances-request"},
	// v1-migration.md, step 8: the policy is scoped by the new tag.
	Permission{"ec2:RunInstances", "1.0.0", "conditioned on the tag eks:eks-cluster-name, as ec2:CreateFleet and ec2:CreateLaunchTemplate are"},
	// In the policy from 1.3 on; asked for by default from 1.6 on, when the feature
	// gate reservedCapacity was turned on.
	Permission{"ec2:DescribeCapacityReservations", "1.6.0", "featureGates.reservedCapacity, on by default"},
	Permission{"iam:ListInstanceProfiles", "1.7.0", ""},
	Permission{"ec2:DescribePlacementGroups", "1.11.0", "placement groups"},
	Permission{"ec2:DescribeInstanceStatus", "1.12.0", ""},
	Permission{"arc-zonal-shift:GetManagedResource", "1.12.0", "settings.enableZonalShift"},
)

// permissionRows makes the table: each Permission says since when it holds.
func permissionRows(all ...Permission) []row[Permission] {
	rows := make([]row[Permission], 0, len(all))
	for _, p := range all {
		rows = append(rows, row[Permission]{since: p.Since, is: p})
	}
	return rows
}

// Permissions returns what an upgrade adds to the needs of the controller's role.
// Errors: *VersionError.
func Permissions(from, to string) ([]Permission, error) {
	a, b, err := parsePair(from, to)
	if err != nil {
		return nil, err
	}
	var found []Permission
	for _, r := range between(permissions, a, b) {
		found = append(found, r.is)
	}
	return found, nil
}
