package awssim

import (
	"cmp"
	"slices"
	"time"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// volume is an EBS volume; it is in use while it has an attachment.
type volume struct {
	resource
	zone       string
	sizeGiB    int64
	kind       string
	created    time.Time
	attachment *attachment
}

type attachment struct {
	instanceID, device  string
	attached            time.Time
	deleteOnTermination bool
}

func (v *volume) state() string {
	if v.attachment != nil {
		return "in-use"
	}
	return "available"
}

func (a *account) newVolume(zone string, sizeGiB int64, kind string, tags map[string]string, hide time.Duration) *volume {
	v := &volume{
		resource: a.newResource("vol-", tags, hide),
		zone:     zone, sizeGiB: sizeGiB, kind: cmp.Or(kind, "gp3"), created: a.now,
	}
	a.volumes[v.ID] = v
	return v
}

// newRootVolume creates a volume for i's launch.
func (a *account) newRootVolume(i *instance, d blockDevice, hide time.Duration) {
	v := a.newVolume(i.subnet.zone, cmp.Or(d.sizeGiB, 20), d.kind, i.spec.tags["volume"], hide)
	v.attachment = &attachment{instanceID: i.ID, device: d.name, attached: a.now, deleteOnTermination: !d.outlives}
}

// attach attaches v to an instance that is alive, in v's zone, and has the device name free.
func (a *account) attach(instanceID, volumeID, device string) (*volume, error) {
	v, ok := a.volumes[volumeID]
	if !ok {
		return nil, volumeNotFound(volumeID)
	}
	i, ok := a.instances[instanceID]
	if !ok {
		return nil, instanceNotFound(instanceID)
	}
	switch {
	case v.attachment != nil && v.attachment.instanceID == instanceID:
		return nil, wire.Errorf("VolumeInUse", "%s is already attached to the instance %s", volumeID, instanceID)
	case v.attachment != nil:
		return nil, wire.Errorf("VolumeInUse", "%s is already attached to an instance", volumeID)
	case i.state != stateRunning && i.state != statePending:
		return nil, wire.Errorf("IncorrectState", "Instance '%s' is not 'running'.", instanceID)
	case i.subnet.zone != v.zone:
		return nil, wire.Errorf("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as instance '%s'", volumeID, instanceID)
	case slices.ContainsFunc(a.attachedVolumes()[instanceID], func(o *volume) bool { return o.attachment.device == device }):
		return nil, wire.Errorf("InvalidParameterValue", "Invalid value '%s' for unixDevice. Attachment point %s is already in use", device, device)
	}
	v.attachment = &attachment{instanceID: instanceID, device: device, attached: a.now}
	return v, nil
}

// detach detaches v from its instance; instanceID may be empty.
func (a *account) detach(instanceID, volumeID string) (*volume, *attachment, error) {
	v, ok := a.volumes[volumeID]
	if !ok {
		return nil, nil, volumeNotFound(volumeID)
	}
	if v.attachment == nil {
		return nil, nil, wire.Errorf("IncorrectState", "Volume '%s' is in the 'available' state.", volumeID)
	}
	if instanceID != "" && v.attachment.instanceID != instanceID {
		return nil, nil, wire.Errorf("InvalidAttachment.NotFound", "Volume '%s' is not attached to instance '%s'", volumeID, instanceID)
	}
	was := v.attachment
	v.attachment = nil
	return v, was, nil
}

// attachedVolumes returns the volumes of every instance that has some, sorted by device name.
func (a *account) attachedVolumes() map[string][]*volume {
	attached := map[string][]*volume{}
	for _, v := range a.volumes {
		if t := v.attachment; t != nil {
			attached[t.instanceID] = append(attached[t.instanceID], v)
		}
	}
	for _, volumes := range attached {
		slices.SortFunc(volumes, func(x, y *volume) int { return cmp.Compare(x.attachment.device, y.attachment.device) })
	}
	return attached
}

// CreateVolume creates an EBS volume and returns its ID.
func (s *Simulator) CreateVolume(zone string, sizeGiB int, tags map[string]string) (id string) {
	s.locked(func(a *account) { id = a.newVolume(zone, int64(sizeGiB), "", tags, 0).ID })
	return id
}

// AttachVolume attaches a volume as the EBS CSI driver would. The errors are
// EC2's (wire.Error).
func (s *Simulator) AttachVolume(instanceID, volumeID, device string) error {
	var err error
	s.locked(func(a *account) { _, err = a.attach(instanceID, volumeID, device) })
	return err
}

// DetachVolume detaches a volume as the EBS CSI driver would. The errors are
// EC2's (wire.Error).
func (s *Simulator) DetachVolume(instanceID, volumeID string) error {
	var err error
	s.locked(func(a *account) { _, _, err = a.detach(instanceID, volumeID) })
	return err
}

// DeleteVolume deletes a volume that is not attached. The errors are EC2's
// (wire.Error).
func (s *Simulator) DeleteVolume(volumeID string) error {
	var err error
	s.locked(func(a *account) { err = a.deleteFreeVolume(volumeID) })
	return err
}

func (a *account) deleteFreeVolume(id string) error {
	v, ok := a.volumes[id]
	if !ok {
		return volumeNotFound(id)
	}
	if v.attachment != nil {
		return wire.Errorf("VolumeInUse", "Volume %s is currently attached to %s", id, v.attachment.instanceID)
	}
	delete(a.volumes, id)
	return nil
}

func volumeNotFound(id string) error {
	return wire.Errorf("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
}
