package cloud

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	ebtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Queue is an SQS queue.
type Queue struct {
	Name, ARN string
	// Policy is the JSON of its policy; empty if it has none.
	Policy string
	// Key is the KMS key that encrypts its messages, by ID or alias; empty if SQS does.
	Key string
}

// Queue returns a queue of the account by its name. One that does not exist is a *NotFoundError.
func (c *Client) Queue(ctx context.Context, name string) (Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	at, err := c.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(name)})
	var missing *sqstypes.QueueDoesNotExist
	switch {
	case errors.As(err, &missing):
		return Queue{}, &NotFoundError{
			What: "SQS queue " + name, Where: c.regionAndAccount(ctx), Check: "settings.interruptionQueue in the chart's values", Err: err,
		}
	case err != nil:
		return Queue{}, c.named("sqs:GetQueueUrl", err)
	}
	out, err := c.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: at.QueueUrl,
		AttributeNames: []sqstypes.QueueAttributeName{
			sqstypes.QueueAttributeNameQueueArn, sqstypes.QueueAttributeNamePolicy, sqstypes.QueueAttributeNameKmsMasterKeyId,
		},
	})
	if err != nil {
		return Queue{}, c.named("sqs:GetQueueAttributes", err)
	}
	has := func(name sqstypes.QueueAttributeName) string { return out.Attributes[string(name)] }
	return Queue{
		Name: name, ARN: has(sqstypes.QueueAttributeNameQueueArn), Policy: has(sqstypes.QueueAttributeNamePolicy),
		Key: has(sqstypes.QueueAttributeNameKmsMasterKeyId),
	}, nil
}

// Rule is a rule of EventBridge on the default bus.
type Rule struct {
	Name, ARN string
	// Pattern is the JSON that selects events.
	Pattern string
	Enabled bool
}

// Rules returns the rules that send events to a target. It takes one request, and one for each rule.
func (c *Client) Rules(ctx context.Context, targetARN string) ([]Rule, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var names []string
	for in := (&eventbridge.ListRuleNamesByTargetInput{TargetArn: aws.String(targetARN)}); ; {
		page, err := c.events.ListRuleNamesByTarget(ctx, in)
		if err != nil {
			return nil, c.named("events:ListRuleNamesByTarget", err)
		}
		if names = append(names, page.RuleNames...); aws.ToString(page.NextToken) == "" {
			break
		}
		in.NextToken = page.NextToken
	}
	rules := make([]Rule, 0, len(names))
	for _, name := range names {
		out, err := c.events.DescribeRule(ctx, &eventbridge.DescribeRuleInput{Name: aws.String(name)})
		if err != nil {
			return nil, c.named("events:DescribeRule", err)
		}
		rules = append(rules, Rule{
			Name: name, ARN: aws.ToString(out.Arn), Pattern: aws.ToString(out.EventPattern), Enabled: out.State != ebtypes.RuleStateDisabled,
		})
	}
	return rules, nil
}
