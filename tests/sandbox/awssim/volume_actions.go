package awssim

import (
	"slices"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

func (a *account) volumeActions() map[string]action {
	return map[string]action{
		"CreateVolume":    query(a, a.createVolume),
		"DeleteVolume":    query(a, a.deleteVolume),
		"DescribeVolumes": query(a, a.describeVolumes),
		"AttachVolume":    query(a, a.attachVolume),
		"DetachVolume":    query(a, a.detachVolume),
	}
}

func (a *account) createVolume(r *request, in *ec2.CreateVolumeInput) (*ec2.Volume, error) {
	zone := aws.StringValue(in.AvailabilityZone)
	if !slices.Contains(a.options.Zones, zone) {
		return nil, wire.Errorf("InvalidZone.NotFound", "The zone '%s' does not exist.", zone)
	}
	if aws.Int64Value(in.Size) < 1 {
		return nil, wire.Errorf("MissingParameter", "The request must contain the parameter size")
	}
	v := a.newVolume(zone, *in.Size, aws.StringValue(in.VolumeType), specTags(in.TagSpecifications, "volume"), r.hide())
	return v.describe(), nil
}

func (a *account) deleteVolume(_ *request, in *ec2.DeleteVolumeInput) (*ec2.DeleteVolumeOutput, error) {
	return &ec2.DeleteVolumeOutput{}, a.deleteFreeVolume(aws.StringValue(in.VolumeId))
}

func (a *account) describeVolumes(r *request, in *ec2.DescribeVolumesInput) (*ec2.DescribeVolumesOutput, error) {
	ofAttachment := func(f func(*attachment) string) func(*volume) []string {
		return func(v *volume) []string {
			if v.attachment == nil {
				return nil
			}
			return []string{f(v.attachment)}
		}
	}
	selected, next, err := selectResources(a, r, a.volumes, listing[*volume]{
		ids: in.VolumeIds, filters: in.Filters, limit: in.MaxResults, token: in.NextToken, missing: volumeNotFound,
		attributes: attributes[*volume]{
			"volume-id":              one(func(v *volume) string { return v.ID }),
			"volume-type":            one(func(v *volume) string { return v.kind }),
			"availability-zone":      one(func(v *volume) string { return v.zone }),
			"status":                 one(func(v *volume) string { return v.state() }),
			"attachment.instance-id": ofAttachment(func(t *attachment) string { return t.instanceID }),
			"attachment.device":      ofAttachment(func(t *attachment) string { return t.device }),
			"attachment.status":      ofAttachment(func(*attachment) string { return "attached" }),
		},
	})
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeVolumesOutput{NextToken: next, Volumes: []*ec2.Volume{}}
	for _, v := range selected {
		out.Volumes = append(out.Volumes, v.describe())
	}
	return out, nil
}

func (a *account) attachVolume(_ *request, in *ec2.AttachVolumeInput) (*ec2.VolumeAttachment, error) {
	v, err := a.attach(aws.StringValue(in.InstanceId), aws.StringValue(in.VolumeId), aws.StringValue(in.Device))
	if err != nil {
		return nil, err
	}
	return v.attachment.describe(v.ID, "attached"), nil
}

func (a *account) detachVolume(_ *request, in *ec2.DetachVolumeInput) (*ec2.VolumeAttachment, error) {
	v, was, err := a.detach(aws.StringValue(in.InstanceId), aws.StringValue(in.VolumeId))
	if err != nil {
		return nil, err
	}
	return was.describe(v.ID, "detached"), nil
}

func (v *volume) describe() *ec2.Volume {
	d := &ec2.Volume{
		VolumeId: aws.String(v.ID), AvailabilityZone: aws.String(v.zone), Size: aws.Int64(v.sizeGiB), VolumeType: aws.String(v.kind),
		State: aws.String(v.state()), CreateTime: aws.Time(v.created), Encrypted: aws.Bool(false), Tags: ec2Tags(v.Tags),
	}
	if v.attachment != nil {
		d.Attachments = []*ec2.VolumeAttachment{v.attachment.describe(v.ID, "attached")}
	}
	return d
}

func (t *attachment) describe(volumeID, state string) *ec2.VolumeAttachment {
	return &ec2.VolumeAttachment{
		VolumeId: aws.String(volumeID), InstanceId: aws.String(t.instanceID), Device: aws.String(t.device),
		State: aws.String(state), AttachTime: aws.Time(t.attached), DeleteOnTermination: aws.Bool(t.deleteOnTermination),
	}
}
