package awssim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/cloudformation"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/template"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// stack is a stack of CloudFormation: resources of other services that are created, changed and deleted together. A
// deleted one is kept, and is found by its ID only.
type stack struct {
	id, name         string
	status, reason   string
	created, deleted time.Time
	updated          time.Time
	executed         string // ID of the change set that was executed last
	token            string // ClientRequestToken of the operation in progress
	desired
	resources  map[string]*stackResource // by logical ID
	outputs    []*cloudformation.Output
	events     []*cloudformation.StackEvent // the oldest first
	changeSets map[string]*changeSet        // by name
	failed     failedUpdate
}

// desired is what a stack should consist of.
type desired struct {
	template     *template.Template
	given        map[string]string // parameters
	tags         map[string]string
	capabilities []string
}

// stackResource is a resource of a stack. Attributes are those of Fn::GetAtt.
type stackResource struct {
	logicalID, kind, physicalID string
	status, reason              string
	changed                     time.Time
	declared                    template.Resource
	properties                  map[string]any // resolved, as last applied
	tags                        map[string]string
	attributes                  map[string]string
}

// The states of stacks and of their resources that are not made of a verb:
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html
const (
	stackReview   = "REVIEW_IN_PROGRESS"
	stackDeleted  = "DELETE_COMPLETE"
	inProgress    = "_IN_PROGRESS"
	complete      = "_COMPLETE"
	hasFailed     = "_FAILED"
	deleteSkipped = "DELETE_SKIPPED"
	stackType     = "AWS::CloudFormation::Stack"
	byUser        = "User Initiated"
)

func (a *account) cloudFormationService() service {
	return service{
		name: "cloudformation", protocol: wire.Query, namespace: "http://cloudformation.amazonaws.com/doc/2010-05-15/",
		denied: "AccessDenied", throttled: "Throttling", unknown: "InvalidAction",
		actions: merged(a.changeSetActions(), map[string]action{
			"ValidateTemplate":       query(a, a.validateTemplate),
			"GetTemplate":            query(a, a.getTemplate),
			"DescribeStacks":         query(a, a.describeStacks),
			"ListStacks":             query(a, a.listStacks),
			"DescribeStackEvents":    query(a, a.describeStackEvents),
			"DescribeStackResource":  query(a, a.describeStackResource),
			"DescribeStackResources": query(a, a.describeStackResources),
			"ListStackResources":     query(a, a.listStackResources),
			"DeleteStack":            query(a, a.deleteStack),
			"ContinueUpdateRollback": query(a, a.continueUpdateRollback),
		}),
	}
}

// invalidStack is CloudFormation's error for everything that is wrong with a request.
func invalidStack(format string, args ...any) error {
	return wire.Errorf("ValidationError", format, args...)
}

// findStack returns a stack by its name or its ID. A deleted stack has no name.
func (a *account) findStack(name *string) (*stack, error) {
	asked := aws.StringValue(name)
	for _, st := range a.stacks {
		if st.id == asked || st.name == asked && st.status != stackDeleted {
			return st, nil
		}
	}
	return nil, invalidStack("Stack with id %s does not exist", asked)
}

func (a *account) newStack(name string) *stack {
	st := &stack{
		id: a.arn("cloudformation", a.options.Region, "stack/"+name+"/"+newRequestID()), name: name, created: a.now,
		resources: map[string]*stackResource{}, changeSets: map[string]*changeSet{},
	}
	a.stacks = append(a.stacks, st)
	return st
}

// enter changes the status of a stack, with an event.
func (a *account) enter(st *stack, status, reason string) {
	st.status, st.reason = status, reason
	a.addEvent(st, &cloudformation.StackEvent{
		EventId: aws.String(newRequestID()), LogicalResourceId: aws.String(st.name), PhysicalResourceId: aws.String(st.id),
		ResourceType:   aws.String(stackType),
		ResourceStatus: aws.String(status), ResourceStatusReason: optional(reason),
	})
}

// mark changes the status of a resource of a stack, with an event.
func (a *account) mark(st *stack, r *stackResource, status, reason string) {
	r.status, r.reason, r.changed = status, reason, a.now
	a.addEvent(st, &cloudformation.StackEvent{
		EventId:           aws.String(fmt.Sprintf("%s-%s-%d", r.logicalID, status, len(st.events))),
		LogicalResourceId: aws.String(r.logicalID), PhysicalResourceId: aws.String(r.physicalID), ResourceType: aws.String(r.kind),
		ResourceStatus: aws.String(status), ResourceStatusReason: optional(reason), ResourceProperties: optional(jsonText(r.properties)),
	})
}

func (a *account) addEvent(st *stack, e *cloudformation.StackEvent) {
	e.StackId, e.StackName, e.Timestamp, e.ClientRequestToken = aws.String(st.id), aws.String(st.name), aws.Time(a.now), optional(st.token)
	st.events = append(st.events, e)
}

// optional returns nil for the empty string.
func optional(s string) *string {
	if s == "" {
		return nil
	}
	return aws.String(s)
}

func (a *account) describeStacks(_ *request, in *cloudformation.DescribeStacksInput) (*cloudformation.DescribeStacksOutput, error) {
	out := &cloudformation.DescribeStacksOutput{Stacks: []*cloudformation.Stack{}}
	if in.StackName != nil {
		st, err := a.findStack(in.StackName)
		if err != nil {
			return nil, err
		}
		out.Stacks = append(out.Stacks, st.describe())
		return out, nil
	}
	for _, st := range a.stacks {
		if st.status != stackDeleted {
			out.Stacks = append(out.Stacks, st.describe())
		}
	}
	return out, nil
}

func (st *stack) describe() *cloudformation.Stack {
	return &cloudformation.Stack{
		StackId: aws.String(st.id), StackName: aws.String(st.name), StackStatus: aws.String(st.status), StackStatusReason: optional(st.reason),
		CreationTime: aws.Time(st.created), LastUpdatedTime: when(st.updated), DeletionTime: when(st.deleted), ChangeSetId: optional(st.executed),
		Description: optional(st.description()), Parameters: st.parameters(), Tags: stackTags(st.tags),
		Capabilities: aws.StringSlice(st.capabilities),
		Outputs:      st.outputs, DisableRollback: aws.Bool(false), EnableTerminationProtection: aws.Bool(false),
		DriftInformation: &cloudformation.StackDriftInformation{StackDriftStatus: aws.String("NOT_CHECKED")},
	}
}

func when(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return aws.Time(t)
}

func (d desired) description() string {
	if d.template == nil {
		return ""
	}
	return d.template.Description
}

// parameters returns the parameters with their values; those of NoEcho are hidden.
func (d desired) parameters() []*cloudformation.Parameter {
	list := []*cloudformation.Parameter{}
	if d.template == nil {
		return list
	}
	for _, name := range slices.Sorted(maps.Keys(d.template.Parameters)) {
		p := d.template.Parameters[name]
		value, ok := d.given[name]
		if !ok {
			value = template.Text(p.Default)
		}
		if p.Hidden() {
			value = "****"
		}
		list = append(list, &cloudformation.Parameter{ParameterKey: aws.String(name), ParameterValue: aws.String(value)})
	}
	return list
}

func stackTags(m map[string]string) []*cloudformation.Tag {
	tags := []*cloudformation.Tag{}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		tags = append(tags, &cloudformation.Tag{Key: aws.String(key), Value: aws.String(m[key])})
	}
	return tags
}

func (a *account) listStacks(_ *request, in *cloudformation.ListStacksInput) (*cloudformation.ListStacksOutput, error) {
	out := &cloudformation.ListStacksOutput{StackSummaries: []*cloudformation.StackSummary{}}
	wanted := aws.StringValueSlice(in.StackStatusFilter)
	for _, st := range slices.Backward(a.stacks) {
		if len(wanted) == 0 || slices.Contains(wanted, st.status) {
			out.StackSummaries = append(out.StackSummaries, &cloudformation.StackSummary{
				StackId: aws.String(st.id), StackName: aws.String(st.name), StackStatus: aws.String(st.status), StackStatusReason: optional(st.reason),
				CreationTime: aws.Time(st.created), LastUpdatedTime: when(st.updated), DeletionTime: when(st.deleted),
				TemplateDescription: optional(st.description()),
			})
		}
	}
	return out, nil
}

// eventsPerPage is CloudFormation's page size of events.
const eventsPerPage = 100

// describeStackEvents lists the newest first. The token is the number of events that are still to be listed.
func (a *account) describeStackEvents(
	_ *request, in *cloudformation.DescribeStackEventsInput,
) (*cloudformation.DescribeStackEventsOutput, error) {
	st, err := a.findStack(in.StackName)
	if err != nil {
		return nil, err
	}
	end := len(st.events)
	if in.NextToken != nil {
		if end, err = strconv.Atoi(*in.NextToken); err != nil || end < 0 || end > len(st.events) {
			return nil, invalidStack("Token has expired.")
		}
	}
	start := max(0, end-eventsPerPage)
	page := slices.Clone(st.events[start:end])
	slices.Reverse(page)
	out := &cloudformation.DescribeStackEventsOutput{StackEvents: page}
	if start > 0 {
		out.NextToken = aws.String(strconv.Itoa(start))
	}
	return out, nil
}

// listed returns the resources of a stack, sorted by logical ID.
func (st *stack) listed() []*stackResource {
	return slices.SortedFunc(maps.Values(st.resources), func(x, y *stackResource) int { return cmp.Compare(x.logicalID, y.logicalID) })
}

func (a *account) describeStackResources(
	_ *request, in *cloudformation.DescribeStackResourcesInput,
) (*cloudformation.DescribeStackResourcesOutput, error) {
	st, err := a.findStack(in.StackName)
	if err != nil {
		return nil, err
	}
	out := &cloudformation.DescribeStackResourcesOutput{StackResources: []*cloudformation.StackResource{}}
	for _, r := range st.listed() {
		if in.LogicalResourceId != nil && *in.LogicalResourceId != r.logicalID {
			continue
		}
		out.StackResources = append(out.StackResources, &cloudformation.StackResource{
			StackId: aws.String(st.id), StackName: aws.String(st.name), LogicalResourceId: aws.String(r.logicalID),
			PhysicalResourceId: optional(r.physicalID),
			ResourceType:       aws.String(r.kind), ResourceStatus: aws.String(r.status), ResourceStatusReason: optional(r.reason),
			Timestamp:        aws.Time(r.changed),
			DriftInformation: &cloudformation.StackResourceDriftInformation{StackResourceDriftStatus: aws.String("NOT_CHECKED")},
		})
	}
	return out, nil
}

func (a *account) describeStackResource(
	_ *request, in *cloudformation.DescribeStackResourceInput,
) (*cloudformation.DescribeStackResourceOutput, error) {
	st, err := a.findStack(in.StackName)
	if err != nil {
		return nil, err
	}
	r, ok := st.resources[aws.StringValue(in.LogicalResourceId)]
	if !ok {
		return nil, invalidStack("Resource %s does not exist for stack %s", aws.StringValue(in.LogicalResourceId), st.name)
	}
	return &cloudformation.DescribeStackResourceOutput{StackResourceDetail: &cloudformation.StackResourceDetail{
		StackId: aws.String(st.id), StackName: aws.String(st.name), LogicalResourceId: aws.String(r.logicalID),
		PhysicalResourceId: optional(r.physicalID),
		ResourceType:       aws.String(r.kind), ResourceStatus: aws.String(r.status), ResourceStatusReason: optional(r.reason),
		LastUpdatedTimestamp: aws.Time(r.changed),
	}}, nil
}

func (a *account) listStackResources(
	_ *request, in *cloudformation.ListStackResourcesInput,
) (*cloudformation.ListStackResourcesOutput, error) {
	st, err := a.findStack(in.StackName)
	if err != nil {
		return nil, err
	}
	out := &cloudformation.ListStackResourcesOutput{StackResourceSummaries: []*cloudformation.StackResourceSummary{}}
	for _, r := range st.listed() {
		out.StackResourceSummaries = append(out.StackResourceSummaries, &cloudformation.StackResourceSummary{
			LogicalResourceId: aws.String(r.logicalID), PhysicalResourceId: optional(r.physicalID), ResourceType: aws.String(r.kind),
			ResourceStatus: aws.String(r.status), ResourceStatusReason: optional(r.reason), LastUpdatedTimestamp: aws.Time(r.changed),
		})
	}
	return out, nil
}

func (a *account) getTemplate(_ *request, in *cloudformation.GetTemplateInput) (*cloudformation.GetTemplateOutput, error) {
	var of desired
	if in.ChangeSetName != nil {
		set, err := a.findChangeSet(in.ChangeSetName, in.StackName)
		if err != nil {
			return nil, err
		}
		of = set.desired
	} else {
		st, err := a.findStack(in.StackName)
		if err != nil {
			return nil, err
		}
		of = st.desired
	}
	if of.template == nil {
		return nil, invalidStack("Stack with id %s does not have a template", aws.StringValue(in.StackName))
	}
	return &cloudformation.GetTemplateOutput{
		TemplateBody: aws.String(of.template.Text), StagesAvailable: aws.StringSlice([]string{"Original", "Processed"}),
	}, nil
}

func (a *account) validateTemplate(_ *request, in *cloudformation.ValidateTemplateInput) (*cloudformation.ValidateTemplateOutput, error) {
	t, err := parseTemplate(in.TemplateBody, in.TemplateURL)
	if err != nil {
		return nil, err
	}
	out := &cloudformation.ValidateTemplateOutput{Description: optional(t.Description), Parameters: []*cloudformation.TemplateParameter{}}
	if required := requiredCapability(t); required != "" {
		out.Capabilities = aws.StringSlice([]string{required})
		out.CapabilitiesReason = aws.String("The following resource(s) require capabilities: [" + strings.Join(iamTypes(t), ", ") + "]")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Parameters)) {
		p := t.Parameters[name]
		out.Parameters = append(out.Parameters, &cloudformation.TemplateParameter{
			ParameterKey: aws.String(name), DefaultValue: optional(template.Text(p.Default)), NoEcho: aws.Bool(p.Hidden()),
			Description: optional(p.Description),
		})
	}
	return out, nil
}

// largestTemplate is the largest template in a request, in bytes:
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
const largestTemplate = 51_200

// parseTemplate reads the template of a request, and checks it as CloudFormation does before it creates anything.
func parseTemplate(body, url *string) (*template.Template, error) {
	switch {
	case url != nil:
		return nil, invalidStack("TemplateURL must be a supported URL: the simulator has no S3; send the template in TemplateBody.")
	case body == nil:
		return nil, invalidStack("Either Template URL or Template Body must be specified.")
	case len(*body) > largestTemplate:
		return nil, invalidStack("1 validation error detected: Value at 'templateBody' failed to satisfy constraint: Member must have length less than or equal to %d", largestTemplate)
	}
	t, err := template.Parse(*body)
	if err != nil {
		return nil, invalidStack("%v", err)
	}
	var unknown []string
	for _, name := range t.Names() {
		if _, ok := resourceKinds[t.Resources[name].Type]; !ok {
			unknown = append(unknown, t.Resources[name].Type)
		}
	}
	if len(unknown) > 0 {
		return nil, invalidStack("Template format error: Unrecognized resource types: [%s]", strings.Join(unknown, ", "))
	}
	return t, nil
}

// iamTypes returns the types of a template's resources that need a capability.
func iamTypes(t *template.Template) []string {
	var types []string
	for _, r := range t.Resources {
		if strings.HasPrefix(r.Type, "AWS::IAM::") && r.Type != oidcType {
			types = append(types, r.Type)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}

// requiredCapability returns the capability that a template needs: CAPABILITY_NAMED_IAM if it names an IAM resource.
func requiredCapability(t *template.Template) string {
	if len(iamTypes(t)) == 0 {
		return ""
	}
	for _, r := range t.Resources {
		if name := resourceKinds[r.Type].name; strings.HasPrefix(r.Type, "AWS::IAM::") && name != "" && r.Properties[name] != nil {
			return cloudformation.CapabilityCapabilityNamedIam
		}
	}
	return cloudformation.CapabilityCapabilityIam
}
