package awssim_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

const (
	purchaseOnDemand = types.DefaultTargetCapacityTypeOnDemand
	purchaseSpot     = types.DefaultTargetCapacityTypeSpot
)

func TestCreateFleetPicksThePool(t *testing.T) {
	tests := map[string]struct {
		capacity types.DefaultTargetCapacityType
		n        int32
		pools    []pool
		want     map[string]int // type in zone: how many
		errors   []string
	}{
		"the cheapest type, all from one pool": {
			capacity: purchaseOnDemand, n: 5,
			pools: []pool{{"m5.xlarge", "eu-west-1a"}, {"c5.large", "eu-west-1b"}, {"m5.large", "eu-west-1c"}},
			want:  map[string]int{"c5.large in eu-west-1b on-demand": 5},
		},
		"the cheapest zone on spot": {
			capacity: purchaseSpot, n: 2,
			pools: []pool{{"m5.large", "eu-west-1c"}, {"m5.large", "eu-west-1a"}},
			want:  map[string]int{"m5.large in eu-west-1a spot": 2},
		},
		"another pool where the first is not for sale": {
			capacity: purchaseOnDemand, n: 1,
			pools:  []pool{{"g4dn.xlarge", "eu-west-1c"}, {"g5.xlarge", "eu-west-1a"}},
			want:   map[string]int{"g5.xlarge in eu-west-1a on-demand": 1},
			errors: []string{"Unsupported"},
		},
		"none for the wrong architecture": {
			capacity: purchaseOnDemand, n: 1,
			pools:  []pool{{"m6g.large", "eu-west-1a"}},
			want:   map[string]int{},
			errors: []string{"InvalidParameterValue"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAccount(t, awssim.Options{})
			a.template(t, "amd64", types.ArchitectureValuesX8664)
			out, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "amd64", tc.n, tc.capacity, tc.pools...))
			noError(t, err)
			if diff := cmp.Diff(tc.want, a.launched(t, out, tc.capacity)); diff != "" {
				t.Errorf("instances (-want +got):\n%s", diff)
			}
			var codes []string
			for _, e := range out.Errors {
				codes = append(codes, *e.ErrorCode)
			}
			if diff := cmp.Diff(tc.errors, codes); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// launched counts what a fleet reports as launched, and compares it with EC2's data on each instance.
func (a *account) launched(t *testing.T, out *ec2.CreateFleetOutput, capacity types.DefaultTargetCapacityType) map[string]int {
	t.Helper()
	got := map[string]int{}
	for _, i := range out.Instances {
		o := i.LaunchTemplateAndOverrides.Overrides
		got[fmt.Sprintf("%s in %s %s", i.InstanceType, aws.ToString(o.AvailabilityZone), i.Lifecycle)] += len(i.InstanceIds)
		for _, id := range i.InstanceIds {
			described := a.describe(t, id)
			if described.InstanceType != i.InstanceType || *described.SubnetId != *o.SubnetId || *described.ImageId != *o.ImageId {
				t.Errorf("%s is %s in %s of %s, the fleet said %s in %s of %s", id,
					described.InstanceType, *described.SubnetId, *described.ImageId, i.InstanceType, *o.SubnetId, *o.ImageId)
			}
			if isSpot := described.SpotInstanceRequestId != nil; isSpot != (capacity == purchaseSpot) {
				t.Errorf("%s: spot is %t", id, isSpot)
			}
		}
	}
	return got
}

func TestCreateFleetHonoursSeveralConfigs(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	a.template(t, "arm64", types.ArchitectureValuesArm64)
	in := a.fleetInput(t, "amd64", 1, purchaseOnDemand, pool{"m5.large", "eu-west-1a"})
	arm := a.fleetInput(t, "arm64", 1, purchaseOnDemand, pool{"m6g.large", "eu-west-1b"})
	in.LaunchTemplateConfigs = append(in.LaunchTemplateConfigs, arm.LaunchTemplateConfigs...)
	out, err := a.ec2().CreateFleet(t.Context(), in)
	noError(t, err)
	if len(out.Instances) != 1 || out.Instances[0].InstanceType != "m6g.large" {
		t.Errorf("instances = %v, want one m6g.large, the cheaper of the two configs", out.Instances)
	}
}

func TestCreateFleetGoesByPriorityWhenAsked(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	in := a.fleetInput(t, "amd64", 1, purchaseOnDemand, pool{"c5.large", "eu-west-1a"}, pool{"m5.xlarge", "eu-west-1a"})
	in.OnDemandOptions = &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyPrioritized}
	in.LaunchTemplateConfigs[0].Overrides[0].Priority = aws.Float64(2)
	in.LaunchTemplateConfigs[0].Overrides[1].Priority = aws.Float64(1)
	out, err := a.ec2().CreateFleet(t.Context(), in)
	noError(t, err)
	if got := out.Instances[0].InstanceType; got != "m5.xlarge" {
		t.Errorf("launched %s, want m5.xlarge, which has the lower number", got)
	}
}

func TestCreateFleetIsIdempotent(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	in := a.fleetInput(t, "amd64", 2, purchaseOnDemand, pool{"m5.large", "eu-west-1a"})
	in.ClientToken = aws.String("once")
	first, err := a.ec2().CreateFleet(t.Context(), in)
	noError(t, err)
	second, err := a.ec2().CreateFleet(t.Context(), in)
	noError(t, err)
	if diff := cmp.Diff(first.Instances[0].InstanceIds, second.Instances[0].InstanceIds); diff != "" {
		t.Errorf("the second answer differs (-first +second):\n%s", diff)
	}
	if n := len(a.Instances()); n != 2 {
		t.Errorf("%d instances exist, want 2", n)
	}
	in.TargetCapacitySpecification.TotalTargetCapacity = aws.Int32(3)
	_, err = a.ec2().CreateFleet(t.Context(), in)
	wantCode(t, err, "IdempotentParameterMismatch")
}

func TestCreateFleetWithoutItsTemplate(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	_, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "nothing", 1, purchaseOnDemand, pool{"m5.large", "eu-west-1a"}))
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")
}

func TestFleetRunsOutOfAddresses(t *testing.T) {
	a := newAccount(t, awssim.Options{Zones: []string{"eu-west-1a"}})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	// A /19 has 8192 addresses, of which AWS reserves five.
	out, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "amd64", 8200, purchaseOnDemand, pool{"m5.large", "eu-west-1a"}))
	noError(t, err)
	if got := len(out.Instances[0].InstanceIds); got != 8187 {
		t.Errorf("launched %d instances, want 8187", got)
	}
	if len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "InsufficientFreeAddressesInSubnet" {
		t.Errorf("errors = %v, want InsufficientFreeAddressesInSubnet", out.Errors)
	}
}
