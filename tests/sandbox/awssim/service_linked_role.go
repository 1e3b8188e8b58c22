package awssim

import (
	"strings"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/iam"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// spotRole is the role with which EC2 launches spot instances. An account has it once it was created:
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
const spotRole = "AWSServiceRoleForEC2Spot"

// serviceLinked are the names of the service-linked roles, by the service that assumes them.
var serviceLinked = map[string]string{"spot.amazonaws.com": spotRole}

func (a *account) createServiceLinkedRole(_ *request, in *iam.CreateServiceLinkedRoleInput) (*iam.CreateServiceLinkedRoleOutput, error) {
	service := aws.StringValue(in.AWSServiceName)
	name, ok := serviceLinked[service]
	if !ok {
		return nil, wire.Errorf("InvalidInput", "Service-linked roles are not supported for the service: %s (the simulator knows that of EC2 Spot)", service)
	}
	if _, ok := a.roles[name]; ok {
		return nil, wire.Errorf("InvalidInput", "Service role name %s has been taken in this account, please try a different suffix.", name)
	}
	r, err := a.addServiceLinkedRole(service)
	if err != nil {
		return nil, err
	}
	return &iam.CreateServiceLinkedRoleOutput{Role: r.describe()}, nil
}

func (a *account) addServiceLinkedRole(service string) (*role, error) {
	return a.newRole(serviceLinked[service], "/aws-service-role/"+service+"/", strings.Replace(Trusted(service), `,"sts:TagSession"`,
		"", 1), nil)
}

// spotAllowed returns EC2's error for a spot instance in an account without the role for them, unless there is one.
func (a *account) spotAllowed(spec launchSpec) error {
	if spec.capacityType != spot || a.roles[spotRole] != nil {
		return nil
	}
	return wire.Errorf("AuthFailure.ServiceLinkedRoleCreationNotPermitted",
		"The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.")
}
