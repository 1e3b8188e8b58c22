package awssim_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

func TestCapacityRunsShort(t *testing.T) {
	pools := []pool{{"m5.large", "eu-west-1a"}, {"c5.large", "eu-west-1a"}, {"m5.large", "eu-west-1b"}}
	cases := map[string]struct {
		short awssim.Shortage
		// launches tells for each pool and market whether there is capacity.
		onDemand, spot [3]bool
	}{
		"of all":               {awssim.Shortage{}, [3]bool{}, [3]bool{}},
		"of a type":            {awssim.Shortage{Type: "m5.*"}, [3]bool{false, true, false}, [3]bool{false, true, false}},
		"of a zone":            {awssim.Shortage{Zone: "eu-west-1a"}, [3]bool{false, false, true}, [3]bool{false, false, true}},
		"of a market":          {awssim.Shortage{Market: "spot"}, [3]bool{true, true, true}, [3]bool{}},
		"of a type in a place": {awssim.Shortage{Type: "m5.large", Zone: "eu-west-1b", Market: "on-demand"}, [3]bool{true, true, false}, [3]bool{true, true, true}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t, awssim.Options{})
			a.template(t, "amd64", types.ArchitectureValuesX8664)
			noError(t, a.RunShort(c.short))
			for n, p := range pools {
				for market, room := range map[types.DefaultTargetCapacityType]bool{purchaseOnDemand: c.onDemand[n], types.DefaultTargetCapacityTypeSpot: c.spot[n]} {
					out, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "amd64", 1, market, p))
					noError(t, err)
					if got := len(out.Instances) == 1; got != room {
						t.Errorf("%s %v: room = %t, want %t", market, p, got, room)
					}
					if !room && (len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "InsufficientInstanceCapacity" || string(out.Errors[0].Lifecycle) != string(market)) {
						t.Errorf("%s %v: errors %+v", market, p, out.Errors)
					}
				}
			}
			a.Restock()
			a.launch(t, 1)
		})
	}
}

// TestAShortFleetFallsBack to a pool with capacity.
func TestAShortFleetFallsBack(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	noError(t, a.RunShort(awssim.Shortage{Zone: "eu-west-1a"}))
	out, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "amd64", 2, purchaseOnDemand, pool{"m5.large", "eu-west-1a"}, pool{"m5.large", "eu-west-1c"}))
	noError(t, err)
	if len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != 2 || *out.Instances[0].LaunchTemplateAndOverrides.Overrides.AvailabilityZone != "eu-west-1c" || len(out.Errors) != 1 {
		t.Errorf("instances %+v, errors %+v; want both in eu-west-1c and one error", out.Instances, out.Errors)
	}
}

// TestRunInstancesRunsShort, but its dry run does not report that, as in EC2.
func TestRunInstancesRunsShort(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	subnets, group := a.network(t)
	noError(t, a.RunShort(awssim.Shortage{Type: "m5.large"}))
	in := &ec2.RunInstancesInput{
		ImageId: aws.String(a.imageID(t, types.ArchitectureValuesX8664)), InstanceType: types.InstanceTypeM5Large,
		SubnetId: aws.String(subnets["eu-west-1a"]), SecurityGroupIds: []string{group}, MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		DryRun: aws.Bool(true),
	}
	_, err := a.ec2().RunInstances(t.Context(), in)
	wantCode(t, err, "DryRunOperation")
	in.DryRun = nil
	_, err = a.ec2().RunInstances(t.Context(), in)
	wantCode(t, err, "InsufficientInstanceCapacity")
}
