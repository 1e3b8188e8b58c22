package awssim

import (
	"fmt"
	"net/http"
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
		"GetQueueAttributes": document(a.getQueueAttributes),
		"SendMessage":        document(a.sendMessage),
		"ReceiveMessage":     document(a.receiveMessage),
		"DeleteMessage":      document(a.deleteMessage),
	}
}

type queueInput struct {
	QueueName, MessageBody, ReceiptHandle string

	QueueURL string `json:"QueueUrl"`

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
	if !ok {
		q = a.newQueue(in.QueueName)
	}
	return a.queueURL(r.http, q), nil
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
	attributes := map[string]string{
		"QueueArn":                    a.arn("sqs", a.options.Region, q.name),
		"ApproximateNumberOfMessages": strconv.Itoa(len(q.messages)),
		"CreatedTimestamp":            strconv.FormatInt(q.created.Unix(), 10),
	}
	if q.policy != "" {
		attributes["Policy"] = q.policy
	}
	if q.key != "" {
		attributes["KmsMasterKeyId"] = q.key
	}
	return &queueAttributesOutput{attributes}, nil
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
