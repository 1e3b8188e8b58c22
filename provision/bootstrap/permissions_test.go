package bootstrap

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/provision/iam"
)

// handlers are the calls that CloudFormation makes for a resource of a type: the permissions of its schema's handlers, without
// those for properties that the stack does not have.
var handlers = map[string]string{
	"AWS::IAM::Role": "iam:CreateRole iam:AttachRolePolicy iam:TagRole iam:GetRole iam:UpdateRole iam:UpdateRoleDescription iam:UpdateAssumeRolePolicy " +
		"iam:DetachRolePolicy iam:UntagRole iam:ListAttachedRolePolicies iam:ListRolePolicies iam:GetRolePolicy iam:DeleteRole",
	"AWS::IAM::ManagedPolicy": "iam:CreatePolicy iam:GetPolicy iam:ListEntitiesForPolicy iam:GetPolicyVersion iam:CreatePolicyVersion " +
		"iam:DeletePolicyVersion iam:ListPolicyVersions iam:DeletePolicy",
	"AWS::IAM::InstanceProfile": "iam:CreateInstanceProfile iam:AddRoleToInstanceProfile iam:GetInstanceProfile iam:RemoveRoleFromInstanceProfile " +
		"iam:DeleteInstanceProfile",
	"AWS::SQS::Queue":   "sqs:CreateQueue sqs:GetQueueUrl sqs:GetQueueAttributes sqs:ListQueueTags sqs:TagQueue sqs:UntagQueue sqs:SetQueueAttributes sqs:DeleteQueue",
	"AWS::Events::Rule": "events:PutRule events:PutTargets events:DescribeRule events:ListTargetsByRule events:RemoveTargets events:DeleteRule",
}

// arns are the prefixes of the ARNs of a type.
var arns = map[string][2]string{
	"AWS::IAM::Role": {"iam", "role/"}, "AWS::IAM::ManagedPolicy": {"iam", "policy/"}, "AWS::IAM::InstanceProfile": {"iam", "instance-profile/"},
	"AWS::SQS::Queue": {"sqs", ""}, "AWS::Events::Rule": {"events", "rule/"},
}

// TestPermissions: every call for each resource of the stack is allowed, and for the same resource of another cluster every
// change is denied; each policy fits.
func TestPermissions(t *testing.T) {
	for name, spec := range variants() {
		t.Run(name, func(t *testing.T) {
			policies, err := Permissions(spec)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, p := range policies {
				if p.Characters > iam.MaxCharacters || seen[p.Name] {
					t.Errorf("%s: %d characters", p.Name, p.Characters)
				}
				seen[p.Name] = true
			}
			other := spec
			other.Cluster.Name = "x" + spec.Cluster.Name[1:]
			for _, of := range []Spec{spec, other} {
				for id, r := range made(t, of).Resources {
					for action := range strings.FieldsSeq(handlers[r.Type]) {
						resource := of.arn(arns[r.Type][0], arns[r.Type][1]+of.Name(id))
						_, call, _ := strings.Cut(action, ":")
						reads := r.Type == "AWS::IAM::Role" && (strings.HasPrefix(call, "Get") || strings.HasPrefix(call, "List"))
						if want := of.Cluster.Name == spec.Cluster.Name || reads; allowed(policies, action, resource) != want {
							t.Errorf("%s on %s: allowed is %v", action, resource, !want)
						}
					}
				}
			}
		})
	}
}

// allowed reports whether a statement has an action and a resource. In the policies, * is only at the end of an ARN.
func allowed(policies []iam.Policy, action, resource string) bool {
	for _, p := range policies {
		for _, s := range p.Document.Statement {
			for _, pattern := range s.Resource {
				prefix, wild := strings.CutSuffix(pattern, "*")
				if slices.Contains(s.Action, action) && (pattern == resource || wild && strings.HasPrefix(resource, prefix)) {
					return true
				}
			}
		}
	}
	return false
}

// TestPermissionsDoNotEscalate: no action is a wildcard, no role gets a policy in it, and what can be attached, to whom a role
// can be passed and which service-linked role is created is a closed list.
func TestPermissionsDoNotEscalate(t *testing.T) {
	spec := specOf("production", "eu-west-1")
	policies, err := Permissions(spec)
	if err != nil {
		t.Fatal(err)
	}
	closed := map[string]string{"iam:AttachRolePolicy": "iam:PolicyARN", "iam:PassRole": "iam:PassedToService", "iam:CreateServiceLinkedRole": "iam:AWSServiceName"}
	for _, p := range policies {
		for _, s := range p.Document.Statement {
			for _, action := range s.Action {
				if strings.Contains(action, "*") || action == "iam:PutRolePolicy" || strings.HasPrefix(action, "iam:PutRolePermissionsBoundary") {
					t.Errorf("%s allows %s", s.Sid, action)
				}
				key := closed[action]
				if key == "" {
					continue
				}
				for _, keys := range s.Condition {
					for _, value := range keys[key] {
						if strings.Contains(value, "*") || strings.Contains(value, "Administrator") {
							t.Errorf("%s: %s", action, value)
						}
					}
				}
				if len(s.Condition) != 1 {
					t.Errorf("%s has no condition on %s", action, key)
				}
			}
		}
	}
	if resource := spec.arn("cloudformation", "stack/plumbline-production-2/1"); allowed(policies, "cloudformation:DeleteStack", resource) {
		t.Errorf("may delete %s", resource)
	}
}

// TestPermissionsForTags: a user may set only the two tags of the cluster, and delete them only where a bootstrap of this
// cluster has set them.
func TestPermissionsForTags(t *testing.T) {
	for name, spec := range variants() {
		t.Run(name, func(t *testing.T) {
			policies, err := Permissions(spec)
			if err != nil {
				t.Fatal(err)
			}
			found := map[string]iam.Condition{}
			for _, p := range policies {
				for _, s := range p.Document.Statement {
					for _, action := range s.Action {
						if !strings.HasSuffix(action, "Tags") || !strings.HasPrefix(action, "ec2:") {
							continue
						}
						found[action] = s.Condition
						for _, resource := range s.Resource {
							if !strings.HasSuffix(resource, ":subnet/*") && !strings.HasSuffix(resource, ":security-group/*") {
								t.Errorf("%s on %s", action, resource)
							}
						}
					}
				}
			}
			keys := map[string]iam.Values{"aws:TagKeys": {DiscoveryTag, Tag}}
			want := map[string]iam.Condition{
				"ec2:CreateTags": {
					"StringEquals":              {"aws:RequestTag/" + DiscoveryTag: {spec.Cluster.Name}, "aws:RequestTag/" + Tag: {spec.Stack()}},
					"StringEqualsIfExists":      {"aws:ResourceTag/" + DiscoveryTag: {spec.Cluster.Name}},
					"ForAllValues:StringEquals": keys,
				},
				"ec2:DeleteTags": {"StringEquals": {"aws:ResourceTag/" + Tag: {spec.Stack()}}, "ForAllValues:StringEquals": keys},
			}
			if diff := cmp.Diff(want, found); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}
