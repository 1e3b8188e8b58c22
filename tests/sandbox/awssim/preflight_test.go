package awssim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// TestPreflight checks what `plumbline doctor` reads around a new cluster, and that a story can break and restore it.
func TestPreflight(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	clusters := eks.NewFromConfig(a.config("tester"))
	addons := func() []string {
		t.Helper()
		out, err := clusters.ListAddons(t.Context(), &eks.ListAddonsInput{ClusterName: aws.String(clusterName)})
		noError(t, err)
		return out.Addons
	}
	const agent = "eks-pod-identity-agent"
	if !slices.Contains(addons(), agent) {
		t.Errorf("the add-ons are %v", addons())
	}
	described, err := clusters.DescribeAddon(t.Context(), &eks.DescribeAddonInput{ClusterName: aws.String(clusterName), AddonName: aws.String(agent)})
	noError(t, err)
	if described.Addon.Status != "ACTIVE" || len(described.Addon.Health.Issues) > 0 {
		t.Errorf("the add-on is %+v", described.Addon)
	}
	noError(t, a.SetAddon(clusterName, agent, false))
	if slices.Contains(addons(), agent) {
		t.Error("the add-on is not gone")
	}
	noError(t, a.SetAddon(clusterName, agent, true))
	if !slices.Contains(addons(), agent) {
		t.Error("the add-on is not back")
	}

	role := "arn:aws:iam::000000000000:role/KarpenterNodeRole-" + clusterName
	entry := &eks.DescribeAccessEntryInput{ClusterName: aws.String(clusterName), PrincipalArn: aws.String(role)}
	noError(t, a.SetNodeAccess(clusterName, false))
	if _, err := clusters.DescribeAccessEntry(t.Context(), entry); err == nil {
		t.Error("the access entry is not gone")
	}
	noError(t, a.SetNodeAccess(clusterName, true))
	_, err = clusters.DescribeAccessEntry(t.Context(), entry)
	noError(t, err)

	queues := sqs.NewFromConfig(a.config("tester"))
	at, err := queues.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(clusterName)})
	noError(t, err)
	attributes, err := queues.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: at.QueueUrl, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	noError(t, err)
	if policy := attributes.Attributes["Policy"]; !strings.Contains(policy, "events.amazonaws.com") {
		t.Errorf("the policy of the queue is %s", policy)
	}

	tables, err := a.ec2().DescribeRouteTables(t.Context(), &ec2.DescribeRouteTablesInput{})
	noError(t, err)
	if n := len(tables.RouteTables); n == 0 || !strings.HasPrefix(aws.ToString(tables.RouteTables[0].Routes[1].NatGatewayId), "nat-") {
		t.Errorf("the route tables are %+v", tables.RouteTables)
	}
}

// TestReplaceRolePolicies checks that a role has only the policy it was given, and its own ones again afterwards.
func TestReplaceRolePolicies(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	const role = "KarpenterControllerRole-" + clusterName
	attached := func() int {
		t.Helper()
		out, err := iam.NewFromConfig(a.config("tester")).ListAttachedRolePolicies(t.Context(), &iam.ListAttachedRolePoliciesInput{RoleName: aws.String(role)})
		noError(t, err)
		return len(out.AttachedPolicies)
	}
	before := attached()
	restore, err := a.ReplaceRolePolicies(role, `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}]}`)
	noError(t, err)
	if n := attached(); n != 0 {
		t.Errorf("%d policies are attached, want none", n)
	}
	restore()
	if n := attached(); n != before {
		t.Errorf("%d policies are attached, want %d", n, before)
	}
	if _, err := a.ReplaceRolePolicies(role, "{"); err == nil || attached() != before {
		t.Errorf("a policy that is not valid: %v, %d policies", err, attached())
	}
}
