package iam

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestJudgeUpgrade judges only what the later version adds: the policies of eksctl lack more than that.
func TestJudgeUpgrade(t *testing.T) {
	controller := func(version string) []Document {
		policies, err := Controller(version, prod())
		if err != nil {
			t.Fatal(err)
		}
		var documents []Document
		for _, p := range policies {
			documents = append(documents, p.Document)
		}
		return documents
	}
	for name, c := range map[string]struct {
		policies []Document
		from, to string
		want     []string
	}{
		"nothing is new":        {controller("1.12.0"), "1.12.0", "1.14.3", nil},
		"it has everything":     {controller("1.14.3"), "1.9.0", "1.14.3", nil},
		"of an earlier version": {controller("1.9.0"), "1.9.0", "1.14.3", []string{"Missing ec2:CreateFleet ec2:RunInstances: LaunchWith, for placement groups", "Missing ec2:DescribeInstanceStatus: ReadEC2", "Missing ec2:DescribePlacementGroups: ReadEC2, for placement groups", "Missing arc-zonal-shift:GetManagedResource: ReadZonalShift, for settings.enableZonalShift"}},
		"eksctl's": {[]Document{parsed(t, eksctl)}, "1.9.0", "1.12.0", []string{
			"Missing ec2:DescribeInstanceStatus: ReadEC2", "Missing ec2:DescribePlacementGroups: ReadEC2, for placement groups",
			"Missing arc-zonal-shift:GetManagedResource: ReadZonalShift, for settings.enableZonalShift",
		}},
		"something that is not evaluated": {[]Document{parsed(t, `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "ec2:DescribeInstanceStatus", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}}`)}, "1.11.0", "1.12.0", []string{
			"Missing arc-zonal-shift:GetManagedResource: ReadZonalShift, for settings.enableZonalShift", "Unknown ec2:DescribeInstanceStatus: not evaluated: ",
		}},
		"from before 1.0": {controller("1.0.8"), "0.37.9", "1.0.8", nil},
	} {
		t.Run(name, func(t *testing.T) {
			findings, err := JudgeUpgrade(c.policies, c.from, c.to, prod())
			if err != nil {
				t.Fatal(err)
			}
			got := lines(findings)
			for i, line := range got {
				if before, _, found := strings.Cut(line, "not evaluated: "); found {
					got[i] = before + "not evaluated: "
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNeededByValues: what a value of the chart switches off is missing without harm.
func TestNeededByValues(t *testing.T) {
	findings, err := JudgeUpgrade(nil, "1.5.0", "1.15.0", prod())
	if err != nil {
		t.Fatal(err)
	}
	settings := func(values map[string]any) map[string]any { return map[string]any{"settings": values} }
	for name, c := range map[string]struct {
		values map[string]any
		want   []string
	}{
		"defaults":        {nil, []string{"ec2:DescribeCapacityReservations", "ec2:DescribeInstanceStatus", "iam:ListInstanceProfiles"}},
		"no reservations": {settings(map[string]any{"featureGates": map[string]any{"reservedCapacity": false}}), []string{"ec2:DescribeInstanceStatus", "iam:ListInstanceProfiles"}},
		"zonal shift, and reboots": {settings(map[string]any{"enableZonalShift": true, "awsFeatureGates": map[string]any{"rebootForRepair": true}}), []string{
			"arc-zonal-shift:GetManagedResource", "ec2:DescribeCapacityReservations", "ec2:DescribeInstanceStatus", "ec2:RebootInstances", "iam:ListInstanceProfiles",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			needed := slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return !f.Needed(c.values) })
			if diff := cmp.Diff(c.want, actionsOf(needed)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMissingError contains the statement to add.
func TestMissingError(t *testing.T) {
	add := Statement{Sid: "ReadEC2", Effect: Allow, Action: Values{"ec2:DescribeInstanceStatus"}, Resource: Values{"*"}}
	err := &MissingError{Version: "1.12.0", Role: "arn:aws:iam::111122223333:role/k", Findings: []Finding{{Kind: Missing, Actions: add.Action, Add: &add}}}
	const want = `karpenter 1.12.0 needs ec2:DescribeInstanceStatus, which role arn:aws:iam::111122223333:role/k does not allow: add to its policy {"Sid":"ReadEC2","Effect":"Allow","Action":"ec2:DescribeInstanceStatus","Resource":"*"}`
	if err.Error() != want {
		t.Error(err)
	}
}
