package awssim

import (
	"encoding/base64"
	"maps"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// launchSpec is everything that determines an instance, from whichever call and launch template.
type launchSpec struct {
	imageID      string
	instanceType string
	subnetID     string
	capacityType string // on-demand or spot
	userData     string // base64
	profile      string // the instance profile's name
	groups       []string
	interfaces   int
	devices      []blockDevice
	tags         map[string]map[string]string // by resource type: instance, volume, network-interface
	template     *launchTemplate
	fleetID      string
	// reservationID is that of instances that are launched together; if empty, the instance gets its own.
	reservationID string
}

// blockDevice is a volume that is created with an instance.
type blockDevice struct {
	name     string
	sizeGiB  int64
	kind     string
	outlives bool // kept when the instance is terminated
}

// userDataLimit is EC2's, for the decoded text.
const userDataLimit = 16384

// apply overlays a launch template.
func (s *launchSpec) apply(t *launchTemplate) {
	d := t.data
	s.template = t
	s.imageID = aws.StringValue(d.ImageId)
	s.instanceType = aws.StringValue(d.InstanceType)
	s.userData = aws.StringValue(d.UserData)
	s.groups = aws.StringValueSlice(d.SecurityGroupIds)
	if p := d.IamInstanceProfile; p != nil {
		s.profile = profileName(p.Name, p.Arn)
	}
	if m := d.InstanceMarketOptions; m != nil && aws.StringValue(m.MarketType) == spot {
		s.capacityType = spot
	}
	for _, n := range d.NetworkInterfaces {
		s.interfaces++
		s.groups = append(s.groups, aws.StringValueSlice(n.Groups)...)
		if n.SubnetId != nil {
			s.subnetID = *n.SubnetId
		}
	}
	for _, b := range d.BlockDeviceMappings {
		if e := b.Ebs; e != nil {
			s.devices = append(s.devices, blockDevice{
				name: aws.StringValue(b.DeviceName), sizeGiB: aws.Int64Value(e.VolumeSize),
				kind: aws.StringValue(e.VolumeType), outlives: e.DeleteOnTermination != nil && !*e.DeleteOnTermination,
			})
		}
	}
	for _, ts := range d.TagSpecifications {
		s.tag(aws.StringValue(ts.ResourceType), ts.Tags)
	}
}

func (s *launchSpec) tag(resourceType string, tags []*ec2.Tag) {
	if s.tags == nil {
		s.tags = map[string]map[string]string{}
	}
	merged := maps.Clone(s.tags[resourceType])
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, tagMap(tags))
	s.tags[resourceType] = merged
}

// instanceTags returns the requested tags, and those that EC2 adds itself.
func (s *launchSpec) instanceTags() map[string]string {
	tags := map[string]string{}
	maps.Copy(tags, s.tags["instance"])
	if s.template != nil {
		tags["aws:ec2launchtemplate:id"] = s.template.ID
		tags["aws:ec2launchtemplate:version"] = "1"
	}
	if s.fleetID != "" {
		tags["aws:ec2:fleet-id"] = s.fleetID
	}
	return tags
}

// check returns why an instance cannot be launched from s, with EC2's message. Without a subnet, it checks the rest.
func (a *account) check(s launchSpec) error {
	kind, ok := a.types[s.instanceType]
	if !ok {
		return wire.Errorf("InvalidParameterValue", "Invalid value '%s' for InstanceType.", s.instanceType)
	}
	img, ok := a.images[s.imageID]
	if !ok {
		return wire.Errorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", s.imageID)
	}
	if img.arch != kind.Arch {
		return wire.Errorf("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.", kind.Arch, img.arch)
	}
	if p, ok := a.profiles[s.profile]; s.profile != "" && (!ok || !p.visible(a.now)) {
		return wire.Errorf("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", s.profile)
	}
	if err := checkUserData(s.userData); err != nil {
		return err
	}
	return a.checkPlace(s)
}

// checkPlace checks the subnet and the groups.
func (a *account) checkPlace(s launchSpec) error {
	for _, id := range s.groups {
		if _, ok := a.groups[id]; !ok {
			return wire.Errorf("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
		}
	}
	if s.subnetID == "" {
		return nil
	}
	sub, ok := a.subnets[s.subnetID]
	if !ok {
		return subnetNotFound(s.subnetID)
	}
	for _, id := range s.groups {
		if a.groups[id].vpcID != sub.vpcID {
			return wire.Errorf("InvalidParameter", "Security group %s and subnet %s belong to different networks.", id, sub.ID)
		}
	}
	return nil
}

func checkUserData(encoded string) error {
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return wire.Errorf("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	}
	if len(decoded) > userDataLimit {
		return wire.Errorf("InvalidUserData.Malformed", "User data is limited to %d bytes", userDataLimit)
	}
	return nil
}
