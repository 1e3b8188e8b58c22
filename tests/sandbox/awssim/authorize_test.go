package awssim_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// as registers an access key for a role with one policy.
func (a *account) as(t *testing.T, name, policy string) *ec2.Client {
	t.Helper()
	noError(t, a.AddRole(awssim.Role{Name: name, Trust: podsTrust, Policies: map[string]string{name: policy}}))
	a.RegisterCredentials(name, name)
	return ec2.NewFromConfig(a.config(name))
}

func denial(t *testing.T, err error, code string, parts ...string) {
	t.Helper()
	wantCode(t, err, code)
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error = %v, want %q in it", err, part)
		}
	}
}

// TestPlumblinesPolicy: manifests/iam-policy.json allows plumbline's queries, and nothing else.
func TestPlumblinesPolicy(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	noError(t, a.AddCluster(awssim.Cluster{Name: "staging", Version: "1.36"}))
	id := a.launch(t, 1)[0]
	foreign, err := a.AddNode("staging", "general")
	noError(t, err)
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "manifests", "iam-policy.json"))
	noError(t, err)
	filled := strings.NewReplacer("${PARTITION}", "aws", "${REGION}", region, "${ACCOUNT}", "000000000000", "${CLUSTER_NAME}", clusterName).Replace(string(text))
	client := a.as(t, "plumbline", filled)
	_, err = client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	noError(t, err)
	_, err = client.DescribeInstanceAttribute(t.Context(), &ec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: types.InstanceAttributeNameDisableApiTermination})
	noError(t, err)
	_, err = client.DescribeInstanceAttribute(t.Context(), &ec2.DescribeInstanceAttributeInput{InstanceId: &foreign, Attribute: types.InstanceAttributeNameDisableApiTermination})
	denial(t, err, "UnauthorizedOperation", "ec2:DescribeInstanceAttribute on resource: arn:aws:ec2:eu-west-1:000000000000:instance/"+foreign)
	_, err = client.DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{})
	noError(t, err)
	_, err = client.DescribeImages(t.Context(), &ec2.DescribeImagesInput{})
	noError(t, err)
	_, err = client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	noError(t, err)
	_, err = client.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{})
	noError(t, err)
	parameters := ssm.NewFromConfig(a.config("plumbline"))
	_, err = parameters.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id")})
	noError(t, err)
	_, err = parameters.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("/x")})
	denial(t, err, "AccessDeniedException", "ssm:GetParameter", "arn:aws:ssm:eu-west-1:000000000000:parameter/x")
	clusters := eks.NewFromConfig(a.config("plumbline"))
	_, err = clusters.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String(clusterName)})
	noError(t, err)
	_, err = clusters.ListPodIdentityAssociations(t.Context(), &eks.ListPodIdentityAssociationsInput{ClusterName: aws.String(clusterName)})
	noError(t, err)
	_, err = iam.NewFromConfig(a.config("plumbline")).GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("KarpenterControllerRole-" + clusterName)})
	noError(t, err)
	_, err = sts.NewFromConfig(a.config("plumbline")).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
	noError(t, err)

	_, err = clusters.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String("staging")})
	denial(t, err, "AccessDeniedException", "User: arn:aws:sts::000000000000:assumed-role/plumbline/plumbline is not authorized to perform: eks:DescribeCluster on resource: arn:aws:eks:eu-west-1:000000000000:cluster/staging because no identity-based policy allows the eks:DescribeCluster action")
	_, err = client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	denial(t, err, "UnauthorizedOperation", "You are not authorized to perform this operation.", "ec2:TerminateInstances on resource: arn:aws:ec2:eu-west-1:000000000000:instance/"+id, "Encoded authorization failure message")
	_, err = client.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	denial(t, err, "UnauthorizedOperation", "is not authorized to perform: ec2:DescribeVpcs because no identity-based policy allows the ec2:DescribeVpcs action")
	_, err = iam.NewFromConfig(a.config("plumbline")).ListRoles(t.Context(), &iam.ListRolesInput{})
	denial(t, err, "AccessDenied", "iam:ListRoles")
	_, err = parameters.PutParameter(t.Context(), &ssm.PutParameterInput{Name: aws.String("/x"), Value: aws.String("y")})
	denial(t, err, "AccessDeniedException", "arn:aws:ssm:eu-west-1:000000000000:parameter/x")
	_, err = sqs.NewFromConfig(a.config("plumbline")).GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(clusterName)})
	denial(t, err, "AccessDeniedException", "arn:aws:sqs:eu-west-1:000000000000:prod")
}

// TestExplicitDenyAndTags: a deny overrides an allow, and conditions apply to the tags of existing resources.
func TestExplicitDenyAndTags(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	ids := a.launch(t, 2)
	a.tag(t, ids[1], "team", "data")
	client := a.as(t, "keeper", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":"ec2:*","Resource":"*"},
		{"Effect":"Deny","Action":"ec2:TerminateInstances","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"data"}}}]}`)
	terminate := func(ids ...string) error {
		_, err := client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: ids})
		return err
	}
	denial(t, terminate(ids...), "UnauthorizedOperation", "with an explicit deny in an identity-based policy", ids[1])
	if got := a.stateOf(ids[0]); got != "running" {
		t.Errorf("the other instance of the call that was denied is %s", got)
	}
	noError(t, terminate(ids[0]))
}

// TestInlineAndManagedPolicies: policies that IAM's own API adds or attaches to a role apply from then on, and removed
// ones no longer do.
func TestInlineAndManagedPolicies(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	admin := a.iam()
	_, err := admin.CreateRole(t.Context(), &iam.CreateRoleInput{RoleName: aws.String("r"), AssumeRolePolicyDocument: aws.String(podsTrust)})
	noError(t, err)
	a.RegisterCredentials("r", "r")
	ask := func() error {
		_, err := ec2.NewFromConfig(a.config("r")).DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
		return err
	}
	wantCode(t, ask(), "UnauthorizedOperation")
	const reads = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"ec2:Describe*","Resource":"*"}}`
	_, err = admin.PutRolePolicy(t.Context(), &iam.PutRolePolicyInput{RoleName: aws.String("r"), PolicyName: aws.String("reads"), PolicyDocument: aws.String(reads)})
	noError(t, err)
	noError(t, ask())
	_, err = admin.DeleteRole(t.Context(), &iam.DeleteRoleInput{RoleName: aws.String("r")})
	wantCode(t, err, "DeleteConflict")
	_, err = admin.DeleteRolePolicy(t.Context(), &iam.DeleteRolePolicyInput{RoleName: aws.String("r"), PolicyName: aws.String("reads")})
	noError(t, err)
	wantCode(t, ask(), "UnauthorizedOperation")

	made, err := admin.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: aws.String("reads"), PolicyDocument: aws.String(reads)})
	noError(t, err)
	_, err = admin.AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{RoleName: aws.String("r"), PolicyArn: made.Policy.Arn})
	noError(t, err)
	noError(t, ask())
	_, err = admin.DeletePolicy(t.Context(), &iam.DeletePolicyInput{PolicyArn: made.Policy.Arn})
	wantCode(t, err, "DeleteConflict")
	_, err = admin.CreatePolicy(t.Context(), &iam.CreatePolicyInput{PolicyName: aws.String("bad"), PolicyDocument: aws.String(`{"Statement":[]}`)})
	wantCode(t, err, "MalformedPolicyDocument")
}

// TestSetRoleLacks: an action that is removed from a role's policies is denied until it is added again.
func TestSetRoleLacks(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	const name, action = "KarpenterControllerRole-" + clusterName, "ec2:DescribeInstanceStatus"
	a.RegisterCredentials("karpenter", name)
	ask := func() error {
		_, err := ec2.NewFromConfig(a.config("karpenter")).DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{})
		return err
	}
	noError(t, ask())
	noError(t, a.SetRoleLacks(name, action, true))
	denial(t, ask(), "UnauthorizedOperation", action)
	if err := a.SetRoleLacks(name, action, true); err == nil {
		t.Error("an action that is missing already can be removed")
	}
	noError(t, a.SetRoleLacks(name, action, false))
	noError(t, ask())
}

// TestKarpentersPolicies: the controller's role launches and terminates what has its cluster's tags, and nothing else.
func TestKarpentersPolicies(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	noError(t, a.AddCluster(awssim.Cluster{Name: "staging", Version: "1.36"}))
	a.RegisterCredentials("karpenter", "KarpenterControllerRole-prod")
	a.RegisterCredentials("other", "KarpenterControllerRole-staging")
	client := ec2.NewFromConfig(a.config("karpenter"))
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	in := a.fleetInput(t, "amd64", 1, purchaseOnDemand, pool{"m5.large", "eu-west-1a"})
	in.DryRun = aws.Bool(true)
	_, err := client.CreateFleet(t.Context(), in)
	wantCode(t, err, "DryRunOperation")
	in.DryRun = nil
	out, err := client.CreateFleet(t.Context(), in)
	noError(t, err)
	id := out.Instances[0].InstanceIds[0]

	untagged := *in
	untagged.TagSpecifications = nil
	_, err = client.CreateFleet(t.Context(), &untagged)
	denial(t, err, "UnauthorizedOperation", "ec2:CreateFleet on resource: arn:aws:ec2:eu-west-1:000000000000:fleet/*")
	_, err = client.CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("n")}}})
	noError(t, err)
	_, err = ec2.NewFromConfig(a.config("other")).TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	denial(t, err, "UnauthorizedOperation", "ec2:TerminateInstances")
	_, err = client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	noError(t, err)

	_, err = client.DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("nowhere")})
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")

	profiles := iam.NewFromConfig(a.config("karpenter"))
	_, err = profiles.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("mine")})
	denial(t, err, "AccessDenied", "iam:CreateInstanceProfile on resource: arn:aws:iam::000000000000:instance-profile/mine")
	_, err = profiles.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("mine"), Tags: []iamtypes.Tag{
		{Key: aws.String("kubernetes.io/cluster/prod"), Value: aws.String("owned")},
		{Key: aws.String("topology.kubernetes.io/region"), Value: aws.String(region)},
		{Key: aws.String("karpenter.k8s.aws/ec2nodeclass"), Value: aws.String("default")},
	}})
	noError(t, err)
	_, err = profiles.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("mine"), RoleName: aws.String("KarpenterNodeRole-staging")})
	denial(t, err, "AccessDenied", "iam:PassRole", "KarpenterNodeRole-staging")
	_, err = profiles.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("mine"), RoleName: aws.String("KarpenterNodeRole-prod")})
	noError(t, err)
}
