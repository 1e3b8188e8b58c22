package preflight

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// interruptionQueue checks that Karpenter hears of interruptions: the queue, its policy and the rules that fill it.
func interruptionQueue() Check {
	return Check{
		ID: "interruption-queue",
		Why: "without events, Karpenter does not drain a node before EC2 reclaims its spot instance or retires it, and pods are killed; " +
			"tools that create the queue use different names by default",
		needs: []source{ofAccount, ofControllers, ofQueue},
		look:  lookAtQueue,
	}
}

func lookAtQueue(o Observed) (string, []Finding) {
	if o.Controllers.Err != nil {
		return "settings.interruptionQueue", unread(o.Controllers.Err)
	}
	c, found := o.controller()
	switch {
	case !found:
		return "settings.interruptionQueue", unread(errNoController)
	case c.queue() == "":
		f := Finding{
			Status: Warning, Message: "settings.interruptionQueue is not set: Karpenter does not handle interruptions",
			Fix: "create a queue and its rules, and set settings.interruptionQueue in the chart's values to its name",
		}
		if len(o.OtherQueues) > 0 {
			f.Fix = "set settings.interruptionQueue in the chart's values to " + o.OtherQueues[0] + ", which exists"
		}
		return "settings.interruptionQueue", []Finding{f}
	}
	looked := "queue " + c.queue()
	if o.Queue.Err != nil {
		all := unread(o.Queue.Err)
		if len(o.OtherQueues) > 0 {
			all[0].Fix = "set settings.interruptionQueue in the chart's values to " + o.OtherQueues[0] + ", which exists; the role must allow it"
		}
		return looked, all
	}
	return looked + ", its policy, and the rules of EventBridge that have it as target", append(o.delivers(), o.events(c)...)
}

// managedKey is the alias of the key with which AWS encrypts queues. Its policy cannot be changed, so EventBridge may not
// use it: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-troubleshooting.html
const managedKey = "alias/aws/sqs"

// delivers returns why EventBridge may not send events to the queue.
func (o Observed) delivers() []Finding {
	queue := o.Queue.Of
	var found []Finding
	account := cloud.AccountOf(queue.ARN)
	rule := fmt.Sprintf("arn:%s:events:%s:%s:rule/plumbline-sample", iam.PartitionOf(o.Region), o.Region, account)
	if len(o.Rules.Of) > 0 {
		rule = o.Rules.Of[0].ARN
	}
	found = append(found, o.encrypts(rule, account)...)
	by := iam.EventBridge(queue.ARN, rule, account)
	var answer iam.Answer
	var err error
	if queue.Policy == "" {
		answer.Decision = iam.Denied
	} else if answer, _, err = iam.Trusts(queue.Policy, by); err != nil {
		return append(found, Finding{Status: Unknown, Message: "the policy of queue " + queue.Name + ": " + err.Error()})
	}
	switch answer.Decision {
	case iam.Allowed:
	case iam.Unknown:
		found = append(found, Finding{Status: Unknown, Message: "the policy of queue " + queue.Name + " was not evaluated: " + answer.Reason})
	case iam.Denied:
		statement := map[string]any{
			"Effect": "Allow", "Principal": map[string]any{"Service": by.Principal}, "Action": "sqs:SendMessage", "Resource": queue.ARN,
		}
		found = append(found, Finding{
			Status: Problem, Message: "the policy of queue " + queue.Name + " does not allow sqs:SendMessage to EventBridge: no event arrives",
			Fix: "add to its policy:\n" + indented(statement),
		})
	}
	return found
}

// encrypts returns why EventBridge may not use the key that encrypts the queue.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-key-management.html
func (o Observed) encrypts(rule, account string) []Finding {
	queue, key := o.Queue.Of, o.QueueKey.Of
	switch {
	case queue.Key == managedKey || key != nil && key.OfAWS:
		return []Finding{{
			Status:  Problem,
			Message: fmt.Sprintf("queue %s is encrypted with the key %s, which EventBridge may not use: no event arrives", queue.Name, managedKey),
			Fix: "encrypt it with SQS's own key (SqsManagedSseEnabled), or with a key whose policy allows kms:Decrypt and kms:GenerateDataKey " +
				"to events.amazonaws.com",
		}}
	case o.QueueKey.Err != nil:
		return unread(o.QueueKey.Err)
	case key == nil:
		return nil
	case key.State != "Enabled":
		return []Finding{{
			Status: Problem, Message: fmt.Sprintf("the key %s of queue %s is %s: no event arrives", key.ARN, queue.Name, key.State),
			Fix: fmt.Sprintf("aws kms enable-key --region %s --key-id %s, or encrypt the queue with another key", o.Region, key.ARN),
		}}
	}
	by := iam.EventBridge(key.ARN, rule, account)
	by.Actions = []string{"kms:GenerateDataKey", "kms:Decrypt"}
	answer, action, err := iam.Trusts(key.Policy, by)
	switch {
	case err != nil:
		return []Finding{{Status: Unknown, Message: "the policy of key " + key.ARN + ": " + err.Error()}}
	case answer.Decision == iam.Unknown:
		return []Finding{{Status: Unknown, Message: "the policy of key " + key.ARN + " was not evaluated: " + answer.Reason}}
	case answer.Decision == iam.Denied:
		statement := map[string]any{
			"Effect": "Allow", "Principal": map[string]any{"Service": by.Principal}, "Action": by.Actions, "Resource": "*",
		}
		return []Finding{{
			Status: Problem, Fix: "add to its policy:\n" + indented(statement),
			Message: fmt.Sprintf("the policy of key %s, which encrypts queue %s, does not allow %s to EventBridge: no event arrives",
				key.ARN, queue.Name, action),
		}}
	}
	return nil
}

// event is one that Karpenter handles: KPA pkg/controllers/interruption/messages, with the rules of the getting-started
// guide (website/content/en/v1.14/getting-started/getting-started-with-karpenter/cloudformation.yaml).
type event struct {
	source, detail string
	// status is how serious it is if no rule sends it.
	status Status
	means  string
}

var events = []event{
	{"aws.ec2", "EC2 Spot Instance Interruption Warning", Problem, "EC2 reclaims a spot instance in two minutes"},
	{"aws.health", "AWS Health Event", Problem, "EC2 retires or reboots an instance"},
	{"aws.ec2", "EC2 Instance State-change Notification", Problem, "an instance was stopped or terminated"},
	{"aws.ec2", "EC2 Instance Rebalance Recommendation", Warning, "a spot instance has a higher risk of being reclaimed"},
	{"aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning", Warning, "an instance in a capacity reservation is reclaimed"},
}

// events returns the events that no enabled rule sends to the queue.
func (o Observed) events(c Controller) []Finding {
	if o.Rules.Err != nil {
		return unread(o.Rules.Err)
	}
	var found []Finding
	for _, e := range events {
		if slices.ContainsFunc(o.Rules.Of, e.sentBy) {
			continue
		}
		pattern := fmt.Sprintf(`{"source":[%q],"detail-type":[%q]}`, e.source, e.detail)
		found = append(found, Finding{
			Status: e.status, Message: fmt.Sprintf("no enabled rule sends %q to queue %s: %s", e.detail, c.queue(), e.means),
			Fix: fmt.Sprintf("aws events put-rule --region %s --name NAME --event-pattern '%s' && "+
				"aws events put-targets --region %s --rule NAME --targets Id=1,Arn=%s", o.Region, pattern, o.Region, o.Queue.Of.ARN),
		})
	}
	return found
}

// sentBy reports whether a rule sends the event. Patterns may further restrict it, for example to instances of the cluster.
func (e event) sentBy(r cloud.Rule) bool {
	var pattern struct {
		Source []any `json:"source"`
		Detail []any `json:"detail-type"`
	}
	if !r.Enabled || json.Unmarshal([]byte(r.Pattern), &pattern) != nil {
		return false
	}
	matches := func(values []any, want string) bool { return values == nil || slices.Contains(values, any(want)) }
	return (pattern.Source != nil || pattern.Detail != nil) && matches(pattern.Source, e.source) && matches(pattern.Detail, e.detail)
}
