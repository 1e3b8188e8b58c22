package awssim_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

func (a *account) fault(t *testing.T, f awssim.Fault) awssim.Fault {
	t.Helper()
	added, err := a.AddFault(f)
	noError(t, err)
	return added
}

func TestRefusalsInEachProtocol(t *testing.T) {
	calls := map[string]func(*testing.T, *account) error{
		"ec2": func(t *testing.T, a *account) error {
			_, err := a.ec2().DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
			return err
		},
		"iam": func(t *testing.T, a *account) error {
			_, err := a.iam().ListRoles(t.Context(), &iam.ListRolesInput{})
			return err
		},
		"ssm": func(t *testing.T, a *account) error {
			_, err := ssm.NewFromConfig(a.config("tester")).GetParametersByPath(t.Context(), &ssm.GetParametersByPathInput{Path: aws.String("/x")})
			return err
		},
		"eks": func(t *testing.T, a *account) error {
			_, err := eks.NewFromConfig(a.config("tester")).DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String(clusterName)})
			return err
		},
	}
	want := map[string]map[awssim.FaultKind]string{
		"ec2": {awssim.Throttle: "RequestLimitExceeded", awssim.Deny: "UnauthorizedOperation", awssim.Expire: "RequestExpired"},
		"iam": {awssim.Throttle: "Throttling", awssim.Deny: "AccessDenied", awssim.Expire: "ExpiredToken"},
		"ssm": {awssim.Throttle: "ThrottlingException", awssim.Deny: "AccessDeniedException", awssim.Expire: "ExpiredTokenException"},
		"eks": {awssim.Throttle: "ThrottlingException", awssim.Deny: "AccessDeniedException", awssim.Expire: "ExpiredTokenException"},
	}
	for service, call := range calls {
		t.Run(service, func(t *testing.T) {
			a := newAccount(t, awssim.Options{})
			for kind, code := range want[service] {
				a.fault(t, awssim.Fault{Service: service, Kind: kind, Count: 1})
				wantCode(t, call(t, a), code)
				noError(t, call(t, a)) // the fault is used up
			}
		})
	}
}

func TestFaultsMatchTheirCallers(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.fault(t, awssim.Fault{Service: "ec2", Action: "Describe*", AccessKey: "karpenter", UserAgent: "aws-sdk-go-v2", Kind: awssim.Deny})
	describe := func(accessKey string) error {
		_, err := ec2.NewFromConfig(a.config(accessKey)).DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
		return err
	}
	wantCode(t, describe("karpenter"), "UnauthorizedOperation")
	noError(t, describe("plumbline"))
	_, err := iam.NewFromConfig(a.config("karpenter")).ListRoles(t.Context(), &iam.ListRolesInput{})
	noError(t, err)
	if n := a.RemoveFaults(""); n != 1 {
		t.Errorf("removed %d faults, want 1", n)
	}
	noError(t, describe("karpenter"))
}

// TestThrottleToARate: a second's worth of calls is allowed, then as many as the rate allows.
func TestThrottleToARate(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.fault(t, awssim.Fault{Action: "DescribeVpcs", Kind: awssim.Throttle, Rate: 2})
	passed := func(calls int) int {
		n := 0
		for range calls {
			_, err := a.ec2().DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
			if err == nil {
				n++
				continue
			}
			wantCode(t, err, "RequestLimitExceeded")
		}
		return n
	}
	if n := passed(5); n != 2 {
		t.Errorf("%d calls of a burst passed, want 2", n)
	}
	a.clock.advance(500 * time.Millisecond)
	if n := passed(3); n != 1 {
		t.Errorf("%d calls passed half a second later, want 1", n)
	}
	a.clock.advance(time.Minute)
	if n := passed(5); n != 2 {
		t.Errorf("%d calls passed a minute later, want 2", n)
	}
}

func TestDelay(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.fault(t, awssim.Fault{Action: "DescribeVpcs", Kind: awssim.Delay, Duration: awssim.Duration(100 * time.Millisecond)})
	started := time.Now()
	_, err := a.ec2().DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	noError(t, err)
	if took := time.Since(started); took < 100*time.Millisecond {
		t.Errorf("the call took %v, want at least 100ms", took)
	}
}

func TestLoseResponseDoesTheWork(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	a.fault(t, awssim.Fault{Action: "CreateFleet", Kind: awssim.LoseResponse, Count: 1})
	in := a.fleetInput(t, "amd64", 1, purchaseOnDemand, pool{"m5.large", "eu-west-1a"})
	in.ClientToken = aws.String("once")
	if _, err := a.ec2().CreateFleet(t.Context(), in); err == nil {
		t.Fatal("the answer arrived, want a broken connection")
	}
	if n := len(a.Instances()); n != 1 {
		t.Fatalf("%d instances exist, want 1: the work is done", n)
	}
	out, err := a.ec2().CreateFleet(t.Context(), in)
	noError(t, err)
	if n := len(a.Instances()); n != 1 || out.Instances[0].InstanceIds[0] != a.Instances()[0].ID {
		t.Errorf("%d instances exist and the retry says %v, want the first one", n, out.Instances)
	}
}

func TestHide(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	a.fault(t, awssim.Fault{Action: "CreateFleet", Kind: awssim.Hide, Duration: awssim.Duration(10 * time.Second), Count: 1})
	id := a.launch(t, 1)[0]

	byID := func() error {
		_, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		return err
	}
	wantCode(t, byID(), "InvalidInstanceID.NotFound")
	out, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{})
	noError(t, err)
	if n := len(out.Reservations); n != 0 {
		t.Errorf("%d instances are listed, want none yet", n)
	}
	if left := a.Left(clusterName); len(left.Instances) != 1 {
		t.Errorf("left = %v, want the hidden instance", left)
	}
	a.clock.advance(10 * time.Second)
	noError(t, byID())
}

func TestFaultsThatMakeNoSenseAreRefused(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	for name, f := range map[string]awssim.Fault{
		"unknown kind":       {Kind: "explode"},
		"delay of no length": {Kind: awssim.Delay},
		"hide of no length":  {Kind: awssim.Hide},
		"deny with a rate":   {Kind: awssim.Deny, Rate: 1},
		"a negative rate":    {Kind: awssim.Throttle, Rate: -1},
	} {
		if _, err := a.AddFault(f); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
