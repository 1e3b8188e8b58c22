package awssim

import (
	"cmp"
	"slices"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) checkRun(in *ec2.RunInstancesInput) error {
	spec, err := a.runSpec(in)
	if err != nil {
		return err
	}
	if aws.Int64Value(in.MinCount) < 1 || aws.Int64Value(in.MaxCount) < aws.Int64Value(in.MinCount) {
		return wire.Errorf("InvalidParameterValue", "MinCount must be at least 1 and MaxCount at least MinCount")
	}
	return a.check(spec)
}

func (a *account) runInstances(r *request, in *ec2.RunInstancesInput) (*reservation, error) {
	spec, err := a.runSpec(in)
	if err != nil {
		return nil, err
	}
	if spec.subnetID == "" {
		return nil, wire.Errorf("VPCIdNotSpecified", "No default VPC for this user. Specify a subnet.")
	}
	var started []*instance
	spec.reservationID = a.newResource("r-", nil, 0).ID
	for range aws.Int64Value(in.MaxCount) {
		err := a.check(spec)
		if err == nil {
			err = a.capacity(spec)
		}
		if err != nil {
			if int64(len(started)) >= aws.Int64Value(in.MinCount) {
				break
			}
			for _, i := range started {
				a.terminate(i, "Server.InternalError: less than MinCount could be launched")
			}
			return nil, err
		}
		started = append(started, a.start(spec, r.hide()))
	}
	return a.reservation(started, a.attachedVolumes()), nil
}

func (a *account) runSpec(in *ec2.RunInstancesInput) (launchSpec, error) {
	spec := launchSpec{capacityType: onDemand}
	if reference := in.LaunchTemplate; reference != nil {
		t, err := a.findTemplate(reference.LaunchTemplateId, reference.LaunchTemplateName)
		if err != nil {
			return spec, err
		}
		spec.apply(t)
	}
	if m := in.InstanceMarketOptions; m != nil {
		spec.capacityType = aws.StringValue(m.MarketType)
	}
	spec.imageID = cmp.Or(aws.StringValue(in.ImageId), spec.imageID)
	spec.instanceType = cmp.Or(aws.StringValue(in.InstanceType), spec.instanceType)
	spec.subnetID = cmp.Or(aws.StringValue(in.SubnetId), spec.subnetID)
	spec.userData = cmp.Or(aws.StringValue(in.UserData), spec.userData)
	if len(in.SecurityGroupIds) > 0 {
		spec.groups = aws.StringValueSlice(in.SecurityGroupIds)
	}
	if p := in.IamInstanceProfile; p != nil {
		spec.profile = profileName(p.Name, p.Arn)
	}
	for _, n := range in.NetworkInterfaces {
		spec.subnetID = cmp.Or(aws.StringValue(n.SubnetId), spec.subnetID)
		if len(n.Groups) > 0 {
			spec.groups = aws.StringValueSlice(n.Groups)
		}
	}
	for _, ts := range in.TagSpecifications {
		spec.tag(aws.StringValue(ts.ResourceType), ts.Tags)
	}
	return spec, nil
}

// terminateInstances terminates instances. One that does not exist fails all of them. One that is protected, or in a
// disrupted zone, fails those of its zone, and with them the call, while those of other zones are terminated:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TerminateInstances.html Terminating a terminated one again
// is no error.
func (a *account) terminateInstances(_ *request, in *ec2.TerminateInstancesInput) (*ec2.TerminateInstancesOutput, error) {
	instances, err := a.findInstances(aws.StringValueSlice(in.InstanceIds))
	if err != nil {
		return nil, err
	}
	out := &ec2.TerminateInstancesOutput{TerminatingInstances: []*ec2.InstanceStateChange{}}
	for _, zone := range a.options.Zones {
		here := slices.DeleteFunc(slices.Clone(instances), func(i *instance) bool { return i.subnet.zone != zone })
		if refused := a.mayTerminate(here, zone); refused != nil {
			err = cmp.Or(err, refused)
			continue
		}
		for _, i := range here {
			before := instanceState(i.state)
			a.terminate(i, a.userInitiated())
			out.TerminatingInstances = append(out.TerminatingInstances, stateChange(i, before))
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// mayTerminate returns why the instances of a zone cannot be terminated.
func (a *account) mayTerminate(instances []*instance, zone string) error {
	if len(instances) > 0 && a.outages[zone] {
		return unavailable()
	}
	for _, i := range instances {
		if i.protected && i.state != stateTerminated {
			return wire.Errorf("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", i.ID)
		}
	}
	return nil
}
