package awssim_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// launchIn launches one instance in a zone.
func (a *account) launchIn(t *testing.T, zone string) string {
	t.Helper()
	a.launch(t, 1) // creates the template
	out, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "amd64", 1, types.DefaultTargetCapacityTypeOnDemand, pool{"m5.large", zone}))
	noError(t, err)
	return out.Instances[0].InstanceIds[0]
}

func (a *account) stateOf(id string) string {
	for _, i := range a.Instances() {
		if i.ID == id {
			return i.State
		}
	}
	return ""
}

func TestStopAndStart(t *testing.T) {
	a := newAccount(t, awssim.Options{LaunchDelay: time.Second, ShutdownDelay: time.Second})
	id := a.launch(t, 1)[0]
	a.clock.advance(time.Second)
	_, err := a.ec2().StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}})
	noError(t, err)
	if got := a.describe(t, id).State; got.Name != types.InstanceStateNameStopping || *got.Code != 64 {
		t.Errorf("state = %v %d, want stopping", got.Name, *got.Code)
	}
	a.clock.advance(time.Second)
	if got := a.describe(t, id); got.State.Name != types.InstanceStateNameStopped || *got.State.Code != 80 || len(got.BlockDeviceMappings) != 1 {
		t.Errorf("state = %v %d with %d volumes, want stopped with its volume", got.State.Name, *got.State.Code, len(got.BlockDeviceMappings))
	}
	if left := a.Left(clusterName); len(left.Instances) != 1 {
		t.Errorf("left = %v, want the stopped instance", left)
	}
	_, err = a.ec2().StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}})
	noError(t, err)
	a.clock.advance(time.Second)
	if got := a.stateOf(id); got != "running" {
		t.Errorf("started, it is %s", got)
	}
	noError(t, a.Stop(id))
	a.clock.advance(time.Second)
	noError(t, a.Terminate(id))
	a.clock.advance(time.Second)
	_, err = a.ec2().StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}})
	wantCode(t, err, "IncorrectInstanceState")
}

// TestTerminationProtection: a protected instance fails the call and keeps those of its zone, while those of another
// zone are terminated.
func TestTerminationProtection(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	protected, beside, elsewhere := a.launchIn(t, "eu-west-1a"), a.launchIn(t, "eu-west-1a"), a.launchIn(t, "eu-west-1b")
	_, err := a.ec2().ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{
		InstanceId: aws.String(protected), DisableApiTermination: &types.AttributeBooleanValue{Value: aws.Bool(true)},
	})
	noError(t, err)
	_, err = a.ec2().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{beside, elsewhere, protected}})
	wantCode(t, err, "OperationNotPermitted")
	if err == nil || !strings.Contains(err.Error(), protected) {
		t.Errorf("error = %v, want the protected instance in it", err)
	}
	for id, want := range map[string]string{protected: "running", beside: "running", elsewhere: "terminated"} {
		if got := a.stateOf(id); got != want {
			t.Errorf("instance %s of %v is %s, want %s", id, []string{protected, beside, elsewhere}, got, want)
		}
	}
	a.admin(t, http.MethodPost, "instances/"+protected+"/unprotect", "", http.StatusNoContent, nil)
	_, err = a.ec2().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{beside, protected}})
	noError(t, err)
}

func TestOutageOfAZone(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	within, without := a.launchIn(t, "eu-west-1b"), a.launchIn(t, "eu-west-1a")
	a.admin(t, http.MethodPost, "zones/eu-west-1b/outage", "", http.StatusNoContent, nil)
	ask := func(ids ...string) error {
		_, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: ids})
		return err
	}
	wantCode(t, ask(), "Unavailable")
	wantCode(t, ask(within), "Unavailable")
	wantCode(t, ask(within, without), "Unavailable")
	noError(t, ask(without))
	_, err := a.ec2().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{within, without}})
	wantCode(t, err, "Unavailable")
	if got := []string{a.stateOf(within), a.stateOf(without)}; !slices.Equal(got, []string{"running", "terminated"}) {
		t.Errorf("the instance in the zone is %s, the other %s; want running, terminated", got[0], got[1])
	}
	out, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "amd64", 1, types.DefaultTargetCapacityTypeOnDemand, pool{"m5.large", "eu-west-1b"}))
	noError(t, err)
	if len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "InsufficientInstanceCapacity" {
		t.Errorf("a launch into the zone: %v, want no capacity", out)
	}
	a.admin(t, http.MethodDelete, "zones/eu-west-1b/outage", "", http.StatusNoContent, nil)
	noError(t, ask())
	a.admin(t, http.MethodPost, "zones/nowhere/outage", "", http.StatusBadRequest, nil)
}

func TestFaultsWithACode(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	ask := func() error {
		_, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
		return err
	}
	a.fault(t, awssim.Fault{Action: "DescribeInstances", Kind: awssim.Fail, Code: "InternalError", Count: 2})
	wantCode(t, ask(), "InternalError")
	wantCode(t, ask(), "InternalError")
	noError(t, ask())
	a.fault(t, awssim.Fault{Action: "DescribeInstances", Kind: awssim.Fail, Code: "InvalidInstanceID.NotFound", Message: "The instance ID 'i-0123456789abcdef0' does not exist", Count: 1})
	err := ask()
	wantCode(t, err, "InvalidInstanceID.NotFound")
	if err == nil || !strings.Contains(err.Error(), "i-0123456789abcdef0") {
		t.Errorf("error = %v, want the message that was asked for", err)
	}
	for _, bad := range []awssim.Fault{{Kind: awssim.Fail}, {Kind: awssim.Deny, Code: "X"}} {
		if _, err := a.AddFault(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

func TestClusterStatus(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	describe := func() *ekstypes.Cluster {
		out, err := eks.NewFromConfig(a.config("tester")).DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String(clusterName)})
		noError(t, err)
		return out.Cluster
	}
	a.admin(t, http.MethodPut, "clusters/prod/status", `{"status":"UPDATING"}`, http.StatusNoContent, nil)
	if c := describe(); c.Status != ekstypes.ClusterStatusUpdating || c.Endpoint == nil {
		t.Errorf("cluster = %+v, want UPDATING with its endpoint", c)
	}
	noError(t, a.SetClusterStatus(clusterName, "CREATING"))
	if c := describe(); c.Endpoint != nil || c.CertificateAuthority != nil {
		t.Errorf("cluster = %+v, want one without endpoint and authority while it is created", c)
	}
	a.admin(t, http.MethodPut, "clusters/prod/status", `{"status":"WELL"}`, http.StatusBadRequest, nil)
	a.admin(t, http.MethodPut, "clusters/nobody/status", `{"status":"ACTIVE"}`, http.StatusBadRequest, nil)
}

func TestPartitions(t *testing.T) {
	for name, want := range map[string]string{
		"eu-west-1": "arn:aws:eks:eu-west-1:000000000000:cluster/prod", "cn-north-1": "arn:aws-cn:eks:cn-north-1:000000000000:cluster/prod",
		"us-gov-west-1": "arn:aws-us-gov:eks:us-gov-west-1:000000000000:cluster/prod",
	} {
		t.Run(name, func(t *testing.T) {
			s := awssim.New(awssim.Options{Region: name})
			noError(t, s.AddCluster(awssim.Cluster{Name: clusterName, Version: "1.36"}))
			a := serve(t, s)
			config := a.config("tester")
			config.Region = name
			out, err := eks.NewFromConfig(config).DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String(clusterName)})
			noError(t, err)
			if got := *out.Cluster.Arn; got != want {
				t.Errorf("ARN = %s, want %s", got, want)
			}
		})
	}
}
