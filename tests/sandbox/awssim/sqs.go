package awssim

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) sqsActions() map[string]action {
	return map[string]action{
		"CreateQueue":        document(a.createQueue),
		"DeleteQueue":        document(a.deleteQueue),
		"GetQueueUrl":        document(a.getQueueURL),
		"ListQueues":         document(a.listQueues),
		"SetQueueAttributes": document(a.setQueueAttributes),
		"TagQueue":           document(a.tagQueue),
		"UntagQueue":         document(a.untagQueue),
		"ListQueueTags":      document(a.listQueueTags),
		"GetQueueAttributes": document(a.getQueueAttributes),
		"SendMessage":        document(a.sendMessage),
		"ReceiveMessage":     document(a.receiveMessage),
		"DeleteMessage":      document(a.deleteMessage),
	}
}

type queueInput struct {
	QueueName, MessageBody, ReceiptHandle string

	QueueURL string `json:"QueueUrl"`

	QueueNamePrefix string
	Attributes      map[string]string
	Tags            map[string]string // also in CreateQueue, whose field begins with a small letter
	TagKeys         []string

	MaxNumberOfMessages, WaitTimeSeconds int
	VisibilityTimeout                    *int
}

type queueURLOutput struct {
	QueueURL string `json:"QueueUrl"`
}

type queueAttributesOutput struct {
	Attributes map[string]string
}

type sendMessageOutput struct {
	MessageID        string `json:"MessageId"`
	MD5OfMessageBody string
}

type receivedMessage struct {
	MessageID     string `json:"MessageId"`
	ReceiptHandle string
	MD5OfBody     string
	Body          string
	Attributes    map[string]string
}

type receiveMessageOutput struct {
	Messages []receivedMessage
}

// findQueue returns a queue by its URL, whose last element is the name.
func (a *account) findQueue(url string) (*queue, error) {
	if q, ok := a.queues[url[strings.LastIndex(url, "/")+1:]]; ok {
		return q, nil
	}
	return nil, queueNotFound()
}

func queueNotFound() error {
	return wire.Errorf("com.amazonaws.sqs#QueueDoesNotExist", "The specified queue does not exist.")
}

func (a *account) queueURL(h *http.Request, q *queue) *queueURLOutput {
	return &queueURLOutput{fmt.Sprintf("http://%s/%s/%s", h.Host, a.options.Account, q.name)}
}

func (a *account) createQueue(r *request, in *queueInput) (*queueURLOutput, error) {
	q, ok := a.queues[in.QueueName]
	if ok {
		for name, value := range in.Attributes {
			if q.attributes(a)[name] != value {
				return nil, wire.Errorf("QueueNameExists", "A queue already exists with the same name and a different value for attribute %s", name)
			}
		}
		return a.queueURL(r.http, q), nil
	}
	if !queueName.MatchString(in.QueueName) {
		return nil, wire.Errorf("InvalidParameterValue", "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
	}
	q = a.newQueue(in.QueueName)
	if err := q.set(in.Attributes); err != nil {
		delete(a.queues, q.name)
		return nil, err
	}
	maps.Copy(q.tags, in.Tags)
	return a.queueURL(r.http, q), nil
}

// queueName is the pattern of names: https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html
var queueName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// set changes attributes. An empty policy removes it.
func (q *queue) set(attributes map[string]string) error {
	for name, value := range attributes {
		switch {
		case name != "Policy":
			q.settings[name] = value
		case value != "" && !json.Valid([]byte(value)):
			return wire.Errorf("InvalidAttributeValue", "Invalid value for the parameter Policy.")
		default:
			q.policy = value
		}
	}
	return nil
}

func (a *account) setQueueAttributes(_ *request, in *queueInput) (*struct{}, error) {
	q, err := a.findQueue(in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &struct{}{}, q.set(in.Attributes)
}

func (a *account) listQueues(r *request, in *queueInput) (*object, error) {
	urls := []string{}
	for _, name := range slices.Sorted(maps.Keys(a.queues)) {
		if strings.HasPrefix(name, in.QueueNamePrefix) {
			urls = append(urls, a.queueURL(r.http, a.queues[name]).QueueURL)
		}
	}
	return &object{"QueueUrls": urls}, nil
}

func (a *account) tagQueue(_ *request, in *queueInput) (*struct{}, error) {
	q, err := a.findQueue(in.QueueURL)
	if err != nil {
		return nil, err
	}
	maps.Copy(q.tags, in.Tags)
	return &struct{}{}, nil
}

func (a *account) untagQueue(_ *request, in *queueInput) (*struct{}, error) {
	q, err := a.findQueue(in.QueueURL)
	if err != nil {
		return nil, err
	}
	for _, key := range in.TagKeys {
		delete(q.tags, key)
	}
	return &struct{}{}, nil
}

func (a *account) listQueueTags(_ *request, in *queueInput) (*object, error) {
	q, err := a.findQueue(in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &object{"Tags": maps.Clone(q.tags)}, nil
}

func (a *account) deleteQueue(_ *request, in *queueInput) (*struct{}, error) {
	q, err := a.findQueue(in.QueueURL)
	if err != nil {
		return nil, err
	}
	delete(a.queues, q.name)
	close(q.changed)
	return &struct{}{}, nil
}

func (a *account) getQueueURL(r *request, in *queueInput) (*queueURLOutput, error) {
	if q, ok := a.queues[in.QueueName]; ok {
		return a.queueURL(r.http, q), nil
	}
	return nil, queueNotFound()
}

func (a *account) getQueueAttributes(_ *request, in *queueInput) (*queueAttributesOutput, error) {
	q, err := a.findQueue(in.QueueURL)
	if err != nil {
		return nil, err
	}
	return &queueAttributesOutput{q.attributes(a)}, nil
}

func (q *queue) attributes(a *account) map[string]string {
	attributes := map[string]string{
		"QueueArn":                    a.arn("sqs", a.options.Region, q.name),
		"ApproximateNumberOfMessages": strconv.Itoa(len(q.messages)),
		"CreatedTimestamp":            strconv.FormatInt(q.created.Unix(), 10),
	}
	maps.Copy(attributes, q.settings)
	if q.policy != "" {
		attributes["Policy"] = q.policy
	}
	return attributes
}

func (a *account) sendMessage(_ *request, in *queueInput) (*sendMessageOutput, error) {
	q, err := a.findQueue(in.QueueURL)
	if err != nil {
		return nil, err
	}
	m := a.deliver(q, in.MessageBody)
	return &sendMessageOutput{MessageID: m.id, MD5OfMessageBody: checksum(m.body)}, nil
}

// receiveMessage waits for the first message, as long as the caller wants.
func (a *account) receiveMessage(r *request, in *queueInput) (*receiveMessageOutput, error) {
	q, err := a.findQueue(in.QueueURL)
	if err != nil {
		return nil, err
	}
	invisible := 30 * time.Second
	if in.VisibilityTimeout != nil {
		invisible = time.Duration(*in.VisibilityTimeout) * time.Second
	}
	out := &receiveMessageOutput{Messages: []receivedMessage{}}
	for _, m := range q.messages {
		if len(out.Messages) == max(1, in.MaxNumberOfMessages) {
			break
		}
		if a.now.Before(m.visibleAt) {
			continue
		}
		m.receipt, m.visibleAt = newRequestID(), a.now.Add(invisible)
		m.received++
		out.Messages = append(out.Messages, receivedMessage{
			MessageID: m.id, ReceiptHandle: m.receipt, MD5OfBody: checksum(m.body), Body: m.body,
			Attributes: map[string]string{
				"SentTimestamp":           strconv.FormatInt(m.sent.UnixMilli(), 10),
				"ApproximateReceiveCount": strconv.Itoa(m.received),
			},
		})
	}
	if len(out.Messages) > 0 || in.WaitTimeSeconds == 0 {
		return out, nil
	}
	// Waiting uses real time, regardless of the account's clock.
	if r.waitUntil.IsZero() {
		r.waitUntil = time.Now().Add(time.Duration(in.WaitTimeSeconds) * time.Second)
	}
	if !time.Now().Before(r.waitUntil) {
		return out, nil
	}
	return nil, &tryAgain{changed: q.changed, deadline: r.waitUntil}
}

func (a *account) deleteMessage(_ *request, in *queueInput) (*struct{}, error) {
	q, err := a.findQueue(in.QueueURL)
	if err != nil {
		return nil, err
	}
	for i, m := range q.messages {
		if m.receipt == in.ReceiptHandle {
			q.messages = append(q.messages[:i:i], q.messages[i+1:]...)
			return &struct{}{}, nil
		}
	}
	return nil, wire.Errorf("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
}
