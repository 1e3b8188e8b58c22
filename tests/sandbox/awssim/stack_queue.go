package awssim

import (
	"strings"
)

func (w *work) sqs(action string, input object) error {
	_, err := w.call(awsCall{service: "sqs", action: action, input: input})
	return err
}

// queueSettings are the properties of a queue that are attributes of SQS by the same name.
var queueSettings = []string{
	"DelaySeconds", "MaximumMessageSize", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds", "VisibilityTimeout",
	"KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds", "SqsManagedSseEnabled",
}

var queueKind = resourceKind{
	optional: append([]string{"QueueName", "Tags"}, queueSettings...), createOnly: []string{"QueueName"},
	name: "QueueName", attributes: []string{"Arn", "QueueName", "QueueUrl"}, identifier: []string{"QueueUrl"}, taggable: true,
	create: createStackQueue, update: updateStackQueue,
	delete: func(w *work) error { return w.sqs("DeleteQueue", object{"QueueUrl": w.of.physicalID}) },
	read: func(w *work, identifier map[string]string) (string, map[string]string, error) {
		attributes, err := w.queueAttributes(identifier["QueueUrl"])
		return identifier["QueueUrl"], attributes, err
	},
}

// settingsOf returns the attributes of SQS in the properties of a queue.
func settingsOf(properties map[string]any) map[string]string {
	settings := map[string]string{}
	for _, name := range queueSettings {
		if value := textOf(properties, name); value != "" {
			settings[name] = value
		}
	}
	return settings
}

func createStackQueue(w *work) error {
	name := w.named("QueueName", 80)
	err := w.sqs("GetQueueUrl", object{"QueueName": name})
	if err == nil {
		return alreadyExists(w.of.kind, name)
	}
	if !notFound(err) {
		return err
	}
	out, err := answerOf[queueURLOutput](w, awsCall{service: "sqs", action: "CreateQueue", input: object{
		"QueueName": name, "Attributes": settingsOf(w.after), "tags": w.tagsAfter(),
	}})
	if err != nil {
		return err
	}
	w.made(out.QueueURL, nil)
	attributes, err := w.queueAttributes(out.QueueURL)
	if err == nil {
		w.locked(func(*account) { w.of.attributes = attributes })
	}
	return err
}

func (w *work) queueAttributes(url string) (map[string]string, error) {
	out, err := answerOf[queueAttributesOutput](w, awsCall{service: "sqs", action: "GetQueueAttributes", input: object{
		"QueueUrl": url, "AttributeNames": []string{"All"},
	}})
	if err != nil {
		return nil, err
	}
	return map[string]string{"Arn": out.Attributes["QueueArn"], "QueueName": url[strings.LastIndex(url, "/")+1:], "QueueUrl": url}, nil
}

func updateStackQueue(w *work) error {
	if w.changes(queueSettings...) {
		if err := w.sqs("SetQueueAttributes", object{"QueueUrl": w.of.physicalID, "Attributes": settingsOf(w.after)}); err != nil {
			return err
		}
	}
	set, removed := w.changedTags()
	if len(removed) > 0 {
		if err := w.sqs("UntagQueue", object{"QueueUrl": w.of.physicalID, "TagKeys": removed}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	return w.sqs("TagQueue", object{"QueueUrl": w.of.physicalID, "Tags": set})
}

var queuePolicyKind = resourceKind{
	required: []string{"PolicyDocument", "Queues"}, attributes: []string{"Id"}, identifier: []string{"Id"},
	create: func(w *work) error {
		id := w.generated(80)
		w.made(id, map[string]string{"Id": id})
		return w.setQueuePolicy()
	},
	update: (*work).setQueuePolicy, delete: (*work).setQueuePolicy,
	read: func(_ *work, identifier map[string]string) (string, map[string]string, error) {
		return identifier["Id"], map[string]string{"Id": identifier["Id"]}, nil
	},
}

// setQueuePolicy sets the policy of all queues, and removes it from those that had it before.
func (w *work) setQueuePolicy() error {
	policies := map[string]string{}
	for _, url := range textsOf(w.before, "Queues") {
		policies[url] = ""
	}
	for _, url := range textsOf(w.after, "Queues") {
		policies[url] = documentOf(w.after, "PolicyDocument")
	}
	for url, text := range policies {
		err := w.sqs("SetQueueAttributes", object{"QueueUrl": url, "Attributes": map[string]string{"Policy": text}})
		if text == "" {
			err = ignoreMissing(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *work) events(action string, input object) error {
	_, err := w.call(awsCall{service: "events", action: action, input: input})
	return err
}

var ruleKind = resourceKind{
	optional: []string{"Description", "EventBusName", "EventPattern", "Name", "State", "Tags", "Targets"}, createOnly: []string{"Name"},
	name: "Name", attributes: []string{"Arn"}, identifier: []string{"Arn"}, taggable: true, systemTags: true,
	create: createStackRule, update: updateStackRule, delete: deleteStackRule,
	read: func(w *work, identifier map[string]string) (string, map[string]string, error) {
		arn := identifier["Arn"]
		name := arn[strings.LastIndex(arn, "/")+1:]
		return name, map[string]string{"Arn": arn}, w.events("DescribeRule", object{"Name": name})
	},
}

func createStackRule(w *work) error {
	name := w.named("Name", 64)
	err := w.events("DescribeRule", object{"Name": name})
	if err == nil {
		return alreadyExists(w.of.kind, name)
	}
	if !notFound(err) {
		return err
	}
	out, err := answerOf[map[string]string](w, awsCall{service: "events", action: "PutRule", input: w.ruleInput(name, w.tagsAfter())})
	if err != nil {
		return err
	}
	w.made(name, map[string]string{"Arn": (*out)["RuleArn"]})
	return w.changeTargets()
}

func (w *work) ruleInput(name string, tags map[string]string) object {
	input := object{
		"Name": name, "Description": textOf(w.after, "Description"), "EventPattern": documentOf(w.after, "EventPattern"),
		"State": textOf(w.after, "State"),
	}
	if len(tags) > 0 {
		input["Tags"] = tagList(tags)
	}
	return input
}

// changeTargets removes the targets that the rule has no longer, and sets the others.
func (w *work) changeTargets() error {
	after := listOf(w.after, "Targets")
	kept := map[string]bool{}
	for _, target := range after {
		if t, ok := target.(map[string]any); ok {
			kept[textOf(t, "Id")] = true
		}
	}
	var removed []string
	for _, target := range listOf(w.before, "Targets") {
		if t, ok := target.(map[string]any); ok && !kept[textOf(t, "Id")] {
			removed = append(removed, textOf(t, "Id"))
		}
	}
	if len(removed) > 0 {
		if err := ignoreMissing(w.events("RemoveTargets", object{"Rule": w.of.physicalID, "Ids": removed})); err != nil {
			return err
		}
	}
	if len(after) == 0 || !w.changes("Targets") {
		return nil
	}
	return w.events("PutTargets", object{"Rule": w.of.physicalID, "Targets": after})
}

func updateStackRule(w *work) error {
	if w.changes("Description", "EventPattern", "State") {
		if err := w.events("PutRule", w.ruleInput(w.of.physicalID, nil)); err != nil {
			return err
		}
	}
	if err := w.changeTargets(); err != nil {
		return err
	}
	set, removed := w.changedTags()
	if len(removed) > 0 {
		if err := w.events("UntagResource", object{"ResourceARN": w.of.attributes["Arn"], "TagKeys": removed}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	return w.events("TagResource", object{"ResourceARN": w.of.attributes["Arn"], "Tags": tagList(set)})
}

func deleteStackRule(w *work) error {
	if err := w.changeTargets(); err != nil {
		return err
	}
	return w.events("DeleteRule", object{"Name": w.of.physicalID})
}
