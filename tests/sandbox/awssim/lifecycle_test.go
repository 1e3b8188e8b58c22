package awssim_test

import (
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// recorder records the events of a subscriber.
type recorder struct {
	mu     sync.Mutex
	events []awssim.Event
}

func (r *recorder) observe(e awssim.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) kinds() []awssim.EventKind {
	r.mu.Lock()
	defer r.mu.Unlock()
	var kinds []awssim.EventKind
	for _, e := range r.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestInstanceLifeCycle(t *testing.T) {
	a := newAccount(t, awssim.Options{LaunchDelay: 20 * time.Second, ShutdownDelay: 30 * time.Second})
	events := &recorder{}
	a.Subscribe(events.observe)
	id := a.launch(t, 1)[0]

	type look struct {
		State                    types.InstanceStateName
		Zone, ZoneID, PrivateDNS string
		Interfaces, Devices      int
	}
	see := func() look {
		i := a.describe(t, id)
		return look{i.State.Name, *i.Placement.AvailabilityZone, *i.Placement.AvailabilityZoneId, aws.ToString(i.PrivateDnsName), len(i.NetworkInterfaces), len(i.BlockDeviceMappings)}
	}
	alive := look{types.InstanceStateNamePending, "eu-west-1a", "euw1-az1", "ip-10-0-0-4.eu-west-1.compute.internal", 1, 1}
	if diff := cmp.Diff(alive, see()); diff != "" {
		t.Errorf("after the launch (-want +got):\n%s", diff)
	}

	a.clock.advance(20 * time.Second)
	alive.State = types.InstanceStateNameRunning
	if diff := cmp.Diff(alive, see()); diff != "" {
		t.Errorf("after the launch delay (-want +got):\n%s", diff)
	}

	out, err := a.ec2().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	noError(t, err)
	change := out.TerminatingInstances[0]
	if change.PreviousState.Name != types.InstanceStateNameRunning || change.CurrentState.Name != types.InstanceStateNameShuttingDown {
		t.Errorf("termination goes from %s to %s, want running to shutting-down", change.PreviousState.Name, change.CurrentState.Name)
	}
	alive.State = types.InstanceStateNameShuttingDown
	if diff := cmp.Diff(alive, see()); diff != "" {
		t.Errorf("while shutting down (-want +got):\n%s", diff)
	}

	a.clock.advance(30 * time.Second)
	gone := look{State: types.InstanceStateNameTerminated, Zone: "eu-west-1a", ZoneID: "euw1-az1"}
	if diff := cmp.Diff(gone, see()); diff != "" {
		t.Errorf("after the shutdown delay (-want +got):\n%s", diff)
	}
	want := []awssim.EventKind{awssim.Launched, awssim.Running, awssim.ShuttingDown, awssim.Terminated}
	eventually(t, "all four events", func() bool { return len(events.kinds()) == len(want) })
	if diff := cmp.Diff(want, events.kinds()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestEventsComeWithoutAnyCall(t *testing.T) {
	s := awssim.New(awssim.Options{Region: region, LaunchDelay: 20 * time.Millisecond, ShutdownDelay: 20 * time.Millisecond})
	noError(t, s.AddCluster(awssim.Cluster{Name: clusterName, Version: "1.36"}))
	a := serve(t, s)
	events := &recorder{}
	a.Subscribe(func(e awssim.Event) {
		events.observe(e)
		if e.Kind == awssim.Running {
			// A subscriber may call the simulator.
			if err := s.Terminate(e.Instance.ID); err != nil {
				t.Error(err)
			}
		}
	})
	a.launch(t, 1)
	eventually(t, "the end of the instance", func() bool { return len(events.kinds()) == 4 })
}

func TestSubscribersSeeTheInstance(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	events := &recorder{}
	a.Subscribe(events.observe)
	id := a.launch(t, 1)[0]
	eventually(t, "the launch", func() bool { return len(events.kinds()) > 0 })
	events.mu.Lock()
	got := events.events[0].Instance
	events.mu.Unlock()
	for _, own := range []string{"aws:ec2:fleet-id", "aws:ec2launchtemplate:id", "aws:ec2launchtemplate:version"} {
		if got.Tags[own] == "" {
			t.Errorf("the instance lacks EC2's own tag %s", own)
		}
		delete(got.Tags, own)
	}
	want := awssim.Instance{
		ID: id, Type: "m5.large", Zone: "eu-west-1a", ZoneID: "euw1-az1", State: "pending",
		PrivateDNSName: "ip-10-0-0-4.eu-west-1.compute.internal", PrivateIP: "10.0.0.4",
		ImageID: a.imageID(t, types.ArchitectureValuesX8664), Arch: "x86_64", CapacityType: "on-demand", UserData: userData,
		Tags: map[string]string{
			"kubernetes.io/cluster/prod": "owned", "eks:eks-cluster-name": "prod", "karpenter.sh/nodepool": "default",
		},
		LaunchTime: a.clock.Now(), VCPU: 2, MemoryMiB: 8192, MaxPods: 29,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instance (-want +got):\n%s", diff)
	}
}

func TestTerminatedInstancesStayListedForAnHour(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]
	noError(t, a.Terminate(id))
	find := func(filters ...types.Filter) int {
		t.Helper()
		out, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: filters})
		noError(t, err)
		return len(idsOf(out.Reservations))
	}
	byPool := types.Filter{Name: aws.String("tag:karpenter.sh/nodepool"), Values: []string{"default"}}
	byState := types.Filter{Name: aws.String("instance-state-name"), Values: []string{"pending", "running", "stopping", "stopped", "shutting-down"}}

	a.clock.advance(4 * time.Second)
	if n := find(byPool); n != 1 {
		t.Errorf("by tag right after its end: %d instances, want the terminated one", n)
	}
	a.clock.advance(58 * time.Minute)
	if n := find(byPool); n != 0 {
		t.Errorf("by tag when EC2 has taken the tags: %d instances, want none", n)
	}
	byID := types.Filter{Name: aws.String("instance-id"), Values: []string{id}}
	if n := find(byID); n != 1 {
		t.Errorf("by ID: %d instances, want the terminated one", n)
	}
	if n := find(byID, byState); n != 0 {
		t.Errorf("by ID and state: %d instances, want none", n)
	}
	out, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}, Filters: []types.Filter{byState}})
	if err != nil || len(out.Reservations) != 0 {
		t.Errorf("by ID and state: %v, error %v; want an empty answer", out, err)
	}
	a.clock.advance(2 * time.Minute)
	if n := find(byID); n != 0 {
		t.Errorf("after an hour: %d instances, want none", n)
	}
	_, err = a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	wantCode(t, err, "InvalidInstanceID.NotFound")
}

func TestTerminateInstancesIsAllOrNothing(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]
	_, err := a.ec2().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id, "i-00000000000000bad"}})
	wantCode(t, err, "InvalidInstanceID.NotFound")
	if got := a.describe(t, id).State.Name; got != types.InstanceStateNameRunning {
		t.Errorf("the instance that exists is %s, want running", got)
	}
}
