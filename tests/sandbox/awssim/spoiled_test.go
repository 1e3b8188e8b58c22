package awssim_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// TestSpoiledImages: their instances terminate instead of running, EC2 reports why, and the cluster's queue gets an
// event. Other images are unaffected.
func TestSpoiledImages(t *testing.T) {
	a := newAccount(t, awssim.Options{LaunchDelay: time.Second, ShutdownDelay: time.Second})
	good := a.launch(t, 1)[0]
	a.clock.advance(time.Second)
	a.SpoilImages("amazon-eks-node-*")
	bad := a.launch(t, 1)[0]
	a.clock.advance(time.Second)
	out, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{good, bad}})
	noError(t, err)
	states := map[string]string{}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			states[*i.InstanceId] = string(i.State.Name)
			if i.StateReason != nil {
				states[*i.InstanceId] += " " + *i.StateReason.Code
			}
		}
	}
	if states[good] != "running" || states[bad] != "shutting-down Client.InternalError" {
		t.Errorf("the good one is %q, the bad one %q", states[good], states[bad])
	}
	queue := sqs.NewFromConfig(a.config("karpenter"))
	at, err := queue.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(clusterName)})
	noError(t, err)
	got, err := queue.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: at.QueueUrl, MaxNumberOfMessages: 10})
	noError(t, err)
	if len(got.Messages) != 1 {
		t.Fatalf("%d messages", len(got.Messages))
	}
	var event struct {
		DetailType string `json:"detail-type"`
		Detail     struct {
			InstanceID string `json:"instance-id"`
			State      string `json:"state"`
		} `json:"detail"`
	}
	noError(t, json.Unmarshal([]byte(*got.Messages[0].Body), &event))
	if event.DetailType != "EC2 Instance State-change Notification" || event.Detail.InstanceID != bad || event.Detail.State != "shutting-down" {
		t.Errorf("the event is %+v", event)
	}
	a.SpoilImages("")
	again := a.launch(t, 1)[0]
	a.clock.advance(time.Second)
	for _, i := range a.Instances() {
		if i.ID == again && i.State != "running" {
			t.Errorf("after it, one is %s", i.State)
		}
	}
}
