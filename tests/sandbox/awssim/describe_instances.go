package awssim

import (
	"maps"
	"regexp"
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

// instanceID matches an instance's ID: eight digits for old ones, otherwise 17.
var instanceID = regexp.MustCompile(`^i-([0-9a-f]{8}|[0-9a-f]{17})$`)

// findInstances returns the instances of ids in that order; it fails if one does not exist (or is not visible yet).
func (a *account) findInstances(ids []string) ([]*instance, error) {
	return a.lookUp(ids, func(i *instance) *instance {
		if i.visible(a.now) {
			return i
		}
		return nil
	})
}

// lookUp returns what see shows of the instances of ids; it fails if see does not show one.
func (a *account) lookUp(ids []string, see func(*instance) *instance) ([]*instance, error) {
	var found []*instance
	var missing []string
	for _, id := range ids {
		if !instanceID.MatchString(id) {
			return nil, wire.Errorf("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
		}
		i, ok := a.instances[id]
		if ok {
			i = see(i)
		}
		if i == nil {
			missing = append(missing, id)
		} else {
			found = append(found, i)
		}
	}
	if len(missing) > 0 {
		return nil, instanceNotFound(missing...)
	}
	return found, nil
}

// selectInstances returns those of ids (all, if there are none) that pass filters, as the response to r shows them.
func (a *account) selectInstances(r *request, ids []string, filters []*ec2.Filter, attrs attributes[*instance]) ([]*instance, error) {
	matches, err := selector(filters, attrs)
	if err != nil {
		return nil, err
	}
	see := func(i *instance) *instance { return a.see(r.principal.AccessKey, i) }
	var selected []*instance
	if len(ids) > 0 {
		if selected, err = a.lookUp(ids, see); err != nil {
			return nil, err
		}
	} else {
		for _, id := range slices.Sorted(maps.Keys(a.instances)) {
			if i := see(a.instances[id]); i != nil {
				selected = append(selected, i)
			}
		}
	}
	var named []*instance
	if len(ids) > 0 {
		named = selected
	}
	if err := a.disrupted(named); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(selected, func(i *instance) bool { return !matches(i) }), nil
}

func (a *account) describeInstances(r *request, in *ec2.DescribeInstancesInput) (*describeInstancesOutput, error) {
	if len(in.InstanceIds) > 0 && in.MaxResults != nil {
		return nil, idsAndLimit()
	}
	selected, err := a.selectInstances(r, aws.StringValueSlice(in.InstanceIds), in.Filters, a.instanceAttributes())
	if err != nil {
		return nil, err
	}
	selected, next, err := ec2Page(a, r, selected, (*instance).id, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &describeInstancesOutput{NextToken: next, Reservations: a.reservations(selected)}, nil
}

// reservations groups instances by the call that launched them, ordered by the first of each.
func (a *account) reservations(instances []*instance) []*reservation {
	all := []*reservation{}
	attached := a.attachedVolumes()
	for len(instances) > 0 {
		id := instances[0].reservationID
		together := func(i *instance) bool { return i.reservationID == id }
		all = append(all, a.reservation(slices.DeleteFunc(slices.Clone(instances), func(i *instance) bool { return !together(i) }), attached))
		instances = slices.DeleteFunc(instances, together)
	}
	return all
}

// mostStatusIDs is the maximum number of instances in a query for their status.
const mostStatusIDs = 100

// describeInstanceStatus reports only healthy instances.
func (a *account) describeInstanceStatus(r *request, in *ec2.DescribeInstanceStatusInput) (*ec2.DescribeInstanceStatusOutput, error) {
	switch {
	case len(in.InstanceIds) > 0 && in.MaxResults != nil:
		return nil, idsAndLimit()
	case len(in.InstanceIds) > mostStatusIDs:
		return nil, wire.Errorf("InvalidRequest", "%d exceeds the maximum number of instance IDs that can be specificied (%d). Please specify fewer than %d instance IDs.", len(in.InstanceIds), mostStatusIDs, mostStatusIDs)
	}
	attrs := a.instanceAttributes()
	healthy := func(*instance) []string { return []string{"ok"} }
	attrs["instance-status.status"], attrs["system-status.status"] = healthy, healthy
	attrs["event.code"] = func(*instance) []string { return nil }
	selected, err := a.selectInstances(r, aws.StringValueSlice(in.InstanceIds), in.Filters, attrs)
	if err != nil {
		return nil, err
	}
	if !aws.BoolValue(in.IncludeAllInstances) {
		selected = slices.DeleteFunc(selected, func(i *instance) bool { return i.state != stateRunning })
	}
	selected, next, err := ec2Page(a, r, selected, (*instance).id, in.MaxResults, in.NextToken)
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
