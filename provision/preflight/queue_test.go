package preflight

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

func TestInterruptionQueue(t *testing.T) {
	policy := func(text string) func(*Observed) { return func(o *Observed) { o.Queue.Of.Policy = text } }
	noRule := func(i int) func(*Observed) { return func(o *Observed) { o.Rules.Of[i].Enabled = false } }
	missing := &cloud.NotFoundError{What: "SQS queue prod", Where: "eu-west-1", Check: "settings.interruptionQueue"}
	key := func(is cloud.Key, err error) func(*Observed) {
		return func(o *Observed) { o.Queue.Of.Key, o.QueueKey = is.ARN, Value[*cloud.Key]{&is, err} }
	}
	keyPolicy := func(actions string) string {
		return `{"Statement": [{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": ` + actions + `, "Resource": "*"}]}`
	}
	run(t, "interruption-queue", map[string]looked{
		"it does not exist": {func(o *Observed) { o.Queue = Value[cloud.Queue]{Err: missing} }, Problem, "SQS queue prod does not exist in eu-west-1", "settings.interruptionQueue", ""},
		"another one exists": {func(o *Observed) {
			o.Queue, o.OtherQueues = Value[cloud.Queue]{Err: missing}, []string{"Karpenter-prod"}
		}, Problem, "does not exist", "set settings.interruptionQueue in the chart's values to Karpenter-prod", ""},
		"it is not set": {func(o *Observed) {
			delete(o.Controllers.Of[0].Environment, "INTERRUPTION_QUEUE")
		}, Warning, "is not set", "create a queue", ""},
		"no policy":            {policy(""), Problem, "does not allow sqs:SendMessage to EventBridge", `"Service": "events.amazonaws.com"`, ""},
		"another queue":        {policy(strings.ReplaceAll(queuePolicy, ":prod", ":other")), Problem, "does not allow sqs:SendMessage", queueARN, ""},
		"another rule":         {policy(`{"Statement": [{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": "*", "Condition": {"ArnEquals": {"aws:SourceArn": "arn:x"}}}]}`), Problem, "does not allow", "", ""},
		"rules of the account": {policy(`{"Statement": [{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": "*", "Condition": {"StringEquals": {"aws:SourceAccount": "111122223333"}}}]}`), OK, "", "", ""},
		"rules of another one": {policy(`{"Statement": [{"Effect": "Allow", "Principal": {"Service": "events.amazonaws.com"}, "Action": "sqs:SendMessage", "Resource": "*", "Condition": {"StringEquals": {"aws:SourceAccount": "444455556666"}}}]}`), Problem, "does not allow", "", ""},
		"the key of AWS":       {func(o *Observed) { o.Queue.Of.Key = "alias/aws/sqs" }, Problem, "which EventBridge may not use", "SqsManagedSseEnabled", ""},
		"a key of AWS, by ID":  {key(cloud.Key{ARN: "arn:key", OfAWS: true, State: "Enabled"}, nil), Problem, "which EventBridge may not use", "SqsManagedSseEnabled", ""},
		"a key":                {key(cloud.Key{ARN: "arn:key", State: "Enabled", Policy: keyPolicy(`["kms:GenerateDataKey*", "kms:Decrypt"]`)}, nil), OK, "", "", ""},
		"a key without EventBridge": {
			key(cloud.Key{ARN: "arn:key", State: "Enabled", Policy: `{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "arn:aws:iam::111122223333:root"}, "Action": "kms:*", "Resource": "*"}]}`}, nil),
			Problem, "the policy of key arn:key, which encrypts queue prod, does not allow kms:GenerateDataKey to EventBridge", `"Service": "events.amazonaws.com"`, "",
		},
		"a key that it cannot decrypt with": {key(cloud.Key{ARN: "arn:key", State: "Enabled", Policy: keyPolicy(`"kms:GenerateDataKey"`)}, nil), Problem, "does not allow kms:Decrypt", "kms:Decrypt", ""},
		"a key of which the policy is not evaluated": {
			key(cloud.Key{ARN: "arn:key", State: "Enabled", Policy: `{"Statement": [{"Effect": "Allow", "NotPrincipal": {"AWS": "x"}, "Action": "kms:*", "Resource": "*"}]}`}, nil),
			Unknown, "was not evaluated", "", "",
		},
		"a key that is deleted": {key(cloud.Key{ARN: "arn:key", State: "PendingDeletion"}, nil), Problem, "the key arn:key of queue prod is PendingDeletion", "aws kms enable-key --region eu-west-1", ""},
		"a key that is denied":  {key(cloud.Key{}, denied("kms:GetKeyPolicy")), Unknown, "AWS denies", "iam-policy-doctor.json", "kms:GetKeyPolicy"},
		"no spot interruptions": {noRule(0), Problem, `no enabled rule sends "EC2 Spot Instance Interruption Warning"`, "aws events put-rule --region eu-west-1", ""},
		"no rebalance":          {noRule(3), Warning, "Rebalance", "", ""},
		"one rule for all": {func(o *Observed) {
			o.Rules.Of = []cloud.Rule{{Enabled: true, ARN: "arn:aws:events:eu-west-1:111122223333:rule/all", Pattern: `{"source": ["aws.ec2", "aws.health"]}`}}
		}, OK, "", "", ""},
		"denied": {func(o *Observed) {
			o.Queue = Value[cloud.Queue]{Err: denied("sqs:GetQueueAttributes")}
		}, Unknown, "AWS denies sqs:GetQueueAttributes", "", "sqs:GetQueueAttributes"},
		"rules denied": {func(o *Observed) {
			o.Rules = Value[[]cloud.Rule]{Err: denied("events:ListRuleNamesByTarget")}
		}, Unknown, "AWS denies", "", "events:ListRuleNamesByTarget"},
		"the cluster does not answer": {func(o *Observed) {
			o.Controllers = Value[[]Controller]{Err: errors.New("connection refused")}
		}, Unknown, "connection refused", "", ""},
	})
}
