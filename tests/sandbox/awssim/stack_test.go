package awssim_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

const stackName = "plumbline-prod"

// stackTemplate is what a bootstrap of Karpenter creates, with every type of resource in it.
const stackTemplate = `{
 "AWSTemplateFormatVersion": "2010-09-09",
 "Description": "Karpenter's roles",
 "Parameters": {"Team": {"Type": "String", "Default": "data"}},
 "Resources": {
  "NodeRole": {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "Node-prod",
   "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": {"Fn::Sub": "ec2.${AWS::URLSuffix}"}}, "Action": "sts:AssumeRole"}]},
   "ManagedPolicyArns": [{"Fn::Sub": "arn:${AWS::Partition}:iam::aws:policy/AmazonEKSWorkerNodePolicy"}]}},
  "Profile": {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": "NodeRole"}], "InstanceProfileName": "Node-prod"}},
  "Access": {"Type": "AWS::EKS::AccessEntry", "Properties": {"ClusterName": "prod", "PrincipalArn": {"Fn::GetAtt": ["NodeRole", "Arn"]}, "Type": "EC2_LINUX"}},
  "Policy": {"Type": "AWS::IAM::ManagedPolicy", "Properties": {"ManagedPolicyName": "Controller-prod",
   "PolicyDocument": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "ec2:DescribeVpcs", "Resource": "*"}]}}},
  "Controller": {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "Controller-prod", "ManagedPolicyArns": [{"Ref": "Policy"}],
   "AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "pods.eks.amazonaws.com"}, "Action": ["sts:AssumeRole", "sts:TagSession"],
    "Condition": {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}}]}}},
  "Link": {"Type": "AWS::EKS::PodIdentityAssociation", "Properties": {"ClusterName": "prod", "Namespace": "kube-system", "ServiceAccount": "karpenter", "RoleArn": {"Fn::GetAtt": "Controller.Arn"}}},
  "Queue": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "Interruptions-prod", "MessageRetentionPeriod": 300, "SqsManagedSseEnabled": true}},
  "QueuePolicy": {"Type": "AWS::SQS::QueuePolicy", "Properties": {"Queues": [{"Ref": "Queue"}],
   "PolicyDocument": {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": {"Fn::GetAtt": ["Queue", "Arn"]}}]}}},
  "Rule": {"Type": "AWS::Events::Rule", "Properties": {"Name": "Spot-prod", "EventPattern": {"source": ["aws.ec2"]}, "Targets": [{"Id": "Queue", "Arn": {"Fn::GetAtt": ["Queue", "Arn"]}}]}}
 },
 "Outputs": {"ControllerRole": {"Value": {"Fn::GetAtt": ["Controller", "Arn"]}}, "QueueName": {"Value": {"Fn::GetAtt": ["Queue", "QueueName"]}}, "Team": {"Value": {"Ref": "Team"}}}
}`

// stacks is a client of CloudFormation.
type stacks struct {
	*account
	client *cloudformation.Client
	tags   []types.Tag
}

func newStacks(t *testing.T, options awssim.Options, key string) *stacks {
	t.Helper()
	a := newAccount(t, options)
	return a.stacks(key)
}

func (a *account) stacks(key string) *stacks {
	return &stacks{account: a, client: cloudformation.NewFromConfig(a.config(key)), tags: []types.Tag{{
		Key:   aws.String("owner"),
		Value: aws.String("me"),
	}}}
}

// changeSet creates a change set and waits until it was computed.
func (s *stacks) changeSet(t *testing.T, kind types.ChangeSetType, template string,
	imports ...types.ResourceToImport,
) *cloudformation.DescribeChangeSetOutput {
	t.Helper()
	made, err := s.client.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{
		StackName: aws.String(stackName), ChangeSetName: aws.String("set-" + string(kind)), ChangeSetType: kind,
		TemplateBody: aws.String(template),
		Capabilities: []types.Capability{types.CapabilityCapabilityNamedIam}, Tags: s.tags, ResourcesToImport: imports,
	})
	noError(t, err)
	var out *cloudformation.DescribeChangeSetOutput
	eventually(t, "the change set", func() bool {
		out, err = s.client.DescribeChangeSet(t.Context(), &cloudformation.DescribeChangeSetInput{
			ChangeSetName:         made.Id,
			IncludePropertyValues: aws.Bool(true),
		})
		noError(t, err)
		return out.Status == types.ChangeSetStatusCreateComplete || out.Status == types.ChangeSetStatusFailed
	})
	return out
}

// execute executes a change set, and returns the status of the stack once it does not change.
func (s *stacks) execute(t *testing.T, set *cloudformation.DescribeChangeSetOutput) types.StackStatus {
	t.Helper()
	if set.Status != types.ChangeSetStatusCreateComplete {
		t.Fatalf("change set is %s: %s", set.Status, aws.ToString(set.StatusReason))
	}
	_, err := s.client.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{
		ChangeSetName:      set.ChangeSetId,
		ClientRequestToken: aws.String("run-1"),
	})
	noError(t, err)
	return s.settled(t, *set.StackId)
}

// settled waits until a stack does not change, and returns its status.
func (s *stacks) settled(t *testing.T, id string) types.StackStatus {
	t.Helper()
	var status types.StackStatus
	eventually(t, "the end of the operation", func() bool {
		status = s.stack(t, id).StackStatus
		return !strings.HasSuffix(string(status), "_IN_PROGRESS")
	})
	return status
}

func (s *stacks) stack(t *testing.T, id string) types.Stack {
	t.Helper()
	out, err := s.client.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: aws.String(id)})
	noError(t, err)
	return out.Stacks[0]
}

// events returns the events of a stack, the oldest first: resource, status and reason.
func (s *stacks) events(t *testing.T, id string) []string {
	t.Helper()
	var all []string
	pages := cloudformation.NewDescribeStackEventsPaginator(s.client, &cloudformation.DescribeStackEventsInput{StackName: aws.String(id)})
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		noError(t, err)
		for _, e := range out.StackEvents {
			all = append([]string{strings.TrimSpace(*e.LogicalResourceId + " " + string(e.ResourceStatus) + " " + aws.ToString(e.ResourceStatusReason))}, all...)
		}
	}
	return all
}

// delete deletes a stack and returns the status that it ends in.
func (s *stacks) delete(t *testing.T, id string) types.StackStatus {
	t.Helper()
	_, err := s.client.DeleteStack(t.Context(), &cloudformation.DeleteStackInput{StackName: aws.String(id)})
	noError(t, err)
	return s.settled(t, id)
}

// only returns the template with these resources and no outputs.
func only(t *testing.T, change func(resources map[string]any), names ...string) string {
	t.Helper()
	var content map[string]any
	noError(t, json.Unmarshal([]byte(stackTemplate), &content))
	all, ok := content["Resources"].(map[string]any)
	if !ok {
		t.Fatal("the template has no resources")
	}
	resources := map[string]any{}
	for _, name := range names {
		resources[name] = all[name]
	}
	if change != nil {
		change(resources)
	}
	content["Resources"] = resources
	delete(content, "Outputs")
	text, err := json.Marshal(content)
	noError(t, err)
	return string(text)
}

// properties returns the properties of a resource in a template.
func properties(t *testing.T, resources map[string]any, name string) map[string]any {
	t.Helper()
	resource, ok := resources[name].(map[string]any)
	if !ok {
		t.Fatalf("no resource %s", name)
	}
	found, ok := resource["Properties"].(map[string]any)
	if !ok {
		t.Fatalf("resource %s has no properties", name)
	}
	return found
}

// find returns the events that contain a text.
func find(events []string, text string) []string {
	var found []string
	for _, e := range events {
		if strings.Contains(e, text) {
			found = append(found, e)
		}
	}
	return found
}

// TestStackFromNothing: a stack with every type of resource is created by a change set, its roles work for pods, and its
// deletion leaves nothing.
func TestStackFromNothing(t *testing.T) {
	a, tokens := newIssuedAccount(t)
	s := a.stacks("tester")
	before := a.State()
	set := s.changeSet(t, types.ChangeSetTypeCreate, stackTemplate)
	if n := len(set.Changes); n != 9 || set.Changes[0].ResourceChange.Action != types.ChangeActionAdd {
		t.Errorf("%d changes, want 9 that add: %v", n, set.Changes)
	}
	if got := s.stack(t, stackName).StackStatus; got != types.StackStatusReviewInProgress {
		t.Errorf("the stack is %s before the execution, want REVIEW_IN_PROGRESS", got)
	}
	if got := s.execute(t, set); got != types.StackStatusCreateComplete {
		t.Fatalf("the stack is %s:\n%s", got, strings.Join(s.events(t, stackName), "\n"))
	}
	outputs := map[string]string{}
	for _, o := range s.stack(t, stackName).Outputs {
		outputs[*o.OutputKey] = *o.OutputValue
	}
	want := map[string]string{
		"ControllerRole": "arn:aws:iam::000000000000:role/Controller-prod", "QueueName": "Interruptions-prod",
		"Team": "data",
	}
	if diff := cmp.Diff(want, outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	role, err := a.iam().GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("Node-prod")})
	noError(t, err)
	if len(role.Role.Tags) != 1 || *role.Role.Tags[0].Value != "me" {
		t.Errorf("tags of the role = %v, want those of the stack", role.Role.Tags)
	}
	entry, err := eks.NewFromConfig(a.config("tester")).DescribeAccessEntry(t.Context(),
		&eks.DescribeAccessEntryInput{ClusterName: aws.String(clusterName), PrincipalArn: role.Role.Arn})
	noError(t, err)
	if got := entry.AccessEntry.Tags["aws:cloudformation:stack-name"]; got != stackName {
		t.Errorf("tags of the access entry = %v, want CloudFormation's", entry.AccessEntry.Tags)
	}

	config := a.config("nobody")
	path := file(t, tokens.token(t, "kube-system", "karpenter", awssim.PodIdentityAudience))
	config.Credentials = endpointcreds.New(a.url+awssim.AgentPath, func(o *endpointcreds.Options) {
		o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) {
			text, err := os.ReadFile(path)
			return string(text), err
		})
	})
	pod := ec2.NewFromConfig(config)
	_, err = pod.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	noError(t, err)
	_, err = pod.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	denial(t, err, "UnauthorizedOperation", "assumed-role/Controller-prod/")

	id := *set.StackId
	if got := s.delete(t, id); got != types.StackStatusDeleteComplete {
		t.Fatalf("the stack is %s:\n%s", got, strings.Join(s.events(t, id), "\n"))
	}
	_, err = s.client.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{StackName: aws.String(stackName)})
	denial(t, err, "ValidationError", "Stack with id plumbline-prod does not exist")
	if diff := cmp.Diff(before, a.State()); diff != "" {
		t.Errorf("the deletion leaves (-before +after):\n%s", diff)
	}
}

// TestStackEvents: events name each resource in the order of the dependencies, with the token of the caller.
func TestStackEvents(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "tester")
	s.execute(t, s.changeSet(t, types.ChangeSetTypeCreate, only(t, nil, "Policy", "Controller")))
	want := []string{
		"plumbline-prod REVIEW_IN_PROGRESS User Initiated",
		"plumbline-prod CREATE_IN_PROGRESS User Initiated",
		"Policy CREATE_IN_PROGRESS", "Policy CREATE_IN_PROGRESS Resource creation Initiated", "Policy CREATE_COMPLETE",
		"Controller CREATE_IN_PROGRESS", "Controller CREATE_IN_PROGRESS Resource creation Initiated", "Controller CREATE_COMPLETE",
		"plumbline-prod CREATE_COMPLETE",
	}
	if diff := cmp.Diff(want, s.events(t, stackName)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	out, err := s.client.DescribeStackEvents(t.Context(), &cloudformation.DescribeStackEventsInput{StackName: aws.String(stackName)})
	noError(t, err)
	if got := aws.ToString(out.StackEvents[0].ClientRequestToken); got != "run-1" {
		t.Errorf("token of the newest event = %q, want that of the execution", got)
	}
	resources, err := s.client.ListStackResources(t.Context(), &cloudformation.ListStackResourcesInput{StackName: aws.String(stackName)})
	noError(t, err)
	if n := len(resources.StackResourceSummaries); n != 2 || *resources.StackResourceSummaries[0].PhysicalResourceId != "Controller-prod" {
		t.Errorf("resources = %v, want the role and the policy", resources.StackResourceSummaries)
	}
	template, err := s.client.GetTemplate(t.Context(), &cloudformation.GetTemplateInput{StackName: aws.String(stackName)})
	noError(t, err)
	if *template.TemplateBody != only(t, nil, "Policy", "Controller") {
		t.Errorf("template = %s", *template.TemplateBody)
	}
}

// TestChangeSetWithoutChanges fails, in CloudFormation's words, and cannot be executed.
func TestChangeSetWithoutChanges(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "tester")
	s.execute(t, s.changeSet(t, types.ChangeSetTypeCreate, stackTemplate))
	set := s.changeSet(t, types.ChangeSetTypeUpdate, stackTemplate)
	if want := "The submitted information didn't contain changes. Submit different information to create a change set."; set.Status != types.ChangeSetStatusFailed || aws.ToString(set.StatusReason) != want {
		t.Errorf("change set is %s: %s", set.Status, aws.ToString(set.StatusReason))
	}
	_, err := s.client.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{ChangeSetName: set.ChangeSetId})
	wantCode(t, err, "InvalidChangeSetStatus")
	list, err := s.client.ListChangeSets(t.Context(), &cloudformation.ListChangeSetsInput{StackName: aws.String(stackName)})
	noError(t, err)
	if len(list.Summaries) != 2 {
		t.Errorf("change sets = %v, want the executed one and the empty one", list.Summaries)
	}
	_, err = s.client.DeleteChangeSet(t.Context(), &cloudformation.DeleteChangeSetInput{ChangeSetName: set.ChangeSetId})
	noError(t, err)
	_, err = s.client.DescribeChangeSet(t.Context(), &cloudformation.DescribeChangeSetInput{ChangeSetName: set.ChangeSetId})
	wantCode(t, err, "ChangeSetNotFound")
}

// TestStackIsRefused: what CloudFormation refuses before it creates anything.
func TestStackIsRefused(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "tester")
	create := func(change func(*cloudformation.CreateChangeSetInput)) error {
		in := &cloudformation.CreateChangeSetInput{
			StackName: aws.String(stackName), ChangeSetName: aws.String("set"), ChangeSetType: types.ChangeSetTypeCreate,
			TemplateBody: aws.String(stackTemplate),
			Capabilities: []types.Capability{types.CapabilityCapabilityNamedIam},
		}
		change(in)
		_, err := s.client.CreateChangeSet(t.Context(), in)
		return err
	}
	denial(t, create(func(in *cloudformation.CreateChangeSetInput) { in.Capabilities = nil }),
		"InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_NAMED_IAM]")
	denial(t, create(func(in *cloudformation.CreateChangeSetInput) {
		in.Capabilities = []types.Capability{types.CapabilityCapabilityIam}
	}), "InsufficientCapabilitiesException")
	denial(t, create(func(in *cloudformation.CreateChangeSetInput) { in.ChangeSetType = types.ChangeSetTypeUpdate }),
		"ValidationError", "Stack [plumbline-prod] does not exist")
	denial(t, create(func(in *cloudformation.CreateChangeSetInput) {
		in.TemplateBody = aws.String(`{"Resources":{"A":{"Type":"AWS::SQS::Queue","DependsOn":"B"}}}`)
	}), "ValidationError", "Unresolved resource dependencies [B]")
	denial(t, create(func(in *cloudformation.CreateChangeSetInput) {
		in.TemplateBody = aws.String(`{"Resources":{"A":{"Type":"AWS::S3::Bucket"}}}`)
	}), "ValidationError", "Unrecognized resource types: [AWS::S3::Bucket]")
	denial(t, create(func(in *cloudformation.CreateChangeSetInput) {
		in.TemplateBody = aws.String(stackTemplate + strings.Repeat(" ", 51_200))
	}), "ValidationError", "less than or equal to 51200")
	if stacks := s.stackNames(t); len(stacks) != 0 {
		t.Errorf("stacks = %v, want none", stacks)
	}
	noError(t, create(func(*cloudformation.CreateChangeSetInput) {}))
	wantCode(t, create(func(*cloudformation.CreateChangeSetInput) {}), "AlreadyExistsException")
}

func (s *stacks) stackNames(t *testing.T) []string {
	t.Helper()
	out, err := s.client.DescribeStacks(t.Context(), &cloudformation.DescribeStacksInput{})
	noError(t, err)
	var names []string
	for _, st := range out.Stacks {
		names = append(names, *st.StackName)
	}
	return names
}

// TestStackUpdate: an update changes what differs, creates what is new, replaces what cannot change, and deletes the rest.
func TestStackUpdate(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "tester")
	s.execute(t, s.changeSet(t, types.ChangeSetTypeCreate, only(t, nil, "Policy", "Controller", "Queue")))
	next := only(t, func(resources map[string]any) {
		properties(t, resources, "Policy")["PolicyDocument"] = json.RawMessage(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["ec2:DescribeVpcs","ec2:DescribeSubnets"],"Resource":"*"}]}`)
		properties(t, resources, "Controller")["RoleName"] = "Controller-2"
	}, "Policy", "Controller", "NodeRole")
	set := s.changeSet(t, types.ChangeSetTypeUpdate, next)
	got := map[string]string{}
	for _, c := range set.Changes {
		got[*c.ResourceChange.LogicalResourceId] = string(c.ResourceChange.Action) + " " + string(c.ResourceChange.Replacement)
		if *c.ResourceChange.LogicalResourceId != "Policy" {
			continue
		}
		if d := c.ResourceChange.Details[0].Target; *d.Name != "PolicyDocument" || !strings.Contains(*d.AfterValue,
			"ec2:DescribeSubnets") || strings.Contains(*d.BeforeValue, "ec2:DescribeSubnets") {
			t.Errorf("the change of the policy is %v", d)
		}
	}
	if diff := cmp.Diff(map[string]string{
		"Policy": "Modify False", "Controller": "Modify True", "Queue": "Remove ",
		"NodeRole": "Add ",
	}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if got := s.execute(t, set); got != types.StackStatusUpdateComplete {
		t.Fatalf("the stack is %s:\n%s", got, strings.Join(s.events(t, stackName), "\n"))
	}
	version, err := s.iam().GetPolicyVersion(t.Context(),
		&iam.GetPolicyVersionInput{PolicyArn: aws.String("arn:aws:iam::000000000000:policy/Controller-prod"), VersionId: aws.String("v2")})
	noError(t, err)
	if !version.PolicyVersion.IsDefaultVersion || !strings.Contains(*version.PolicyVersion.Document, "DescribeSubnets") {
		t.Errorf("version of the policy = %v", version.PolicyVersion)
	}
	for name, want := range map[string]string{"Controller-prod": "NoSuchEntity", "Controller-2": "", "Node-prod": ""} {
		_, err := s.iam().GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String(name)})
		wantCode(t, err, want)
	}
	if _, ok := s.State().Queues["Interruptions-prod"]; ok {
		t.Error("the queue that the template no longer contains is not deleted")
	}
	if got := s.delete(t, *set.StackId); got != types.StackStatusDeleteComplete {
		t.Fatalf("the stack is %s:\n%s", got, strings.Join(s.events(t, *set.StackId), "\n"))
	}
}

// builder is the policy of a caller who may create all but access entries.
const builder = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","NotAction":"eks:CreateAccessEntry","Resource":"*"}]}`

// TestStackRollsBack: resources are created with the caller's permissions; a denial names the resource, and everything that
// was created before is deleted.
func TestStackRollsBack(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "builder")
	s.as(t, "builder", builder)
	before := s.State()
	set := s.changeSet(t, types.ChangeSetTypeCreate, stackTemplate)
	if got := s.execute(t, set); got != types.StackStatusRollbackComplete {
		t.Fatalf("the stack is %s, want ROLLBACK_COMPLETE", got)
	}
	events := s.events(t, stackName)
	failed := find(events, "CREATE_FAILED")
	want := `Access CREATE_FAILED Resource handler returned message: "User: arn:aws:sts::000000000000:assumed-role/builder/builder is not authorized to perform: eks:CreateAccessEntry on resource: arn:aws:eks:eu-west-1:000000000000:cluster/prod because no identity-based policy allows the eks:CreateAccessEntry action (Service: Eks, Status Code: 403, Request ID: `
	if len(failed) != 1 || !strings.HasPrefix(failed[0], want) || !strings.Contains(failed[0], "HandlerErrorCode: AccessDenied)") {
		t.Errorf("failed: %v", failed)
	}
	if len(find(events, "plumbline-prod ROLLBACK_IN_PROGRESS The following resource(s) failed to create: [Access]. Rollback requested by user.")) != 1 {
		t.Errorf("events do not explain the rollback:\n%s", strings.Join(events, "\n"))
	}
	if diff := cmp.Diff(before, s.State()); diff != "" {
		t.Errorf("the rollback leaves (-before +after):\n%s", diff)
	}
	_, err := s.client.CreateChangeSet(t.Context(), &cloudformation.CreateChangeSetInput{
		StackName: aws.String(stackName), ChangeSetName: aws.String("next"), TemplateBody: aws.String(stackTemplate),
		Capabilities: []types.Capability{types.CapabilityCapabilityNamedIam},
	})
	denial(t, err, "ValidationError", "is in ROLLBACK_COMPLETE state and can not be updated.")
	if got := s.delete(t, *set.StackId); got != types.StackStatusDeleteComplete {
		t.Errorf("the stack is %s, want DELETE_COMPLETE", got)
	}
}

// TestUpdateRollsBack: an update that fails is reverted; a rollback that fails is continued once its reason is gone.
func TestUpdateRollsBack(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "tester")
	s.execute(t, s.changeSet(t, types.ChangeSetTypeCreate, only(t, nil, "Policy", "Controller")))
	next := only(t, func(resources map[string]any) {
		properties(t, resources, "Policy")["PolicyDocument"] = json.RawMessage(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:*","Resource":"*"}]}`)
		properties(t, resources, "Controller")["Description"] = "changed"
	}, "Policy", "Controller", "Queue")
	allowed := func() bool {
		p, err := s.iam().GetPolicy(t.Context(), &iam.GetPolicyInput{PolicyArn: aws.String("arn:aws:iam::000000000000:policy/Controller-prod")})
		noError(t, err)
		v, err := s.iam().GetPolicyVersion(t.Context(), &iam.GetPolicyVersionInput{PolicyArn: p.Policy.Arn, VersionId: p.Policy.DefaultVersionId})
		noError(t, err)
		return strings.Contains(*v.PolicyVersion.Document, "ec2:%2A") || strings.Contains(*v.PolicyVersion.Document, "ec2:*")
	}
	s.fault(t, awssim.Fault{Service: "sqs", Action: "CreateQueue", Kind: awssim.Deny})
	if got := s.execute(t, s.changeSet(t, types.ChangeSetTypeUpdate, next)); got != types.StackStatusUpdateRollbackComplete {
		t.Fatalf("the stack is %s:\n%s", got, strings.Join(s.events(t, stackName), "\n"))
	}
	if allowed() {
		t.Error("the policy was not reverted")
	}
	if len(find(s.events(t, stackName), "plumbline-prod UPDATE_ROLLBACK_IN_PROGRESS The following resource(s) failed to create: [Queue].")) != 1 {
		t.Errorf("events do not explain the rollback:\n%s", strings.Join(s.events(t, stackName), "\n"))
	}

	_, err := s.client.DeleteChangeSet(t.Context(), &cloudformation.DeleteChangeSetInput{
		StackName:     aws.String(stackName),
		ChangeSetName: aws.String("set-UPDATE"),
	})
	noError(t, err)
	set := s.changeSet(t, types.ChangeSetTypeUpdate, next)
	s.fault(t, awssim.Fault{Service: "iam", Action: "UpdateRole", Kind: awssim.Deny})
	if got := s.execute(t, set); got != types.StackStatusUpdateRollbackFailed {
		t.Fatalf("the stack is %s, want UPDATE_ROLLBACK_FAILED:\n%s", got, strings.Join(s.events(t, stackName), "\n"))
	}
	s.RemoveFaults("")
	_, err = s.client.ContinueUpdateRollback(t.Context(), &cloudformation.ContinueUpdateRollbackInput{StackName: aws.String(stackName)})
	noError(t, err)
	if got := s.settled(t, stackName); got != types.StackStatusUpdateRollbackComplete {
		t.Fatalf("the stack is %s:\n%s", got, strings.Join(s.events(t, stackName), "\n"))
	}
	if allowed() {
		t.Error("the policy was not reverted")
	}
}

// TestThrottledStack: CloudFormation retries throttled calls.
func TestThrottledStack(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "tester")
	s.fault(t, awssim.Fault{Service: "iam", Action: "CreateRole", Kind: awssim.Throttle, Count: 2})
	if got := s.execute(t, s.changeSet(t, types.ChangeSetTypeCreate, only(t, nil, "NodeRole"))); got != types.StackStatusCreateComplete {
		t.Errorf("the stack is %s, want CREATE_COMPLETE", got)
	}
	calls := s.Calls("iam", "CreateRole")
	if len(calls) != 3 || calls[2].UserAgent != "cloudformation.amazonaws.com" || calls[2].AccessKey != "tester" {
		t.Errorf("calls = %+v, want three by CloudFormation for its caller", calls)
	}
}

// TestStackContinuesAlone: a caller that goes away after the execution's start does not stop it.
func TestStackContinuesAlone(t *testing.T) {
	s := newStacks(t, awssim.Options{ResourceTime: 20 * time.Millisecond}, "tester")
	set := s.changeSet(t, types.ChangeSetTypeCreate, stackTemplate)
	_, err := s.client.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{ChangeSetName: set.ChangeSetId})
	noError(t, err)
	_, err = s.client.ExecuteChangeSet(t.Context(), &cloudformation.ExecuteChangeSetInput{ChangeSetName: set.ChangeSetId})
	denial(t, err, "InvalidChangeSetStatus", "cannot be executed in its current status of [EXECUTE_IN_PROGRESS]")
	_, err = s.client.DeleteStack(t.Context(), &cloudformation.DeleteStackInput{StackName: aws.String(stackName)})
	denial(t, err, "ValidationError", "cannot be deleted while in status CREATE_IN_PROGRESS")
	later := s.stacks("tester")
	if got := later.settled(t, stackName); got != types.StackStatusCreateComplete {
		t.Errorf("the stack is %s, want CREATE_COMPLETE", got)
	}
}

// TestImport: an existing role becomes part of a stack as it is; one that does not exist is refused.
func TestImport(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "tester")
	template := only(t, func(resources map[string]any) {
		role, ok := resources["NodeRole"].(map[string]any)
		if ok {
			role["DeletionPolicy"] = "Retain"
		}
	}, "NodeRole")
	role := types.ResourceToImport{
		LogicalResourceId: aws.String("NodeRole"), ResourceType: aws.String("AWS::IAM::Role"),
		ResourceIdentifier: map[string]string{"RoleName": "Node-prod"},
	}
	set := s.changeSet(t, types.ChangeSetTypeImport, template, role)
	if got := s.execute(t, set); got != types.StackStatusImportRollbackComplete {
		t.Fatalf("the stack is %s:\n%s", got, strings.Join(s.events(t, stackName), "\n"))
	}
	if got := s.delete(t, *set.StackId); got != types.StackStatusDeleteComplete {
		t.Fatalf("the stack is %s", got)
	}
}

// TestImportAndUndo: an imported role keeps its trust, gets the stack's tags, and is kept when the stack is deleted.
func TestImportAndUndo(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "tester")
	noError(t, s.AddRole(awssim.Role{Name: "Node-prod", Trust: awssim.Trusted("lambda.amazonaws.com")}))
	template := only(t, func(resources map[string]any) {
		role, ok := resources["NodeRole"].(map[string]any)
		if ok {
			role["DeletionPolicy"] = "Retain"
		}
	}, "NodeRole")
	set := s.changeSet(t, types.ChangeSetTypeImport, template, types.ResourceToImport{
		LogicalResourceId: aws.String("NodeRole"), ResourceType: aws.String("AWS::IAM::Role"),
		ResourceIdentifier: map[string]string{"RoleName": "Node-prod"},
	})
	if c := set.Changes[0].ResourceChange; c.Action != types.ChangeActionImport || aws.ToString(c.PhysicalResourceId) != "Node-prod" {
		t.Errorf("change = %v, want an import", c)
	}
	if got := s.execute(t, set); got != types.StackStatusImportComplete {
		t.Fatalf("the stack is %s:\n%s", got, strings.Join(s.events(t, stackName), "\n"))
	}
	if got := s.delete(t, *set.StackId); got != types.StackStatusDeleteComplete {
		t.Fatalf("the stack is %s", got)
	}
	role, err := s.iam().GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("Node-prod")})
	noError(t, err)
	if !strings.Contains(*role.Role.AssumeRolePolicyDocument, "lambda.amazonaws.com") || len(role.Role.Tags) != 1 {
		t.Errorf("role = %v, want its own trust and the stack's tag", role.Role)
	}
}

// TestQueueOfAnother: a queue or a role that another has created fails the stack, and is not touched.
func TestQueueOfAnother(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "tester")
	client := sqs.NewFromConfig(s.config("tester"))
	_, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("Interruptions-prod")})
	noError(t, err)
	if got := s.execute(t, s.changeSet(t, types.ChangeSetTypeCreate, only(t, nil, "Queue",
		"QueuePolicy"))); got != types.StackStatusRollbackComplete {
		t.Fatalf("the stack is %s, want ROLLBACK_COMPLETE", got)
	}
	if len(find(s.events(t, stackName), "Queue CREATE_FAILED Resource handler returned message: \"Resource of type 'AWS::SQS::Queue' with identifier 'Interruptions-prod' already exists.\"")) != 1 {
		t.Errorf("events:\n%s", strings.Join(s.events(t, stackName), "\n"))
	}
	if _, ok := s.State().Queues["Interruptions-prod"]; !ok {
		t.Error("the rollback deletes the queue of another")
	}
}

// TestDeletionFails: what another has attached keeps a role, and the stack names it.
func TestDeletionFails(t *testing.T) {
	s := newStacks(t, awssim.Options{}, "tester")
	set := s.changeSet(t, types.ChangeSetTypeCreate, only(t, nil, "Policy", "Controller"))
	s.execute(t, set)
	_, err := s.iam().AttachRolePolicy(t.Context(), &iam.AttachRolePolicyInput{
		RoleName:  aws.String("Controller-prod"),
		PolicyArn: aws.String("arn:aws:iam::aws:policy/AdministratorAccess"),
	})
	noError(t, err)
	if got := s.delete(t, *set.StackId); got != types.StackStatusDeleteFailed {
		t.Fatalf("the stack is %s, want DELETE_FAILED", got)
	}
	if got := aws.ToString(s.stack(t, stackName).StackStatusReason); got != "The following resource(s) failed to delete: [Controller]. " {
		t.Errorf("reason = %q", got)
	}
	_, err = s.iam().DetachRolePolicy(t.Context(), &iam.DetachRolePolicyInput{
		RoleName:  aws.String("Controller-prod"),
		PolicyArn: aws.String("arn:aws:iam::aws:policy/AdministratorAccess"),
	})
	noError(t, err)
	if got := s.delete(t, *set.StackId); got != types.StackStatusDeleteComplete {
		t.Fatalf("the stack is %s:\n%s", got, strings.Join(s.events(t, *set.StackId), "\n"))
	}
}
