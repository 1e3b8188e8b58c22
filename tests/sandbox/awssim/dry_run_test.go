package awssim_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

func TestDryRunsChangeNothing(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	id := a.launch(t, 1)[0]
	dry := aws.Bool(true)
	calls := map[string]func() error{
		"DescribeInstanceTypes": func() error {
			_, err := a.ec2().DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{DryRun: dry})
			return err
		},
		"CreateFleet": func() error {
			in := a.fleetInput(t, "amd64", 1, purchaseOnDemand, pool{"m5.large", "eu-west-1a"})
			in.DryRun = dry
			_, err := a.ec2().CreateFleet(t.Context(), in)
			return err
		},
		"RunInstances": func() error {
			_, err := a.ec2().RunInstances(t.Context(), runInput(dry, "amd64"))
			return err
		},
		"TerminateInstances": func() error {
			_, err := a.ec2().TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{DryRun: dry, InstanceIds: []string{id}})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			err := call()
			wantCode(t, err, "DryRunOperation")
			var response *smithyhttp.ResponseError
			if !errors.As(err, &response) || response.HTTPStatusCode() != http.StatusPreconditionFailed {
				t.Errorf("error = %v, want status 412", err)
			}
		})
	}
	if instances := a.Instances(); len(instances) != 1 || instances[0].State != "running" {
		t.Errorf("instances = %v, want the one that was there, running", instances)
	}
}

func runInput(dry *bool, template string) *ec2.RunInstancesInput {
	return &ec2.RunInstancesInput{
		DryRun: dry, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: types.InstanceTypeM5Large,
		LaunchTemplate: &types.LaunchTemplateSpecification{LaunchTemplateName: aws.String(template), Version: aws.String("$Latest")},
	}
}

// TestDryRunIsDeniedLikeTheCall: Karpenter uses dry runs to find out its permissions.
func TestDryRunIsDeniedLikeTheCall(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	a.fault(t, awssim.Fault{Action: "RunInstances", Kind: awssim.Deny})
	_, err := a.ec2().RunInstances(t.Context(), runInput(aws.Bool(true), "amd64"))
	wantCode(t, err, "UnauthorizedOperation")
}

func TestDryRunOfRunInstancesMissesTheProfile(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	_, err := a.ec2().CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("with-profile"),
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId:            aws.String(a.imageID(t, types.ArchitectureValuesX8664)),
			IamInstanceProfile: &types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("node")},
		},
	})
	noError(t, err)
	_, err = a.ec2().RunInstances(t.Context(), runInput(aws.Bool(true), "with-profile"))
	wantCode(t, err, "InvalidParameterValue")
	_, err = a.iam().CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: aws.String("node")})
	noError(t, err)
	_, err = a.ec2().RunInstances(t.Context(), runInput(aws.Bool(true), "with-profile"))
	wantCode(t, err, "DryRunOperation")
}

func TestRunInstances(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	_, err := a.ec2().RunInstances(t.Context(), runInput(nil, "amd64"))
	wantCode(t, err, "VPCIdNotSpecified")
	subnets, _ := a.network(t)
	in := runInput(nil, "amd64")
	in.SubnetId = aws.String(subnets["eu-west-1b"])
	out, err := a.ec2().RunInstances(t.Context(), in)
	noError(t, err)
	if len(out.Instances) != 1 || *out.Instances[0].Placement.AvailabilityZone != "eu-west-1b" {
		t.Errorf("instances = %v, want one in eu-west-1b", out.Instances)
	}
}

// TestDryRunLooksAtNoOffering: only the launch reports that a type is unavailable in the subnet's zone.
func TestDryRunLooksAtNoOffering(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	subnets, _ := a.network(t)
	in := runInput(aws.Bool(true), "amd64")
	in.InstanceType, in.SubnetId = types.InstanceTypeM5Metal, aws.String(subnets["eu-west-1c"])
	_, err := a.ec2().RunInstances(t.Context(), in)
	wantCode(t, err, "DryRunOperation")
	in.DryRun = nil
	_, err = a.ec2().RunInstances(t.Context(), in)
	wantCode(t, err, "Unsupported")
}

// TestDryRunOfAFleetLooksAtNoTemplate: Karpenter 1.6 checks with a missing one whether it may create fleets
// (pkg/controllers/nodeclass/validation.go).
func TestDryRunOfAFleetLooksAtNoTemplate(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	in := &ec2.CreateFleetInput{
		DryRun: aws.Bool(true), Type: types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1)},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{
			LaunchTemplateId: aws.String("lt-1234567890abcdef0"), Version: aws.String("1"),
		}}},
	}
	_, err := a.ec2().CreateFleet(t.Context(), in)
	wantCode(t, err, "DryRunOperation")
	in.DryRun = nil
	_, err = a.ec2().CreateFleet(t.Context(), in)
	wantCode(t, err, "InvalidLaunchTemplateId.NotFound")
}
