package awssim

import (
	"crypto/md5"
	"encoding/hex"
	"errors"
	"time"
)

// queue is an SQS queue. changed is closed when there is a message to receive.
type queue struct {
	name     string
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
	q := &queue{name: name, created: a.now, changed: make(chan struct{})}
	a.queues[name] = q
	return q
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
