package awssim

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// networkInterface is created and deleted with its instance; one without an instance is available, as the VPC CNI
// plugin leaves it if a node is terminated too early.
type networkInterface struct {
	resource
	ip, attachmentID string
	subnet           *subnet
	groups           []string
	instanceID       string
	index            int
	attached         time.Time
}

func (a *account) interfaceActions() map[string]action {
	return map[string]action{
		"DescribeNetworkInterfaces": query(a, a.describeNetworkInterfaces),
		"DeleteNetworkInterface":    query(a, a.deleteNetworkInterface),
	}
}

// newInterface creates the instance's interface with that index.
func (a *account) newInterface(i *instance, index int, hide time.Duration) *networkInterface {
	n := &networkInterface{
		resource:     a.newResource("eni-", i.spec.tags["network-interface"], hide),
		attachmentID: a.newResource("eni-attach-", nil, 0).ID,
		ip:           i.subnet.take(),
		subnet:       i.subnet,
		groups:       i.spec.groups,
		instanceID:   i.ID,
		index:        index,
		attached:     a.now,
	}
	a.interfaces[n.ID] = n
	return n
}

// AddInterface creates an unattached interface in a subnet of a cluster.
func (s *Simulator) AddInterface(clusterName string, tags map[string]string) (id string, err error) {
	s.locked(func(a *account) {
		var c *cluster
		if c, err = a.findCluster(clusterName); err != nil {
			return
		}
		in := a.subnets[c.subnets[0]]
		n := &networkInterface{resource: a.newResource("eni-", tags, 0), ip: in.take(), subnet: in}
		a.interfaces[n.ID], id = n, n.ID
	})
	return id, err
}

// isAttached reports whether it has an instance.
func (n *networkInterface) isAttached() bool { return n.instanceID != "" }

// status returns EC2's status.
func (n *networkInterface) status() string {
	if n.isAttached() {
		return "in-use"
	}
	return "available"
}

// ofAttachment returns an attribute that only an attached interface has.
func ofAttachment(f func(*networkInterface) string) func(*networkInterface) []string {
	return func(n *networkInterface) []string {
		if !n.isAttached() {
			return nil
		}
		return []string{f(n)}
	}
}

func (a *account) deleteInterface(n *networkInterface) {
	n.subnet.giveBack(n.ip)
	delete(a.interfaces, n.ID)
}

func (a *account) describeNetworkInterfaces(r *request, in *ec2.DescribeNetworkInterfacesInput) (*ec2.DescribeNetworkInterfacesOutput, error) {
	selected, next, err := selectResources(a, r, a.interfaces, listing[*networkInterface]{
		ids: in.NetworkInterfaceIds, filters: in.Filters, limit: in.MaxResults, token: in.NextToken, missing: interfaceNotFound,
		attributes: attributes[*networkInterface]{
			"network-interface-id":   one(func(n *networkInterface) string { return n.ID }),
			"attachment.instance-id": ofAttachment(func(n *networkInterface) string { return n.instanceID }),
			"attachment.status":      ofAttachment(func(*networkInterface) string { return "attached" }),
			"availability-zone":      one(func(n *networkInterface) string { return n.subnet.zone }),
			"group-id":               func(n *networkInterface) []string { return n.groups },
			"private-ip-address":     one(func(n *networkInterface) string { return n.ip }),
			"requester-managed":      one(func(*networkInterface) string { return "false" }),
			"status":                 one((*networkInterface).status),
			"subnet-id":              one(func(n *networkInterface) string { return n.subnet.ID }),
			"vpc-id":                 one(func(n *networkInterface) string { return n.subnet.vpcID }),
		},
	})
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeNetworkInterfacesOutput{NextToken: next, NetworkInterfaces: []*ec2.NetworkInterface{}}
	for _, n := range selected {
		out.NetworkInterfaces = append(out.NetworkInterfaces, a.describeInterface(n))
	}
	return out, nil
}

func (a *account) describeInterface(n *networkInterface) *ec2.NetworkInterface {
	d := &ec2.NetworkInterface{
		NetworkInterfaceId: aws.String(n.ID), PrivateIpAddress: aws.String(n.ip), PrivateDnsName: aws.String(a.privateDNSName(n.ip)),
		SubnetId: aws.String(n.subnet.ID), VpcId: aws.String(n.subnet.vpcID), AvailabilityZone: aws.String(n.subnet.zone),
		Groups: a.groupIdentifiers(n.groups), Status: aws.String(n.status()), OwnerId: aws.String(a.options.Account),
		InterfaceType: aws.String("interface"), RequesterManaged: aws.Bool(false), TagSet: ec2Tags(n.Tags),
	}
	if n.isAttached() {
		d.Attachment = &ec2.NetworkInterfaceAttachment{
			AttachmentId: aws.String(n.attachmentID), AttachTime: aws.Time(n.attached), DeleteOnTermination: aws.Bool(true),
			DeviceIndex: aws.Int64(int64(n.index)), InstanceId: aws.String(n.instanceID), Status: aws.String("attached"),
		}
	}
	return d
}

func (a *account) deleteNetworkInterface(_ *request, in *ec2.DeleteNetworkInterfaceInput) (*ec2.DeleteNetworkInterfaceOutput, error) {
	id := aws.StringValue(in.NetworkInterfaceId)
	n, ok := a.interfaces[id]
	if !ok {
		return nil, interfaceNotFound(id)
	}
	if !n.isAttached() {
		a.deleteInterface(n)
		return &ec2.DeleteNetworkInterfaceOutput{}, nil
	}
	return nil, wire.Errorf("InvalidNetworkInterface.InUse", "The network interface '%s' is currently in use by '%s'", id, n.instanceID)
}

// instanceInterface describes n as a part of its instance.
func (a *account) instanceInterface(n *networkInterface) *ec2.InstanceNetworkInterface {
	return &ec2.InstanceNetworkInterface{
		NetworkInterfaceId: aws.String(n.ID), PrivateIpAddress: aws.String(n.ip), PrivateDnsName: aws.String(a.privateDNSName(n.ip)),
		SubnetId: aws.String(n.subnet.ID), VpcId: aws.String(n.subnet.vpcID), Status: aws.String("in-use"),
		InterfaceType: aws.String("interface"), Groups: a.groupIdentifiers(n.groups), OwnerId: aws.String(a.options.Account),
		Description: aws.String(fmt.Sprintf("interface %d of %s", n.index, n.instanceID)),
		Attachment: &ec2.InstanceNetworkInterfaceAttachment{
			AttachmentId: aws.String(n.attachmentID), AttachTime: aws.Time(n.attached), DeleteOnTermination: aws.Bool(true),
			DeviceIndex: aws.Int64(int64(n.index)), NetworkCardIndex: aws.Int64(0), Status: aws.String("attached"),
		},
	}
}

func interfaceNotFound(id string) error {
	return wire.Errorf("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", id)
}
