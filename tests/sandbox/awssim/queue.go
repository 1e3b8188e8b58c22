package awssim

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// queue is an SQS queue. changed is closed when there is a message to receive.
type queue struct {
	name     string
	policy   string
	settings map[string]string // attributes that were set, besides the policy
	tags     map[string]string
	key      string // ID of the KMS key; empty if SQS encrypts it
	created  time.Time
	messages []*message
	changed  chan struct{}
}

type message struct {
	id, body  string
	receipt   string // from the last time it was received
	sent      time.Time
	visibleAt time.Time
	received  int
}

func (a *account) newQueue(name string) *queue {
	q := &queue{name: name, settings: map[string]string{}, tags: map[string]string{}, created: a.now, changed: make(chan struct{})}
	a.queues[name] = q
	return q
}

// interruptions are the events that rules of Karpenter's getting-started guide send to the queue, by the end of their names.
var interruptions = map[string][2]string{
	"scheduled-change":     {"aws.health", "AWS Health Event"},
	"spot":                 {"aws.ec2", "EC2 Spot Instance Interruption Warning"},
	"rebalance":            {"aws.ec2", "EC2 Instance Rebalance Recommendation"},
	"state-change":         {"aws.ec2", "EC2 Instance State-change Notification"},
	"capacity-reservation": {"aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"},
}

// addInterruptions creates the queue of a cluster, with the rules and the policy of the guide.
func (a *account) addInterruptions(cluster string) {
	q := a.newQueue(cluster)
	arn := a.arn("sqs", a.options.Region, q.name)
	q.policy = `{"Version":"2012-10-17","Id":"EC2InterruptionPolicy","Statement":[{"Effect":"Allow",` +
		`"Principal":{"Service":["events.amazonaws.com","sqs.amazonaws.com"]},"Action":"sqs:SendMessage","Resource":"` + arn + `"},` +
		`{"Sid":"DenyHTTP","Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":"` + arn + `","Condition":{"Bool":{"aws:SecureTransport":false}}}]}`
	for name, of := range interruptions {
		a.rules[cluster+"-"+name] = &rule{
			name: cluster + "-" + name, state: "ENABLED", pattern: fmt.Sprintf(`{"source":[%q],"detail-type":[%q]}`, of[0], of[1]), tags: map[string]string{},
			targets: map[string]json.RawMessage{"queue": json.RawMessage(fmt.Sprintf(`{"Id":"queue","Arn":%q}`, arn))},
		}
	}
}

// deliver adds a message to a queue and wakes the waiting receivers.
func (a *account) deliver(q *queue, body string) *message {
	m := &message{id: newRequestID(), body: body, sent: a.now}
	q.messages = append(q.messages, m)
	close(q.changed)
	q.changed = make(chan struct{})
	return m
}

// Notify adds a message to a cluster's interruption queue, as EventBridge would.
func (s *Simulator) Notify(queueName, body string) error {
	err := errors.New("sending a message: there is no queue " + queueName)
	s.locked(func(a *account) {
		if q, ok := a.queues[queueName]; ok {
			a.deliver(q, body)
			err = nil
		}
	})
	return err
}

// checksum returns the protocol's checksum of a body, which the SDK verifies.
func checksum(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}
