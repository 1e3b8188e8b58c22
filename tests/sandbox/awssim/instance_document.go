package awssim

import (
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"
)

// These documents are written by hand because aws-sdk-go's Placement lacks AvailabilityZoneId, which Karpenter reads.
// The rest follows its Instance.

type describeInstancesOutput struct {
	_            struct{}       `type:"structure"`
	NextToken    *string        `locationName:"nextToken"`
	Reservations []*reservation `locationName:"reservationSet" locationNameList:"item"`
}

type reservation struct {
	_             struct{}               `type:"structure"`
	ReservationID *string                `locationName:"reservationId"`
	OwnerID       *string                `locationName:"ownerId"`
	Groups        []*ec2.GroupIdentifier `locationName:"groupSet" locationNameList:"item"`
	Instances     []*instanceDocument    `locationName:"instancesSet" locationNameList:"item"`
}

type placement struct {
	_                  struct{} `type:"structure"`
	AvailabilityZone   *string  `locationName:"availabilityZone"`
	AvailabilityZoneID *string  `locationName:"availabilityZoneId"`
	Tenancy            *string  `locationName:"tenancy"`
}

type instanceDocument struct {
	_                     struct{}                          `type:"structure"`
	InstanceID            *string                           `locationName:"instanceId"`
	ImageID               *string                           `locationName:"imageId"`
	InstanceType          *string                           `locationName:"instanceType"`
	State                 *ec2.InstanceState                `locationName:"instanceState"`
	StateReason           *ec2.StateReason                  `locationName:"stateReason"`
	StateTransitionReason *string                           `locationName:"reason"`
	LaunchTime            *time.Time                        `locationName:"launchTime" type:"timestamp"`
	Placement             *placement                        `locationName:"placement"`
	Architecture          *string                           `locationName:"architecture"`
	PrivateDNSName        *string                           `locationName:"privateDnsName"`
	PrivateIPAddress      *string                           `locationName:"privateIpAddress"`
	SubnetID              *string                           `locationName:"subnetId"`
	VpcID                 *string                           `locationName:"vpcId"`
	SecurityGroups        []*ec2.GroupIdentifier            `locationName:"groupSet" locationNameList:"item"`
	NetworkInterfaces     []*ec2.InstanceNetworkInterface   `locationName:"networkInterfaceSet" locationNameList:"item"`
	BlockDeviceMappings   []*ec2.InstanceBlockDeviceMapping `locationName:"blockDeviceMapping" locationNameList:"item"`
	IamInstanceProfile    *ec2.IamInstanceProfile           `locationName:"iamInstanceProfile"`
	InstanceLifecycle     *string                           `locationName:"instanceLifecycle"`
	SpotInstanceRequestID *string                           `locationName:"spotInstanceRequestId"`
	Tags                  []*ec2.Tag                        `locationName:"tagSet" locationNameList:"item"`
	VirtualizationType    *string                           `locationName:"virtualizationType"`
	RootDeviceName        *string                           `locationName:"rootDeviceName"`
	RootDeviceType        *string                           `locationName:"rootDeviceType"`
}

func instanceState(name string) *ec2.InstanceState {
	return &ec2.InstanceState{Name: aws.String(name), Code: aws.Int64(stateCode(name))}
}

// reservation describes instances that were launched by one call, with their volumes in attached.
func (a *account) reservation(instances []*instance, attached map[string][]*volume) *reservation {
	r := &reservation{OwnerID: aws.String(a.options.Account)}
	for _, i := range instances {
		r.ReservationID = aws.String(i.reservationID)
		r.Instances = append(r.Instances, a.document(i, attached[i.ID]))
	}
	return r
}

func (a *account) document(i *instance, volumes []*volume) *instanceDocument {
	d := &instanceDocument{
		InstanceID:         aws.String(i.ID),
		ImageID:            aws.String(i.spec.imageID),
		InstanceType:       aws.String(i.kind.Name),
		State:              instanceState(i.state),
		LaunchTime:         aws.Time(i.launched),
		Architecture:       aws.String(i.kind.Arch),
		Tags:               ec2Tags(i.Tags),
		VirtualizationType: aws.String("hvm"),
		RootDeviceType:     aws.String("ebs"),
		Placement: &placement{
			AvailabilityZone:   aws.String(i.subnet.zone),
			AvailabilityZoneID: aws.String(a.zoneID(i.subnet.zone)),
			Tenancy:            aws.String("default"),
		},
	}
	if i.spec.capacityType == spot {
		d.InstanceLifecycle, d.SpotInstanceRequestID = aws.String(spot), aws.String(i.spotRequestID)
	}
	if i.reason != "" {
		d.StateTransitionReason = aws.String(i.reason)
		code, message := reasonCode(i.reason)
		d.StateReason = &ec2.StateReason{Code: aws.String(code), Message: aws.String(message)}
	}
	// A terminated instance has released its network and its disks.
	if i.state != stateTerminated {
		a.documentHoldings(i, volumes, d)
	}
	return d
}

// documentHoldings describes what i holds while it is alive.
func (a *account) documentHoldings(i *instance, volumes []*volume, d *instanceDocument) {
	d.PrivateDNSName, d.PrivateIPAddress = aws.String(i.dnsName), aws.String(i.ip)
	d.SubnetID, d.VpcID = aws.String(i.subnet.ID), aws.String(i.subnet.vpcID)
	d.SecurityGroups = a.groupIdentifiers(i.spec.groups)
	if p, ok := a.profiles[i.spec.profile]; ok {
		d.IamInstanceProfile = &ec2.IamInstanceProfile{Arn: aws.String(p.arn), Id: aws.String(p.ID)}
	}
	if img, ok := a.images[i.spec.imageID]; ok {
		d.RootDeviceName = aws.String(img.rootDevice)
	}
	for _, n := range i.interfaces {
		d.NetworkInterfaces = append(d.NetworkInterfaces, a.instanceInterface(n))
	}
	for _, v := range volumes {
		d.BlockDeviceMappings = append(d.BlockDeviceMappings, &ec2.InstanceBlockDeviceMapping{
			DeviceName: aws.String(v.attachment.device),
			Ebs: &ec2.EbsInstanceBlockDevice{
				VolumeId: aws.String(v.ID), Status: aws.String("attached"), AttachTime: aws.Time(v.attachment.attached),
				DeleteOnTermination: aws.Bool(v.attachment.deleteOnTermination),
			},
		})
	}
}
