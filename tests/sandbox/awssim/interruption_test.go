package awssim_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// warning is the part of the event that Karpenter reads (karpenter-provider-aws
// pkg/controllers/interruption/messages/spotinterruption/model.go).
type warning struct {
	Version    string    `json:"version"`
	DetailType string    `json:"detail-type"`
	Source     string    `json:"source"`
	Account    string    `json:"account"`
	Time       time.Time `json:"time"`
	Region     string    `json:"region"`
	Detail     struct {
		InstanceID     string `json:"instance-id"`
		InstanceAction string `json:"instance-action"`
	} `json:"detail"`
}

func TestSpotInterruption(t *testing.T) {
	a := newAccount(t, awssim.Options{LaunchDelay: time.Second, ShutdownDelay: time.Second})
	onDemand := a.launch(t, 1)[0]
	out, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "amd64", 1, types.DefaultTargetCapacityTypeSpot, pool{"m5.large", "eu-west-1a"}))
	noError(t, err)
	id := out.Instances[0].InstanceIds[0]
	if a.InterruptSpot(id) == nil {
		t.Error("an instance that is pending was interrupted")
	}
	a.clock.advance(time.Second)
	for name, other := range map[string]string{"on demand": onDemand, "unknown": "i-0"} {
		if a.InterruptSpot(other) == nil {
			t.Errorf("an instance that is %s was interrupted", name)
		}
	}
	noError(t, a.InterruptSpot(id))
	noError(t, a.InterruptSpot(id)) // once is enough

	queue := sqs.NewFromConfig(a.config("karpenter"))
	at, err := queue.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(clusterName)})
	noError(t, err)
	got, err := queue.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: at.QueueUrl, MaxNumberOfMessages: 10})
	noError(t, err)
	if len(got.Messages) != 1 {
		t.Fatalf("%d messages, want one warning", len(got.Messages))
	}
	var said warning
	noError(t, json.Unmarshal([]byte(*got.Messages[0].Body), &said))
	want := warning{
		Version: "0", DetailType: "EC2 Spot Instance Interruption Warning", Source: "aws.ec2",
		Account: "000000000000", Time: a.clock.Now(), Region: region,
	}
	want.Detail.InstanceID, want.Detail.InstanceAction = id, "terminate"
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("the warning (-want +got):\n%s", diff)
	}

	state := func() types.InstanceStateName { return a.describe(t, id).State.Name }
	a.clock.advance(2*time.Minute - time.Second)
	if got := state(); got != types.InstanceStateNameRunning {
		t.Errorf("a second before its end it is %s", got)
	}
	a.clock.advance(time.Second)
	if got := state(); got != types.InstanceStateNameShuttingDown {
		t.Errorf("two minutes after the warning it is %s", got)
	}
	a.clock.advance(time.Second)
	if got := state(); got != types.InstanceStateNameTerminated {
		t.Errorf("in the end it is %s", got)
	}
}

// TestADrainedSpotInstanceEndsOnce: Karpenter terminates it before its two minutes are over.
func TestADrainedSpotInstanceEndsOnce(t *testing.T) {
	a := newAccount(t, awssim.Options{SpotWarning: 10 * time.Second})
	events := &recorder{}
	a.Subscribe(events.observe)
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	out, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "amd64", 1, types.DefaultTargetCapacityTypeSpot, pool{"m5.large", "eu-west-1a"}))
	noError(t, err)
	a.Instances() // pending is over immediately
	noError(t, a.InterruptSpot(out.Instances[0].InstanceIds[0]))
	_, err = a.ec2().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: out.Instances[0].InstanceIds})
	noError(t, err)
	a.clock.advance(time.Minute)
	a.Instances()
	want := []awssim.EventKind{awssim.Launched, awssim.Running, awssim.ShuttingDown, awssim.Terminated}
	eventually(t, "its life", func() bool { return cmp.Equal(want, events.kinds()) })
}
