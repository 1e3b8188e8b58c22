package iam

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// eksctl is a policy of the shape that eksctl 0.230 writes: one statement, every resource, no condition.
const eksctl = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Resource": "*", "Action": [
	"ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:RunInstances", "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate",
	"ec2:DescribeAvailabilityZones", "ec2:DescribeInstances", "ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings",
	"ec2:DescribeLaunchTemplates", "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "iam:PassRole", "ssm:GetParameter"]}]}`

// blueprints is a policy of the shape that eks-blueprints-addons 1.24 writes: everything in the account, and termination
// if the cluster's tag has any value.
const blueprints = `{"Version": "2012-10-17", "Statement": [
	{"Effect": "Allow", "Resource": "*", "Action": ["ec2:DescribeAvailabilityZones", "ec2:DescribeImages", "ec2:DescribeInstances",
		"ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeLaunchTemplates", "ec2:DescribeSecurityGroups",
		"ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets", "pricing:GetProducts"]},
	{"Effect": "Allow", "Action": ["ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:DeleteLaunchTemplate", "ec2:RunInstances"],
		"Resource": ["arn:aws:ec2:eu-west-1:111122223333:*", "arn:aws:ec2:eu-west-1::image/*"]},
	{"Effect": "Allow", "Action": "iam:PassRole", "Resource": "arn:aws:iam::111122223333:role/karpenter-prod-2026"},
	{"Effect": "Allow", "Action": "ssm:GetParameter", "Resource": "arn:aws:ssm:eu-west-1::parameter/aws/service/*"},
	{"Effect": "Allow", "Action": "eks:DescribeCluster", "Resource": "arn:aws:eks:*:111122223333:cluster/prod"},
	{"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "arn:aws:ec2:eu-west-1:111122223333:instance/*",
		"Condition": {"StringLike": {"ec2:ResourceTag/kubernetes.io/cluster/prod": "*"}}},
	{"Effect": "Allow", "Resource": "arn:aws:sqs:eu-west-1:111122223333:karpenter-prod",
		"Action": ["sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:GetQueueUrl", "sqs:ReceiveMessage"]},
	{"Effect": "Allow", "Resource": "*", "Action": ["iam:AddRoleToInstanceProfile", "iam:CreateInstanceProfile", "iam:DeleteInstanceProfile",
		"iam:GetInstanceProfile", "iam:ListInstanceProfiles", "iam:RemoveRoleFromInstanceProfile", "iam:TagInstanceProfile"]}]}`

// lines are findings in short.
func lines(findings []Finding) []string {
	var all []string
	for _, f := range findings {
		line := fmt.Sprintf("%s %s", f.Kind, strings.Join(f.Actions, " "))
		switch f.Kind {
		case Missing:
			line += ": " + f.Add.Sid
			if f.For != "" {
				line += ", for " + f.For
			}
		default:
			line += ": " + f.Message
		}
		all = append(all, line)
	}
	return all
}

func judged(t *testing.T, version string, c Cluster, policies ...string) []Finding {
	t.Helper()
	var documents []Document
	for _, text := range policies {
		documents = append(documents, parsed(t, text))
	}
	findings, err := Judge(documents, version, c)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

func TestJudge(t *testing.T) {
	ofBlueprints := prod()
	ofBlueprints.Queue, ofBlueprints.NodeRoles = "karpenter-prod", []string{"karpenter-prod-2026"}
	for name, c := range map[string]struct {
		findings []Finding
		want     []string
	}{
		"eksctl's": {judged(t, "1.15.0", prod(), eksctl), []string{
			"Missing ec2:RebootInstances: Terminate, for settings.awsFeatureGates.rebootForRepair",
			"Missing iam:CreateInstanceProfile: CreateProfiles, for EC2NodeClasses with spec.role",
			"Missing iam:TagInstanceProfile: TagProfiles, for EC2NodeClasses with spec.role",
			"Missing iam:AddRoleToInstanceProfile iam:RemoveRoleFromInstanceProfile iam:DeleteInstanceProfile: ChangeProfiles, for EC2NodeClasses with spec.role",
			"Missing iam:GetInstanceProfile: ReadProfiles",
			"Missing iam:ListInstanceProfiles: ListProfiles",
			"Missing eks:DescribeCluster: DescribeCluster",
			"Missing ec2:DescribeCapacityReservations: ReadEC2, for featureGates.reservedCapacity, on by default",
			"Missing ec2:DescribeImages ec2:DescribeInstanceStatus ec2:DescribeSpotPriceHistory: ReadEC2",
			"Missing ec2:DescribePlacementGroups: ReadEC2, for placement groups",
			"Missing pricing:GetProducts: ReadPrices, for current prices; without it Karpenter uses those that it was built with",
			"Missing sqs:DeleteMessage sqs:GetQueueUrl sqs:ReceiveMessage: ReadInterruptions, for settings.interruptionQueue",
			"Missing arc-zonal-shift:GetManagedResource: ReadZonalShift, for settings.enableZonalShift",
			"TooBroad ec2:TerminateInstances: may terminate any instances of the account, also those of no cluster",
			"TooBroad ec2:CreateTags: may tag any instances of the account, also those of no cluster",
			"TooBroad ec2:DeleteLaunchTemplate: may delete any launch templates of the account, also those of no cluster",
			"TooBroad iam:PassRole: may pass any role of the account to EC2",
			"TooBroad ec2:RunInstances: may launch instances with the tags of any cluster",
			"TooBroad ssm:GetParameter: may read any parameter of the account, including secrets",
		}},
		"eks-blueprints'": {judged(t, "1.15.0", ofBlueprints, blueprints), []string{
			"Missing ec2:CreateFleet ec2:RunInstances: LaunchWith, for EC2NodeClasses whose blockDeviceMappings name a snapshot",
			"Missing ec2:RebootInstances: Terminate, for settings.awsFeatureGates.rebootForRepair",
			"Missing ec2:DescribeCapacityReservations: ReadEC2, for featureGates.reservedCapacity, on by default",
			"Missing ec2:DescribeInstanceStatus: ReadEC2",
			"Missing ec2:DescribePlacementGroups: ReadEC2, for placement groups",
			"Missing arc-zonal-shift:GetManagedResource: ReadZonalShift, for settings.enableZonalShift",
			"TooBroad ec2:TerminateInstances: may terminate instances that are shared with this cluster and not its own",
			"TooBroad ec2:CreateTags: may tag any instances of the account, also those of no cluster",
			"TooBroad ec2:DeleteLaunchTemplate: may delete any launch templates of the account, also those of no cluster",
			"TooBroad iam:PassRole: may pass the role of nodes to any service",
			"TooBroad iam:AddRoleToInstanceProfile iam:RemoveRoleFromInstanceProfile iam:DeleteInstanceProfile: may change instance profiles of any cluster",
			"TooBroad ec2:RunInstances: may launch instances with the tags of any cluster",
		}},
		"eks-blueprints', with the guide's queue": {judged(t, "1.6.3", func() Cluster {
			c := ofBlueprints
			c.Queue = "prod"
			return c
		}(), blueprints)[:3], []string{
			"Missing ec2:CreateFleet ec2:RunInstances: LaunchWith, for EC2NodeClasses whose blockDeviceMappings name a snapshot",
			"Missing ec2:DescribeCapacityReservations: ReadEC2, for featureGates.reservedCapacity, on by default",
			"Missing sqs:DeleteMessage sqs:GetQueueUrl sqs:ReceiveMessage: ReadInterruptions, for settings.interruptionQueue",
		}},
		"instances of any cluster": {
			judged(t, "1.0.8", prod(), `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}`,
				`{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "Action": ["ec2:TerminateInstances", "ec2:CreateTags", "ec2:DeleteLaunchTemplate"],
					"Resource": "*", "Condition": {"Null": {"aws:ResourceTag/eks:eks-cluster-name": "true", "ec2:CreateAction": "true"}}}}`),
			[]string{
				"TooBroad ec2:TerminateInstances: may terminate instances of any cluster",
				"TooBroad ec2:CreateTags: may tag instances of any cluster",
				"TooBroad ec2:DeleteLaunchTemplate: may delete launch templates of any cluster",
				"TooBroad iam:PassRole: may pass any role of the account to EC2",
				"TooBroad iam:AddRoleToInstanceProfile iam:RemoveRoleFromInstanceProfile iam:DeleteInstanceProfile: may change instance profiles of any cluster",
				"TooBroad ec2:RunInstances: may launch instances with the tags of any cluster",
				"TooBroad ssm:GetParameter: may read any parameter of the account, including secrets",
				"TooBroad sqs:DeleteMessage sqs:ReceiveMessage: may read and delete messages of any queue",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, lines(c.findings)); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
		})
	}
}

// TestJudgeAcceptsTheReference: the generated policies of a version lack nothing and are not too broad for it; for a
// newer version, exactly what it adds is missing.
func TestJudgeAcceptsTheReference(t *testing.T) {
	for _, version := range []string{"1.0.8", "1.12.1", "1.15.0"} {
		got, err := Judge(documents(controller(t, version, prod())), version, prod())
		if err != nil || len(got) > 0 {
			t.Errorf("%s: %v, %v", version, lines(got), err)
		}
	}
	got, err := Judge(documents(controller(t, "1.11.0", prod())), "1.15.0", prod())
	want := []string{
		"Missing ec2:RebootInstances: Terminate, for settings.awsFeatureGates.rebootForRepair",
		"Missing ec2:DescribeInstanceStatus: ReadEC2",
		"Missing arc-zonal-shift:GetManagedResource: ReadZonalShift, for settings.enableZonalShift",
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestJudgeAddsWhatIsMissing: with the statements that it names, nothing is missing.
func TestJudgeAddsWhatIsMissing(t *testing.T) {
	for name, policy := range map[string]string{"eksctl": eksctl, "blueprints": blueprints} {
		added := Document{Version: languageVersion}
		for _, f := range judged(t, "1.15.0", prod(), policy) {
			if f.Kind == Missing {
				added.Statement = append(added.Statement, *f.Add)
			}
		}
		findings, err := Judge([]Document{parsed(t, policy), added}, "1.15.0", prod())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range findings {
			if f.Kind != TooBroad {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// TestJudgeReportsWhatItCannotEvaluate: a Deny with a condition that plumbline does not evaluate leaves what it is about
// undecided, and is not a denial.
func TestJudgeReportsWhatItCannotEvaluate(t *testing.T) {
	findings, err := Judge(append(documents(controller(t, "1.15.0", prod())), parsed(t, `{"Version": "2012-10-17", "Statement": {
		"Effect": "Deny", "Action": "ec2:RunInstances", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}}`)), "1.15.0", prod())
	if err != nil || len(findings) == 0 {
		t.Fatalf("%v, %v", findings, err)
	}
	for _, f := range findings {
		if f.Kind != Undecided || !cmp.Equal(f.Actions, []string{"ec2:RunInstances"}) || !strings.Contains(f.Message, "IpAddress") {
			t.Errorf("%+v", f)
		}
	}
}

// TestJudgeDoesNotKnowTagsOfOthers: which tags a subnet or a queue has is unknown, so a condition on them is undecided.
func TestJudgeDoesNotKnowTagsOfOthers(t *testing.T) {
	policies := controller(t, "1.15.0", prod())
	changed := 0
	for i, p := range policies {
		for j, s := range p.Document.Statement {
			if s.Sid == "LaunchWith" || s.Sid == "ReadInterruptions" {
				policies[i].Document.Statement[j].Condition = Condition{"StringEquals": {"aws:ResourceTag/team": {"data"}}}
				changed++
			}
		}
	}
	findings, err := Judge(documents(policies), "1.15.0", prod())
	if err != nil || changed != 2 || len(findings) == 0 {
		t.Fatalf("%v, %v", findings, err)
	}
	for _, f := range findings {
		if f.Kind != Undecided || !strings.Contains(f.Message, "aws:ResourceTag/team") {
			t.Errorf("%+v", f)
		}
	}
}
