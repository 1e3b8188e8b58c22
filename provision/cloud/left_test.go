package cloud

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestInterfacesOfServices: the control plane's interfaces have the cluster's tag, and are attached to instances
// of EKS' own account, which nobody else can list.
func TestInterfacesOfServices(t *testing.T) {
	const account = "111122223333"
	to := func(owner string) *ec2types.NetworkInterfaceAttachment {
		return &ec2types.NetworkInterfaceAttachment{InstanceId: aws.String("i-1"), InstanceOwnerId: aws.String(owner)}
	}
	cases := map[string]struct {
		found ec2types.NetworkInterface
		want  bool
	}{
		"of nothing":               {ec2types.NetworkInterface{}, false},
		"of an instance":           {ec2types.NetworkInterface{Attachment: to(account)}, false},
		"of the control plane":     {ec2types.NetworkInterface{Attachment: to("210987654321")}, true},
		"of a load balancer":       {ec2types.NetworkInterface{RequesterManaged: aws.Bool(true)}, true},
		"whose owner is not named": {ec2types.NetworkInterface{Attachment: &ec2types.NetworkInterfaceAttachment{InstanceId: aws.String("i-1")}}, false},
	}
	for name, c := range cases {
		c.found.OwnerId = aws.String(account)
		if got := interfaceOf(&c.found).OfService; got != c.want {
			t.Errorf("%s: OfService = %t, want %t", name, got, c.want)
		}
	}
}
