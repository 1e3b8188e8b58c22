package awssim

import (
	"fmt"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) stopActions() map[string]action {
	return map[string]action{
		"StopInstances":             query(a, a.stopInstances),
		"StartInstances":            query(a, a.startInstances),
		"ModifyInstanceAttribute":   query(a, a.modifyInstanceAttribute),
		"DescribeInstanceAttribute": query(a, a.describeInstanceAttribute),
	}
}

// stop starts stopping i. A stopped instance keeps its volumes and addresses and can be started again.
func (a *account) stop(i *instance) error {
	switch {
	case i.spec.capacityType == spot:
		return wire.Errorf("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request. You can only stop Spot Instances associated with persistent Spot Instance requests.", i.ID)
	case i.state == stateStopping || i.state == stateStopped:
		return nil
	case i.state != stateRunning && i.state != statePending:
		return incorrectState(i, "stopped")
	}
	i.state, i.reason = stateStopping, a.userInitiated()
	i.due = a.now.Add(a.options.ShutdownDelay)
	a.remember(i)
	a.alarms = append(a.alarms, i.due)
	a.emit(Event{Stopping, i.view(a)})
	return nil
}

func (a *account) restart(i *instance) error {
	switch i.state {
	case statePending, stateRunning:
		return nil
	case stateStopped:
		i.state, i.reason = statePending, ""
		i.due = a.now.Add(a.options.LaunchDelay)
		a.remember(i)
		a.alarms = append(a.alarms, i.due)
		return nil
	}
	return incorrectState(i, "started")
}

func incorrectState(i *instance, verb string) error {
	return wire.Errorf("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s.", i.ID, verb)
}

func (a *account) stopInstances(_ *request, in *ec2.StopInstancesInput) (*ec2.StopInstancesOutput, error) {
	changes, err := a.changeStates(aws.StringValueSlice(in.InstanceIds), a.stop)
	return &ec2.StopInstancesOutput{StoppingInstances: changes}, err
}

func (a *account) startInstances(_ *request, in *ec2.StartInstancesInput) (*ec2.StartInstancesOutput, error) {
	changes, err := a.changeStates(aws.StringValueSlice(in.InstanceIds), a.restart)
	return &ec2.StartInstancesOutput{StartingInstances: changes}, err
}

func (a *account) changeStates(ids []string, change func(*instance) error) ([]*ec2.InstanceStateChange, error) {
	instances, err := a.findInstances(ids)
	if err != nil {
		return nil, err
	}
	changes := []*ec2.InstanceStateChange{}
	for _, i := range instances {
		before := instanceState(i.state)
		if err := change(i); err != nil {
			return nil, err
		}
		changes = append(changes, stateChange(i, before))
	}
	return changes, nil
}

func stateChange(i *instance, before *ec2.InstanceState) *ec2.InstanceStateChange {
	return &ec2.InstanceStateChange{InstanceId: aws.String(i.ID), PreviousState: before, CurrentState: instanceState(i.state)}
}

// modifyInstanceAttribute supports only termination protection.
func (a *account) modifyInstanceAttribute(_ *request, in *ec2.ModifyInstanceAttributeInput) (*ec2.ModifyInstanceAttributeOutput, error) {
	instances, err := a.findInstances([]string{aws.StringValue(in.InstanceId)})
	if err != nil {
		return nil, err
	}
	if in.DisableApiTermination == nil {
		return nil, wire.Errorf("InvalidParameterCombination", "the simulator changes the attribute disableApiTermination only")
	}
	if aws.BoolValue(in.DisableApiTermination.Value) && instances[0].spec.capacityType == spot {
		return nil, wire.Errorf("UnsupportedOperation", "You can't enable termination protection for the Spot Instance '%s'.", instances[0].ID)
	}
	instances[0].protected = aws.BoolValue(in.DisableApiTermination.Value)
	return &ec2.ModifyInstanceAttributeOutput{}, nil
}

func (a *account) describeInstanceAttribute(_ *request, in *ec2.DescribeInstanceAttributeInput) (*ec2.DescribeInstanceAttributeOutput, error) {
	instances, err := a.findInstances([]string{aws.StringValue(in.InstanceId)})
	if err != nil {
		return nil, err
	}
	switch name := aws.StringValue(in.Attribute); name {
	case ec2.InstanceAttributeNameUserData:
		if instances[0].state == stateTerminated {
			return nil, incorrectState(instances[0], "described")
		}
		return &ec2.DescribeInstanceAttributeOutput{
			InstanceId: in.InstanceId, UserData: &ec2.AttributeValue{Value: aws.String(instances[0].spec.userData)},
		}, nil
	case ec2.InstanceAttributeNameDisableApiTermination:
	default:
		return nil, wire.Errorf("InvalidParameterValue", "the simulator knows the attributes disableApiTermination and userData only, not %q", name)
	}
	return &ec2.DescribeInstanceAttributeOutput{
		InstanceId:            in.InstanceId,
		DisableApiTermination: &ec2.AttributeBooleanValue{Value: aws.Bool(instances[0].protected)},
	}, nil
}

// Stop stops an instance, as a user of the console would.
func (s *Simulator) Stop(instanceID string) error { return s.onInstance(instanceID, (*account).stop) }

// Start starts a stopped instance, as a user of the console would.
func (s *Simulator) Start(instanceID string) error {
	return s.onInstance(instanceID, (*account).restart)
}

// Protect enables or disables the termination protection of an instance.
func (s *Simulator) Protect(instanceID string, on bool) error {
	return s.onInstance(instanceID, func(_ *account, i *instance) error {
		i.protected = on
		return nil
	})
}

func (s *Simulator) onInstance(instanceID string, do func(*account, *instance) error) error {
	var err error
	s.locked(func(a *account) {
		i, ok := a.instances[instanceID]
		if !ok {
			err = fmt.Errorf("changing an instance by hand: %w", instanceNotFound(instanceID))
			return
		}
		err = do(a, i)
	})
	return err
}
