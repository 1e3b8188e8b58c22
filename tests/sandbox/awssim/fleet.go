package awssim

import (
	"cmp"
	"slices"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// fleet is an instant fleet: a record of what was launched together.
type fleet struct {
	resource
	instances []string
}

// candidate is one pool that a fleet may launch from.
type candidate struct {
	spec     launchSpec
	price    float64
	priority float64
	answer   *ec2.LaunchTemplateAndOverridesResponse
}

func (a *account) launchActions() map[string]action {
	return map[string]action{
		"CreateFleet":        checkedQuery(a, a.checkFleet, a.createFleet),
		"RunInstances":       checkedQuery(a, a.checkRun, a.runInstances),
		"TerminateInstances": query(a, a.terminateInstances),
	}
}

func (a *account) checkFleet(in *ec2.CreateFleetInput) error {
	if t := aws.StringValue(in.Type); t != ec2.FleetTypeInstant {
		return wire.Errorf("InvalidParameterValue", "the simulator makes fleets of type instant only, not %q", t)
	}
	if len(in.LaunchTemplateConfigs) == 0 || in.TargetCapacitySpecification == nil {
		return wire.Errorf("MissingParameter", "The request must contain the parameters LaunchTemplateConfigs and TargetCapacitySpecification")
	}
	return nil
}

// createFleet launches the requested instances from the best pools, falling back to the next when one cannot launch.
// Errors contains what could not be launched; the call itself succeeds.
func (a *account) createFleet(r *request, in *ec2.CreateFleetInput) (*ec2.CreateFleetOutput, error) {
	f := &fleet{resource: a.newResource("fleet-", specTags(in.TagSpecifications, "fleet"), r.hide())}
	out := &ec2.CreateFleetOutput{FleetId: aws.String(f.ID), Errors: []*ec2.CreateFleetError{}, Instances: []*ec2.CreateFleetInstance{}}
	target := in.TargetCapacitySpecification
	wanted := map[string]int64{onDemand: aws.Int64Value(target.OnDemandTargetCapacity), spot: aws.Int64Value(target.SpotTargetCapacity)}
	byDefault := cmp.Or(aws.StringValue(target.DefaultTargetCapacityType), onDemand)
	if byDefault != onDemand && byDefault != spot {
		return nil, wire.Errorf("InvalidParameterValue", "the simulator has no capacity of type %q", byDefault)
	}
	wanted[byDefault] += max(0, aws.Int64Value(target.TotalTargetCapacity)-wanted[onDemand]-wanted[spot])
	for _, capacityType := range []string{onDemand, spot} {
		candidates, err := a.candidates(in, capacityType)
		if err != nil {
			return nil, err
		}
		for _, c := range candidates {
			if wanted[capacityType] == 0 {
				break
			}
			c.spec.fleetID = f.ID
			wanted[capacityType] -= a.fill(r, c, wanted[capacityType], f, out)
		}
	}
	a.fleets[f.ID] = f
	return out, nil
}

// fill launches up to n instances from one pool and records the result in out.
func (a *account) fill(r *request, c candidate, n int64, f *fleet, out *ec2.CreateFleetOutput) int64 {
	var ids []*string
	c.spec.reservationID = a.newResource("r-", nil, 0).ID
	for int64(len(ids)) < n {
		err := a.check(c.spec)
		if err == nil {
			err = a.spotAllowed(c.spec)
		}
		if err == nil {
			err = a.capacity(c.spec)
		}
		if err != nil {
			e := wire.AsError(err)
			out.Errors = append(out.Errors, &ec2.CreateFleetError{
				ErrorCode: aws.String(e.Code), ErrorMessage: aws.String(e.Message),
				LaunchTemplateAndOverrides: c.answer, Lifecycle: aws.String(c.spec.capacityType),
			})
			break
		}
		i := a.start(c.spec, r.hide())
		ids = append(ids, aws.String(i.ID))
		f.instances = append(f.instances, i.ID)
	}
	if len(ids) > 0 {
		out.Instances = append(out.Instances, &ec2.CreateFleetInstance{
			InstanceIds: ids, InstanceType: aws.String(c.spec.instanceType),
			Lifecycle: aws.String(c.spec.capacityType), LaunchTemplateAndOverrides: c.answer,
		})
	}
	return int64(len(ids))
}

// candidates returns the pools of all configs, best first: by priority if the strategy requires that, else by price.
func (a *account) candidates(in *ec2.CreateFleetInput, capacityType string) ([]candidate, error) {
	var all []candidate
	for _, config := range in.LaunchTemplateConfigs {
		reference := config.LaunchTemplateSpecification
		if reference == nil {
			return nil, wire.Errorf("MissingParameter", "The request must contain the parameter LaunchTemplateSpecification")
		}
		t, err := a.findTemplate(reference.LaunchTemplateId, reference.LaunchTemplateName)
		if err != nil {
			return nil, err
		}
		overrides := config.Overrides
		if len(overrides) == 0 {
			overrides = []*ec2.FleetLaunchTemplateOverridesRequest{{}}
		}
		for _, o := range overrides {
			if o.InstanceRequirements != nil {
				return nil, wire.Errorf("InvalidParameterValue", "the simulator has no attribute-based selection of instance types: name the types")
			}
			all = append(all, a.candidate(in, t, o, capacityType))
		}
	}
	prioritized := in.OnDemandOptions != nil && aws.StringValue(in.OnDemandOptions.AllocationStrategy) == ec2.FleetOnDemandAllocationStrategyPrioritized
	if capacityType == spot {
		prioritized = in.SpotOptions != nil && aws.StringValue(in.SpotOptions.AllocationStrategy) == ec2.SpotAllocationStrategyCapacityOptimizedPrioritized
	}
	slices.SortStableFunc(all, func(x, y candidate) int {
		if prioritized {
			return cmp.Or(cmp.Compare(x.priority, y.priority), cmp.Compare(x.price, y.price))
		}
		return cmp.Compare(x.price, y.price)
	})
	return all, nil
}

func (a *account) candidate(in *ec2.CreateFleetInput, t *launchTemplate, o *ec2.FleetLaunchTemplateOverridesRequest, capacityType string) candidate {
	spec := launchSpec{capacityType: capacityType}
	spec.apply(t)
	spec.capacityType = capacityType
	spec.imageID = cmp.Or(aws.StringValue(o.ImageId), spec.imageID)
	spec.instanceType = cmp.Or(aws.StringValue(o.InstanceType), spec.instanceType)
	spec.subnetID = cmp.Or(aws.StringValue(o.SubnetId), spec.subnetID, a.defaultSubnet(aws.StringValue(o.AvailabilityZone), spec.groups))
	for _, ts := range in.TagSpecifications {
		spec.tag(aws.StringValue(ts.ResourceType), ts.Tags)
	}
	zone := aws.StringValue(o.AvailabilityZone)
	if sub, ok := a.subnets[spec.subnetID]; ok {
		zone = sub.zone
	}
	price := a.types[spec.instanceType].OnDemandUSD
	if capacityType == spot {
		price = a.types[spec.instanceType].SpotUSD(a.zoneIndex(zone))
	}
	return candidate{
		spec: spec, price: price, priority: aws.Float64Value(o.Priority),
		answer: &ec2.LaunchTemplateAndOverridesResponse{
			LaunchTemplateSpecification: &ec2.FleetLaunchTemplateSpecification{
				LaunchTemplateId: aws.String(t.ID), LaunchTemplateName: aws.String(t.name), Version: aws.String("1"),
			},
			Overrides: &ec2.FleetLaunchTemplateOverrides{
				InstanceType: aws.String(spec.instanceType), SubnetId: aws.String(spec.subnetID),
				AvailabilityZone: aws.String(zone), ImageId: aws.String(spec.imageID),
				Priority: o.Priority, MaxPrice: o.MaxPrice, WeightedCapacity: o.WeightedCapacity,
			},
		},
	}
}
