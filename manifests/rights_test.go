package manifests

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// grants reports whether a rule allows a verb on a resource, by name or not.
func grants(rule rbacv1.PolicyRule, resource, verb string) bool {
	has := func(list []string, item string) bool {
		return slices.Contains(list, item) || slices.Contains(list, "*")
	}
	return has(rule.Resources, resource) && (verb == "" || has(rule.Verbs, verb))
}

func TestRightsAreNarrow(t *testing.T) {
	for _, o := range build(t, ".") {
		for _, rule := range o.Rules {
			for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
				if slices.Contains(list, "*") {
					t.Errorf("%s has a wildcard: %v", o, rule)
				}
			}
			if o.Kind == "ClusterRole" && grants(rule, "secrets", "") {
				t.Errorf("%s reaches Secrets everywhere: %v", o, rule)
			}
			for _, verb := range []string{"escalate", "impersonate", "deletecollection"} {
				if slices.Contains(rule.Verbs, verb) {
					t.Errorf("%s may %s: %v", o, verb, rule)
				}
			}
			if grants(rule, "customresourcedefinitions", "delete") || grants(rule, "nodepools", "deletecollection") {
				t.Errorf("%s may take a fleet away in one request: %v", o, rule)
			}
			if slices.Contains(rule.Verbs, "bind") && len(rule.ResourceNames) == 0 {
				t.Errorf("%s may bind any role: %v", o, rule)
			}
			if grants(rule, "nodes", "delete") && o.Metadata.Name != "plumbline-charts-karpenter" {
				t.Errorf("%s may delete nodes, which is Karpenter's: %v", o, rule)
			}
		}
	}
}

// TestConfigMapsAreReachedInOneNamespace: records and queues are kept there.
func TestConfigMapsAreReachedInOneNamespace(t *testing.T) {
	for _, o := range build(t, "external") {
		for _, rule := range o.Rules {
			if !grants(rule, "configmaps", "") {
				continue
			}
			if o.String() != "Role plumbline-system/plumbline" {
				t.Errorf("%s reaches ConfigMaps: %v", o, rule)
			}
			if diff := cmp.Diff([]string{"get", "list", "create", "update", "patch", "delete"}, rule.Verbs); diff != "" {
				t.Errorf("verbs (-want +got):\n%s", diff)
			}
		}
	}
}

// ruleStart matches the first line of a rule in the files of this folder.
var ruleStart = regexp.MustCompile(`^  - apiGroups:`)

func TestEveryRuleSaysWhy(t *testing.T) {
	for _, file := range []string{"core/role.yaml", "rbac-charts/role.yaml", "rbac-charts/karpenter.yaml", "optional/logs.yaml", "optional/sources.yaml", "optional/values.yaml"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		rules := 0
		for i, line := range lines {
			if !ruleStart.MatchString(line) {
				continue
			}
			rules++
			if !strings.HasPrefix(lines[i-1], "  # ") {
				t.Errorf("%s:%d: a rule without a reason", file, i+1)
			}
		}
		if rules == 0 {
			t.Errorf("%s has no rule that this test recognises", file)
		}
	}
}

func TestTheAWSPoliciesOnlyRead(t *testing.T) {
	for file, want := range map[string][]string{
		"iam-policy.json": {
			"ec2:DescribeInstances", "ec2:DescribeVolumes", "ec2:DescribeNetworkInterfaces", "ec2:DescribeLaunchTemplates", "ec2:DescribeInstanceAttribute",
			"ec2:DescribeImages", "ec2:DescribeSubnets", "ec2:DescribeSecurityGroups", "ec2:DescribeCapacityReservations",
			"ec2:DescribeInstanceTypes", "ec2:DescribeInstanceTypeOfferings",
			"ssm:GetParameter", "iam:ListInstanceProfiles", "eks:DescribeCluster", "eks:ListPodIdentityAssociations", "eks:DescribePodIdentityAssociation",
			"iam:GetRole", "iam:ListRolePolicies", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies", "iam:GetPolicy", "iam:GetPolicyVersion",
			"sts:GetCallerIdentity",
		},
		"iam-policy-verify.json": {
			"ec2:DescribeInstances", "ec2:DescribeVolumes", "ec2:DescribeNetworkInterfaces", "ec2:DescribeLaunchTemplates",
			"iam:ListInstanceProfiles", "iam:GetInstanceProfile", "eks:DescribeCluster", "sts:GetCallerIdentity",
		},
		"iam-policy-audit.json": {
			"ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "eks:ListClusters", "sts:GetCallerIdentity",
			"eks:DescribeCluster", "eks:ListPodIdentityAssociations", "eks:DescribePodIdentityAssociation",
			"iam:GetRole", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies", "iam:ListRolePolicies",
			"iam:GetPolicy", "iam:GetPolicyVersion",
		},
		"iam-policy-cloudtrail.json": {"cloudtrail:LookupEvents"},
		"iam-policy-doctor.json": {
			"ec2:DescribeImages", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeInstances",
			"ec2:DescribeLaunchTemplates", "ec2:DescribeNetworkInterfaces", "ec2:DescribeRouteTables",
			"ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVolumes", "ec2:DescribeVpcEndpoints",
			"eks:DescribeCluster", "eks:ListAddons", "eks:ListInsights", "eks:ListPodIdentityAssociations", "eks:DescribeAddon",
			"eks:DescribePodIdentityAssociation", "eks:DescribeAccessEntry",
			"iam:GetRole", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies", "iam:ListRolePolicies", "iam:SimulatePrincipalPolicy",
			"iam:GetPolicy", "iam:GetPolicyVersion", "iam:GetInstanceProfile", "iam:ListInstanceProfiles",
			"sqs:GetQueueAttributes", "sqs:GetQueueUrl",
			"kms:DescribeKey", "kms:GetKeyPolicy", "servicequotas:ListServiceQuotas", "events:DescribeRule", "events:ListRuleNamesByTarget",
			"ssm:GetParameter", "sts:DecodeAuthorizationMessage", "sts:GetCallerIdentity",
		},
	} {
		t.Run(file, func(t *testing.T) {
			if diff := cmp.Diff(want, allowedBy(t, file)); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUserDataIsOfThisCluster: DescribeInstanceAttribute returns user data, so the daemon may call it only for
// instances that Karpenter launched for its cluster.
func TestUserDataIsOfThisCluster(t *testing.T) {
	for _, s := range statementsOf(t, "iam-policy.json") {
		if !slices.Contains(s.Action, "ec2:DescribeInstanceAttribute") {
			continue
		}
		want := statement{
			Sid: "SeeTerminationProtection", Effect: "Allow", Resource: "arn:${PARTITION}:ec2:${REGION}:${ACCOUNT}:instance/*",
			Action: oneOrMore{"ec2:DescribeInstanceAttribute"},
			Condition: map[string]map[string]string{
				"StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/${CLUSTER_NAME}": "owned"},
				"StringLike":   {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
			},
		}
		if diff := cmp.Diff(want, s); diff != "" {
			t.Errorf("statement (-want +got):\n%s", diff)
		}
	}
}

// TestTheTeardownPolicyIsOfOneCluster: except for reading, it allows actions only on resources with the cluster's tag.
func TestTheTeardownPolicyIsOfOneCluster(t *testing.T) {
	for _, s := range statementsOf(t, "iam-policy-teardown.json") {
		equals := s.Condition["StringEquals"]
		ours := equals["aws:ResourceTag/kubernetes.io/cluster/${CLUSTER_NAME}"] == "owned" || equals["aws:ResourceTag/cluster.k8s.amazonaws.com/name"] == "${CLUSTER_NAME}"
		if !ours && !slices.Equal(s.Action, oneOrMore{"iam:GetInstanceProfile"}) {
			t.Errorf("%s allows %v to what is not the cluster's by its tag", s.Sid, s.Action)
		}
		if s.Resource == "*" || strings.Contains(s.Resource, ":ec2:") && !strings.Contains(s.Resource, ":${REGION}:${ACCOUNT}:") {
			t.Errorf("%s is about %s, want one region of one account", s.Sid, s.Resource)
		}
	}
	want := []string{
		"ec2:TerminateInstances", "ec2:DeleteVolume", "ec2:DeleteNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:DeleteLaunchTemplate",
		"iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile", "iam:GetInstanceProfile",
	}
	if diff := cmp.Diff(want, allowedBy(t, "iam-policy-teardown.json")); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

// TestTheMigratePolicyIsOfOneCluster: except for reading, it allows actions only on node groups and add-ons of the cluster, and
// on Auto Scaling groups with its tag.
func TestTheMigratePolicyIsOfOneCluster(t *testing.T) {
	reads := regexp.MustCompile(`^[a-z0-9]+:(Describe|List|Get)`)
	for _, s := range statementsOf(t, "iam-policy-migrate.json") {
		named := strings.HasPrefix(s.Resource, "arn:${PARTITION}:eks:${REGION}:${ACCOUNT}:") && strings.Contains(s.Resource, "/${CLUSTER_NAME}")
		tagged := strings.HasPrefix(s.Resource, "arn:${PARTITION}:autoscaling:${REGION}:${ACCOUNT}:autoScalingGroup:") &&
			s.Condition["StringEquals"]["aws:ResourceTag/kubernetes.io/cluster/${CLUSTER_NAME}"] == "owned"
		for _, action := range s.Action {
			if !reads.MatchString(action) && !named && !tagged {
				t.Errorf("%s allows %s on %s, which may be another cluster's", s.Sid, action, s.Resource)
			}
		}
	}
	for _, action := range allowedBy(t, "iam-policy-migrate.json") {
		if strings.HasPrefix(action, "iam:") || strings.Contains(action, "Delete") && action != "autoscaling:DeleteTags" {
			t.Errorf("it allows %s", action)
		}
	}
}

// TestTheProtectPolicyIsOfOneCluster: it allows one action, only on instances that Karpenter launched for the cluster.
func TestTheProtectPolicyIsOfOneCluster(t *testing.T) {
	want := []statement{{
		Sid: "ProtectFromTermination", Effect: "Allow", Resource: "arn:${PARTITION}:ec2:${REGION}:${ACCOUNT}:instance/*",
		Action: oneOrMore{"ec2:ModifyInstanceAttribute"},
		Condition: map[string]map[string]string{
			"StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/${CLUSTER_NAME}": "owned"},
			"StringLike":   {"aws:ResourceTag/karpenter.sh/nodepool": "*"},
		},
	}}
	if diff := cmp.Diff(want, statementsOf(t, "iam-policy-protect.json")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// statement is a statement of an IAM policy.
type statement struct {
	Sid, Effect, Resource string
	Action                oneOrMore
	Condition             map[string]map[string]string
}

// statementsOf returns the statements of a policy in this folder.
func statementsOf(t *testing.T, file string) []statement {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var policy struct{ Statement []statement }
	if err := json.Unmarshal(text, &policy); err != nil {
		t.Fatal(err)
	}
	return policy.Statement
}

// allowedBy returns the actions that a policy allows, in order.
func allowedBy(t *testing.T, file string) []string {
	t.Helper()
	var actions []string
	for _, s := range statementsOf(t, file) {
		if s.Effect != "Allow" {
			t.Errorf("a statement to %s", s.Effect)
		}
		actions = append(actions, s.Action...)
	}
	return actions
}

// oneOrMore is a string, or a list of strings, as in IAM policies.
type oneOrMore []string

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrMore) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*o = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(o))
}
