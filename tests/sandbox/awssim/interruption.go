package awssim

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// spotWarning is the default time between the warning and the termination of an interrupted spot instance.
const spotWarning = 2 * time.Minute

// InterruptSpot reclaims a spot instance like EC2: the queue of its cluster gets a warning by EventBridge's rule, and
// after Options.SpotWarning the instance is terminated, drained or not.
func (s *Simulator) InterruptSpot(instanceID string) error {
	var err error
	s.locked(func(a *account) { err = a.interrupt(instanceID) })
	return err
}

func (a *account) interrupt(id string) error {
	i, ok := a.instances[id]
	switch {
	case !ok:
		return fmt.Errorf("interrupting: %w", instanceNotFound(id))
	case i.spec.capacityType != spot:
		return fmt.Errorf("interrupting %s: it is %s, and only spot instances are interrupted", id, i.spec.capacityType)
	case i.state != stateRunning:
		return fmt.Errorf("interrupting %s: it is %s, and only running instances are interrupted", id, i.state)
	case i.interrupted:
		return nil
	}
	warning, err := a.instanceEvent("EC2 Spot Instance Interruption Warning", i, map[string]any{"instance-id": i.ID, "instance-action": "terminate"})
	if err != nil {
		return err
	}
	a.announce(i, warning)
	i.interrupted, i.due = true, a.now.Add(a.options.SpotWarning)
	a.alarms = append(a.alarms, i.due)
	return nil
}

// announce sends an event about an instance to the queue of its cluster.
func (a *account) announce(i *instance, event string) {
	for tag := range i.Tags {
		if name, ok := strings.CutPrefix(tag, "kubernetes.io/cluster/"); ok && a.queues[name] != nil {
			a.deliver(a.queues[name], event)
		}
	}
}

// instanceEvent returns an event in EventBridge's format:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
func (a *account) instanceEvent(detailType string, i *instance, detail map[string]any) (string, error) {
	event, err := json.Marshal(map[string]any{
		"version":     "0",
		"id":          newRequestID(),
		"detail-type": detailType,
		"source":      "aws.ec2",
		"account":     a.options.Account,
		"time":        a.now.UTC().Format(time.RFC3339),
		"region":      a.options.Region,
		"resources":   []string{"arn:" + partition(a.options.Region) + ":ec2:" + i.subnet.zone + ":instance/" + i.ID},
		"detail":      detail,
	})
	if err != nil {
		return "", fmt.Errorf("writing an event on %s: %w", i.ID, err)
	}
	return string(event), nil
}
