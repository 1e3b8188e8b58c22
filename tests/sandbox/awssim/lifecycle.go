package awssim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// start creates an instance from a checked spec, with its volumes and interfaces. hide is how long describing calls
// omit them.
func (a *account) start(spec launchSpec, hide time.Duration) *instance {
	sub := a.subnets[spec.subnetID]
	i := &instance{
		resource: a.newResource("i-", spec.instanceTags(), hide),
		spec:     spec,
		kind:     a.types[spec.instanceType],
		subnet:   sub,
		launched: a.now,
		state:    statePending,
		due:      a.now.Add(a.options.LaunchDelay),
	}
	i.reservationID = cmp.Or(spec.reservationID, a.newResource("r-", nil, 0).ID)
	if spec.capacityType == spot {
		i.spotRequestID = a.newResource("sir-", nil, 0).ID
	}
	for n := range max(1, spec.interfaces) {
		i.interfaces = append(i.interfaces, a.newInterface(i, n, hide))
	}
	i.ip = i.interfaces[0].ip
	i.dnsName = a.privateDNSName(i.ip)
	for _, d := range spec.devices {
		a.newRootVolume(i, d, hide)
	}
	a.instances[i.ID] = i
	a.launched = append(a.launched, i.ID)
	a.remember(i)
	a.alarms = append(a.alarms, i.due)
	a.emit(Event{Launched, i.view(a)})
	return i
}

// terminate starts i's termination; it does not affect one in progress.
func (a *account) terminate(i *instance, reason string) {
	if i.state == stateShuttingDown || i.state == stateTerminated {
		return
	}
	i.state, i.reason = stateShuttingDown, reason
	i.due = a.now.Add(a.options.ShutdownDelay)
	a.remember(i)
	a.alarms = append(a.alarms, i.due)
	a.emit(Event{ShuttingDown, i.view(a)})
}

// advance makes every change of state that is due at now, oldest first.
func (a *account) advance(now time.Time) {
	a.now = now
	var due []*instance
	for id, i := range a.instances {
		switch {
		case !i.due.IsZero() && !i.due.After(now):
			due = append(due, i)
		case i.state == stateTerminated && now.Sub(i.ended) >= a.options.TerminatedRetention:
			delete(a.instances, id)
		case i.state == stateTerminated && len(i.Tags) > 0 && now.Sub(i.ended) >= time.Duration(a.answers.TagsStay):
			i.Tags = map[string]string{}
			a.remember(i)
		}
	}
	slices.SortFunc(due, func(x, y *instance) int {
		return cmp.Or(x.due.Compare(y.due), cmp.Compare(x.ID, y.ID))
	})
	for _, i := range due {
		a.step(i)
	}
}

// step moves i to its next state.
func (a *account) step(i *instance) {
	was := i.due
	i.due = time.Time{}
	switch i.state {
	case statePending:
		if a.endSpoiled(i) {
			return
		}
		i.state = stateRunning
		i.remember(was)
		a.emit(Event{Running, i.view(a)})
	case stateRunning: // its warning is over
		a.terminate(i, "Server.SpotInstanceTermination: instance was interrupted")
	case stateStopping:
		i.state = stateStopped
		i.remember(was)
	case stateShuttingDown:
		i.state, i.ended = stateTerminated, was
		i.remember(was)
		if i.reason == spoiledReason {
			a.announceState(i)
		}
		a.release(i)
		a.emit(Event{Terminated, i.view(a)})
		a.replaced(i)
	}
}

// release releases what a terminated instance held: its interfaces are deleted, and so are the volumes created with it;
// those attached later are available again.
func (a *account) release(i *instance) {
	for _, n := range i.interfaces {
		a.deleteInterface(n)
	}
	i.interfaces = nil
	for id, v := range a.volumes {
		if v.attachment == nil || v.attachment.instanceID != i.ID {
			continue
		}
		if v.attachment.deleteOnTermination {
			delete(a.volumes, id)
		} else {
			v.attachment = nil
		}
	}
}

// takeAlarms returns when the account needs to be advanced, once.
func (a *account) takeAlarms() []time.Time {
	alarms := a.alarms
	a.alarms = nil
	return alarms
}

// Terminate terminates an instance, as a user of the console would.
func (s *Simulator) Terminate(instanceID string) error {
	var err error
	s.locked(func(a *account) {
		i, ok := a.instances[instanceID]
		if !ok {
			err = fmt.Errorf("terminating by hand: %w", instanceNotFound(instanceID))
			return
		}
		a.terminate(i, a.userInitiated())
		a.note("TerminateInstances", principal{ARN: a.iamARN("user/console"), UserAgent: "console"}, nil, []string{instanceID})
	})
	return err
}

// Instances returns all instances that EC2 still knows, terminated ones too,
// oldest first.
func (s *Simulator) Instances() []Instance {
	var views []Instance
	s.locked(func(a *account) { views = a.instanceViews() })
	return views
}

func (a *account) instanceViews() []Instance {
	views := make([]Instance, 0, len(a.instances))
	for _, i := range a.instances {
		views = append(views, i.view(a))
	}
	slices.SortFunc(views, func(x, y Instance) int {
		return cmp.Or(x.LaunchTime.Compare(y.LaunchTime), cmp.Compare(x.ID, y.ID))
	})
	return views
}

func instanceNotFound(ids ...string) error {
	if len(ids) == 1 {
		return wire.Errorf("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", ids[0])
	}
	return wire.Errorf("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", joinIDs(ids))
}
