package awssim

import (
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) instanceActions() map[string]action {
	return map[string]action{
		"DescribeInstances":      query(a, a.describeInstances),
		"DescribeInstanceStatus": query(a, a.describeInstanceStatus),
	}
}

// instanceAttributes are the filters of DescribeInstances.
func (a *account) instanceAttributes() attributes[*instance] {
	return attributes[*instance]{
		"instance-id":              one(func(i *instance) string { return i.ID }),
		"instance-state-name":      one(func(i *instance) string { return i.state }),
		"instance-type":            one(func(i *instance) string { return i.kind.Name }),
		"instance-lifecycle":       one(func(i *instance) string { return strings.TrimPrefix(i.spec.capacityType, onDemand) }),
		"architecture":             one(func(i *instance) string { return i.kind.Arch }),
		"image-id":                 one(func(i *instance) string { return i.spec.imageID }),
		"availability-zone":        one(func(i *instance) string { return i.subnet.zone }),
		"subnet-id":                one(func(i *instance) string { return i.subnet.ID }),
		"vpc-id":                   one(func(i *instance) string { return i.subnet.vpcID }),
		"private-dns-name":         one(func(i *instance) string { return i.dnsName }),
		"private-ip-address":       one(func(i *instance) string { return i.ip }),
		"reservation-id":           one(func(i *instance) string { return i.reservationID }),
		"iam-instance-profile.arn": one(func(i *instance) string { return a.profileARN(i.spec.profile) }),
		"instance.group-id":        func(i *instance) []string { return i.spec.groups },
		"launch-time":              one(func(i *instance) string { return i.launched.UTC().Format(time.RFC3339) }),
	}
}

// findInstances returns the instances of ids in that order; one that is not
// there (or not visible yet) fails all.
func (a *account) findInstances(ids []string) ([]*instance, error) {
	var found []*instance
	var missing []string
	for _, id := range ids {
		if !strings.HasPrefix(id, "i-") {
			return nil, wire.Errorf("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
		}
		if i, ok := a.instances[id]; ok && i.visible(a.now) {
			found = append(found, i)
		} else {
			missing = append(missing, id)
		}
	}
	if len(missing) > 0 {
		return nil, instanceNotFound(missing...)
	}
	return found, nil
}

// selectInstances are those of ids (all, if there are none) that pass filters.
func (a *account) selectInstances(ids []string, filters []*ec2.Filter, attrs attributes[*instance]) ([]*instance, error) {
	matches, err := selector(filters, attrs)
	if err != nil {
		return nil, err
	}
	var selected []*instance
	if len(ids) > 0 {
		if selected, err = a.findInstances(ids); err != nil {
			return nil, err
		}
	} else {
		for _, i := range a.instances {
			if i.visible(a.now) {
				selected = append(selected, i)
			}
		}
	}
	return slices.DeleteFunc(selected, func(i *instance) bool { return !matches(i) }), nil
}

func (a *account) describeInstances(_ *request, in *ec2.DescribeInstancesInput) (*describeInstancesOutput, error) {
	if len(in.InstanceIds) > 0 && in.MaxResults != nil {
		return nil, wire.Errorf("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	selected, err := a.selectInstances(aws.StringValueSlice(in.InstanceIds), in.Filters, a.instanceAttributes())
	if err != nil {
		return nil, err
	}
	selected, next, err := page(selected, func(i *instance) string { return i.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &describeInstancesOutput{NextToken: next, Reservations: []*reservation{}}
	attached := a.attachedVolumes()
	for _, i := range selected {
		out.Reservations = append(out.Reservations, a.reservation([]*instance{i}, attached))
	}
	return out, nil
}

// describeInstanceStatus knows healthy instances only.
func (a *account) describeInstanceStatus(_ *request, in *ec2.DescribeInstanceStatusInput) (*ec2.DescribeInstanceStatusOutput, error) {
	attrs := a.instanceAttributes()
	healthy := func(*instance) []string { return []string{"ok"} }
	attrs["instance-status.status"], attrs["system-status.status"] = healthy, healthy
	attrs["event.code"] = func(*instance) []string { return nil }
	selected, err := a.selectInstances(aws.StringValueSlice(in.InstanceIds), in.Filters, attrs)
	if err != nil {
		return nil, err
	}
	if !aws.BoolValue(in.IncludeAllInstances) {
		selected = slices.DeleteFunc(selected, func(i *instance) bool { return i.state != stateRunning })
	}
	selected, next, err := page(selected, func(i *instance) string { return i.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeInstanceStatusOutput{NextToken: next, InstanceStatuses: []*ec2.InstanceStatus{}}
	for _, i := range selected {
		out.InstanceStatuses = append(out.InstanceStatuses, &ec2.InstanceStatus{
			InstanceId: aws.String(i.ID), AvailabilityZone: aws.String(i.subnet.zone), InstanceState: instanceState(i.state),
			InstanceStatus: &ec2.InstanceStatusSummary{Status: aws.String("ok")},
			SystemStatus:   &ec2.InstanceStatusSummary{Status: aws.String("ok")},
		})
	}
	return out, nil
}

func joinIDs(ids []string) string { return strings.Join(ids, ", ") }
