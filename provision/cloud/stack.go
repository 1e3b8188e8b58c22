package cloud

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
)

// Stack is one of CloudFormation.
type Stack struct {
	Name, ID string
	// Status in CloudFormation's terms: CREATE_COMPLETE, … Reason is empty if there is none.
	Status, Reason string
	Outputs        map[string]string
}

// StackEvent is one event of a stack.
type StackEvent struct {
	// Event identifies it. ID is the logical ID of the resource, Name its name or ARN in AWS, which is empty before it has
	// one, and Type its type, such as AWS::IAM::Role.
	Event, ID, Name, Type string
	Status, Reason        string
	Time                  time.Time
	// Token is that of the request that the event belongs to; empty if it had none.
	Token string
}

// OfStack reports whether the event is about the stack itself.
func (e StackEvent) OfStack() bool { return e.Type == "AWS::CloudFormation::Stack" }

// ChangeSet is what CloudFormation would change in a stack.
type ChangeSet struct {
	ID string
	// Status is CREATE_COMPLETE if it can be executed, and FAILED if it has no changes, or is refused for a Reason.
	Status, Reason string
	Changes        []StackChange
}

// Pending reports whether CloudFormation still computes it.
func (s ChangeSet) Pending() bool {
	return s.Status == "CREATE_PENDING" || s.Status == "CREATE_IN_PROGRESS"
}

// Empty reports whether it failed because there is nothing to change.
func (s ChangeSet) Empty() bool {
	return s.Status == "FAILED" &&
		(strings.Contains(s.Reason, "didn't contain changes") || strings.Contains(s.Reason, "No updates are to be performed"))
}

// StackChange is one change of a resource.
type StackChange struct {
	// Action is Add, Modify, Remove or Import. ID is the resource's logical ID, Name its name or ARN in AWS if it exists.
	Action, ID, Name, Type string
	// Replacement is True, False or Conditional for Modify.
	Replacement string
	// Properties are those that change.
	Properties []string
}

// ChangeSetRequest requests a change set.
type ChangeSetRequest struct {
	// Stack is the name of the stack, and Name that of the change set, which is unique in it.
	Stack, Name string
	// Kind is CREATE, UPDATE or IMPORT.
	Kind string
	// Template is JSON.
	Template string
	// Tags are those of the stack, which its resources get.
	Tags map[string]string
	// Import are the resources to import: their logical IDs, with type and identifier.
	Import []ImportedResource
	Token  string
}

// ImportedResource is one that a stack adopts.
type ImportedResource struct {
	ID, Type   string
	Identifier map[string]string
}

// Stack returns a stack by its name, or by its ID even after it is deleted; nil if there is none.
func (c *Client) Stack(ctx context.Context, name string) (*Stack, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.stacks.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: aws.String(name)})
	switch {
	case err != nil && noStack(err):
		return nil, nil
	case err != nil:
		return nil, c.named("cloudformation:DescribeStacks", err)
	case len(out.Stacks) == 0:
		return nil, nil
	}
	found := out.Stacks[0]
	stack := &Stack{
		Name: aws.ToString(found.StackName), ID: aws.ToString(found.StackId),
		Status: string(found.StackStatus), Reason: aws.ToString(found.StackStatusReason), Outputs: map[string]string{},
	}
	for _, output := range found.Outputs {
		stack.Outputs[aws.ToString(output.OutputKey)] = aws.ToString(output.OutputValue)
	}
	return stack, nil
}

// noStack reports whether an error means that a stack does not exist: CloudFormation has no code of its own for that.
func noStack(err error) bool {
	var answer interface{ ErrorCode() string }
	return errors.As(err, &answer) && answer.ErrorCode() == "ValidationError" && strings.Contains(err.Error(), "does not exist")
}

// StackTemplate returns a stack's template as it was given; empty if it has none yet.
func (c *Client) StackTemplate(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out, err := c.stacks.GetTemplate(ctx, &cloudformation.GetTemplateInput{
		StackName: aws.String(name), TemplateStage: cfntypes.TemplateStageOriginal,
	})
	switch {
	case err != nil && noStack(err):
		return "", nil
	case err != nil:
		return "", c.named("cloudformation:GetTemplate", err)
	}
	return aws.ToString(out.TemplateBody), nil
}

// StackEvents returns the events of a stack after one of them, the newest first; all of its last 100 or more if after is
// empty or not found in these.
func (c *Client) StackEvents(ctx context.Context, stack, after string) ([]StackEvent, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var events []StackEvent
	pages := cloudformation.NewDescribeStackEventsPaginator(c.stacks, &cloudformation.DescribeStackEventsInput{StackName: aws.String(stack)})
	for pages.HasMorePages() && len(events) < 100 {
		page, err := pages.NextPage(ctx)
		switch {
		case err != nil && noStack(err):
			return nil, nil
		case err != nil:
			return nil, c.named("cloudformation:DescribeStackEvents", err)
		}
		for i := range page.StackEvents {
			e := &page.StackEvents[i]
			if after != "" && aws.ToString(e.EventId) == after {
				return events, nil
			}
			events = append(events, StackEvent{
				Event: aws.ToString(e.EventId), ID: aws.ToString(e.LogicalResourceId), Name: aws.ToString(e.PhysicalResourceId),
				Type: aws.ToString(e.ResourceType), Status: string(e.ResourceStatus), Reason: aws.ToString(e.ResourceStatusReason),
				Time: aws.ToTime(e.Timestamp), Token: aws.ToString(e.ClientRequestToken),
			})
		}
	}
	return events, nil
}

// ChangeSet returns a change set with all of its changes.
func (c *Client) ChangeSet(ctx context.Context, stack, id string) (ChangeSet, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	found := ChangeSet{ID: id}
	in := &cloudformation.DescribeChangeSetInput{StackName: aws.String(stack), ChangeSetName: aws.String(id)}
	for {
		out, err := c.stacks.DescribeChangeSet(ctx, in)
		if err != nil {
			return found, c.named("cloudformation:DescribeChangeSet", err)
		}
		found.Status, found.Reason = string(out.Status), aws.ToString(out.StatusReason)
		for _, change := range out.Changes {
			if change.ResourceChange != nil {
				found.Changes = append(found.Changes, changeOf(change.ResourceChange))
			}
		}
		if aws.ToString(out.NextToken) == "" {
			return found, nil
		}
		in.NextToken = out.NextToken
	}
}

func changeOf(r *cfntypes.ResourceChange) StackChange {
	change := StackChange{
		Action: string(r.Action), ID: aws.ToString(r.LogicalResourceId), Name: aws.ToString(r.PhysicalResourceId),
		Type: aws.ToString(r.ResourceType), Replacement: string(r.Replacement),
	}
	for _, detail := range r.Details {
		if detail.Target != nil && aws.ToString(detail.Target.Name) != "" {
			change.Properties = append(change.Properties, aws.ToString(detail.Target.Name))
		}
	}
	change.Properties = distinct(change.Properties)
	return change
}

// Provisioner creates and deletes what a cluster needs in AWS, for `plumbline bootstrap`. No reconcile uses it.
type Provisioner struct {
	*Client
	reached func(point string)
}

// NewProvisioner returns a Provisioner. It makes no request.
func NewProvisioner(ctx context.Context, o Options) (*Provisioner, error) {
	client, err := New(ctx, o)
	if o.Reached == nil {
		o.Reached = func(string) {}
	}
	return &Provisioner{client, o.Reached}, err
}

// request makes one request within its timeout.
func (p *Provisioner) request(ctx context.Context, action string, do func(ctx context.Context) error) error {
	ctx, stop := context.WithTimeout(ctx, p.timeout)
	defer stop()
	p.reached("before " + action)
	err := do(ctx)
	p.reached("after " + action)
	if err != nil {
		return p.named(action, err)
	}
	return nil
}

// CreateChangeSet requests a change set, and returns its ID. CloudFormation computes it afterwards.
func (p *Provisioner) CreateChangeSet(ctx context.Context, r ChangeSetRequest) (id string, err error) {
	in := &cloudformation.CreateChangeSetInput{
		StackName: aws.String(r.Stack), ChangeSetName: aws.String(r.Name), ChangeSetType: cfntypes.ChangeSetType(r.Kind),
		TemplateBody: aws.String(r.Template), Capabilities: []cfntypes.Capability{cfntypes.CapabilityCapabilityNamedIam},
	}
	if r.Token != "" {
		in.ClientToken = aws.String(r.Token)
	}
	for key, value := range r.Tags {
		in.Tags = append(in.Tags, cfntypes.Tag{Key: aws.String(key), Value: aws.String(value)})
	}
	for _, one := range r.Import {
		in.ResourcesToImport = append(in.ResourcesToImport, cfntypes.ResourceToImport{
			LogicalResourceId: aws.String(one.ID), ResourceType: aws.String(one.Type), ResourceIdentifier: one.Identifier,
		})
	}
	err = p.request(ctx, "cloudformation:CreateChangeSet", func(ctx context.Context) error {
		out, err := p.stacks.CreateChangeSet(ctx, in)
		if err == nil {
			id = aws.ToString(out.Id)
		}
		return err
	})
	return id, err
}

// ExecuteChangeSet starts what a change set describes. The token identifies it in the stack's events.
func (p *Provisioner) ExecuteChangeSet(ctx context.Context, stack, id, token string) error {
	return p.request(ctx, "cloudformation:ExecuteChangeSet", func(ctx context.Context) error {
		_, err := p.stacks.ExecuteChangeSet(ctx, &cloudformation.ExecuteChangeSetInput{
			StackName: aws.String(stack), ChangeSetName: aws.String(id), ClientRequestToken: aws.String(token),
		})
		return err
	})
}

// DeleteChangeSet deletes one that is not executed. One that does not exist is no error.
func (p *Provisioner) DeleteChangeSet(ctx context.Context, stack, id string) error {
	err := p.request(ctx, "cloudformation:DeleteChangeSet", func(ctx context.Context) error {
		_, err := p.stacks.DeleteChangeSet(ctx, &cloudformation.DeleteChangeSetInput{StackName: aws.String(stack), ChangeSetName: aws.String(id)})
		return err
	})
	var answer *AnswerError
	if errors.As(err, &answer) && (answer.Code == "ChangeSetNotFound" || answer.Code == "ChangeSetNotFoundException") {
		return nil
	}
	return err
}

// DeleteStack starts the deletion of a stack.
func (p *Provisioner) DeleteStack(ctx context.Context, stack, token string) error {
	return p.request(ctx, "cloudformation:DeleteStack", func(ctx context.Context) error {
		_, err := p.stacks.DeleteStack(ctx, &cloudformation.DeleteStackInput{StackName: aws.String(stack), ClientRequestToken: aws.String(token)})
		return err
	})
}

// ContinueRollback starts the rest of an update's rollback that failed.
func (p *Provisioner) ContinueRollback(ctx context.Context, stack, token string) error {
	return p.request(ctx, "cloudformation:ContinueUpdateRollback", func(ctx context.Context) error {
		_, err := p.stacks.ContinueUpdateRollback(ctx, &cloudformation.ContinueUpdateRollbackInput{
			StackName: aws.String(stack), ClientRequestToken: aws.String(token),
		})
		return err
	})
}

// SpotRole is the service-linked role without which EC2 launches no spot instances in an account:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
const SpotRole = "AWSServiceRoleForEC2Spot"

// SpotService is the service that SpotRole belongs to.
const SpotService = "spot.amazonaws.com"

// CreateSpotRole creates SpotRole. created is false if it exists.
func (p *Provisioner) CreateSpotRole(ctx context.Context) (created bool, err error) {
	err = p.request(ctx, "iam:CreateServiceLinkedRole", func(ctx context.Context) error {
		_, err := p.iam.CreateServiceLinkedRole(ctx, &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String(SpotService)})
		return err
	})
	var answer *AnswerError
	if errors.As(err, &answer) && answer.Code == "InvalidInput" && strings.Contains(answer.Detail, "has been taken") {
		return false, nil
	}
	return err == nil, err
}

// HasRole reports whether the account has a role of a name.
func (c *Client) HasRole(ctx context.Context, name string) (bool, error) {
	return c.exists(ctx, "iam:GetRole", func(ctx context.Context) error {
		_, err := c.iam.GetRole(ctx, &iam.GetRoleInput{RoleName: aws.String(name)})
		return err
	})
}

// HasPolicy reports whether a managed policy exists.
func (c *Client) HasPolicy(ctx context.Context, arn string) (bool, error) {
	return c.exists(ctx, "iam:GetPolicy", func(ctx context.Context) error {
		_, err := c.iam.GetPolicy(ctx, &iam.GetPolicyInput{PolicyArn: aws.String(arn)})
		return err
	})
}

// HasOIDCProvider reports whether IAM trusts the tokens of an issuer.
func (c *Client) HasOIDCProvider(ctx context.Context, arn string) (bool, error) {
	return c.exists(ctx, "iam:GetOpenIDConnectProvider", func(ctx context.Context) error {
		_, err := c.iam.GetOpenIDConnectProvider(ctx, &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: aws.String(arn)})
		return err
	})
}

func (c *Client) exists(ctx context.Context, action string, get func(context.Context) error) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := get(ctx)
	if err == nil {
		return true, nil
	}
	if err = c.named(action, err); isGone(err) {
		return false, nil
	}
	return false, err
}
