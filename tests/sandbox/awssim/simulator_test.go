package awssim_test

import (
	"encoding/base64"
	"errors"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/smithy-go"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

const (
	region      = "eu-west-1"
	clusterName = "prod"
)

// clock is a clock that a test advances.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// account is a simulator with one cluster in it, served on loopback.
type account struct {
	*awssim.Simulator
	clock *clock
	url   string
}

func newAccount(t *testing.T, options awssim.Options) *account {
	t.Helper()
	c := newClock()
	options.Region, options.Now = region, c.Now
	s := awssim.New(options)
	err := s.AddCluster(awssim.Cluster{
		Name: clusterName, Endpoint: "https://127.0.0.1:6443", CertificateAuthority: "Y2E=", Version: "1.36", ServiceIPv4CIDR: "10.100.0.0/16",
	})
	if err != nil {
		t.Fatal(err)
	}
	a := serve(t, s)
	a.clock = c
	return a
}

// serve serves s on loopback until the test ends.
func serve(t *testing.T, s *awssim.Simulator) *account {
	t.Helper()
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	return &account{Simulator: s, url: server.URL}
}

// config returns the configuration of a caller with that access key, without retries.
func (a *account) config(accessKey string) aws.Config {
	return aws.Config{
		Region:       region,
		BaseEndpoint: aws.String(a.url),
		Credentials:  credentials.NewStaticCredentialsProvider(accessKey, "secret", ""),
		Retryer:      func() aws.Retryer { return aws.NopRetryer{} },
	}
}

func (a *account) ec2() *ec2.Client { return ec2.NewFromConfig(a.config("tester")) }
func (a *account) iam() *iam.Client { return iam.NewFromConfig(a.config("tester")) }

// code returns the error code that the SDK has read from the response, or that the simulator's own methods return.
func code(err error) string {
	if own, ok := errors.AsType[*wire.Error](err); ok {
		return own.Code
	}
	var apiErr smithy.APIError
	if errors.As(err, &apiErr) {
		return apiErr.ErrorCode()
	}
	return ""
}

func wantCode(t *testing.T, err error, want string) {
	t.Helper()
	if got := code(err); got != want {
		t.Errorf("error code = %q, want %q (error: %v)", got, want, err)
	}
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	within(t, 10*time.Second, what, condition)
}

// within waits until a condition is true.
func within(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("%s did not come true within %s", what, limit)
		case <-tick.C:
		}
	}
}

// network returns the cluster's subnet in each zone and its security group.
func (a *account) network(t *testing.T) (subnets map[string]string, group string) {
	t.Helper()
	byDiscovery := []types.Filter{{Name: aws.String("tag:karpenter.sh/discovery"), Values: []string{clusterName}}}
	out, err := a.ec2().DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: byDiscovery})
	noError(t, err)
	subnets = map[string]string{}
	for _, s := range out.Subnets {
		subnets[*s.AvailabilityZone] = *s.SubnetId
	}
	groups, err := a.ec2().DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{Filters: byDiscovery})
	noError(t, err)
	if len(groups.SecurityGroups) != 1 {
		t.Fatalf("the cluster has %d security groups, want 1", len(groups.SecurityGroups))
	}
	return subnets, *groups.SecurityGroups[0].GroupId
}

// imageID returns the newest AL2023 image for an architecture.
func (a *account) imageID(t *testing.T, arch types.ArchitectureValues) string {
	t.Helper()
	out, err := a.ec2().DescribeImages(t.Context(), &ec2.DescribeImagesInput{
		Owners:  []string{"amazon"},
		Filters: []types.Filter{{Name: aws.String("name"), Values: []string{"amazon-eks-node-al2023-" + string(arch) + "-standard-1.36-v20251002"}}},
	})
	noError(t, err)
	if len(out.Images) != 1 {
		t.Fatalf("%d images for %s, want 1", len(out.Images), arch)
	}
	return *out.Images[0].ImageId
}

// clusterTags returns the tags that Karpenter sets on what it creates.
func clusterTags() []types.Tag {
	return []types.Tag{
		{Key: aws.String("kubernetes.io/cluster/" + clusterName), Value: aws.String("owned")},
		{Key: aws.String("eks:eks-cluster-name"), Value: aws.String(clusterName)},
		{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("default")},
	}
}

const userData = "#!/bin/bash\necho \"${X:-y}\"\n"

// template creates a launch template like Karpenter.
func (a *account) template(t *testing.T, name string, arch types.ArchitectureValues) string {
	t.Helper()
	_, group := a.network(t)
	out, err := a.ec2().CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String(name),
		LaunchTemplateData: &types.RequestLaunchTemplateData{
			ImageId:          aws.String(a.imageID(t, arch)),
			UserData:         aws.String(base64.StdEncoding.EncodeToString([]byte(userData))),
			SecurityGroupIds: []string{group},
			BlockDeviceMappings: []types.LaunchTemplateBlockDeviceMappingRequest{{
				DeviceName: aws.String("/dev/xvda"),
				Ebs:        &types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(30), VolumeType: types.VolumeTypeGp3},
			}},
			TagSpecifications: []types.LaunchTemplateTagSpecificationRequest{{ResourceType: types.ResourceTypeNetworkInterface, Tags: clusterTags()}},
		},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeLaunchTemplate, Tags: clusterTags()}},
	})
	noError(t, err)
	return *out.LaunchTemplate.LaunchTemplateId
}

// pool is one override of a fleet.
type pool struct{ instanceType, zone string }

// fleetInput requests n instances from pools with the named template.
func (a *account) fleetInput(t *testing.T, name string, n int32, capacity types.DefaultTargetCapacityType, pools ...pool) *ec2.CreateFleetInput {
	t.Helper()
	subnets, _ := a.network(t)
	var overrides []types.FleetLaunchTemplateOverridesRequest
	for _, p := range pools {
		overrides = append(overrides, types.FleetLaunchTemplateOverridesRequest{
			InstanceType: types.InstanceType(p.instanceType), SubnetId: aws.String(subnets[p.zone]), AvailabilityZone: aws.String(p.zone),
		})
	}
	return &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant,
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String(name), Version: aws.String("$Latest")},
			Overrides:                   overrides,
		}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(n), DefaultTargetCapacityType: capacity},
		TagSpecifications: []types.TagSpecification{
			{ResourceType: types.ResourceTypeInstance, Tags: clusterTags()},
			{ResourceType: types.ResourceTypeVolume, Tags: clusterTags()},
			{ResourceType: types.ResourceTypeFleet, Tags: clusterTags()},
		},
	}
}

// launch launches n m5.large on demand and returns their IDs.
func (a *account) launch(t *testing.T, n int32) []string {
	t.Helper()
	if len(a.Left(clusterName).LaunchTemplates) == 0 {
		a.template(t, "amd64", types.ArchitectureValuesX8664)
	}
	out, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "amd64", n, types.DefaultTargetCapacityTypeOnDemand, pool{"m5.large", region + "a"}))
	noError(t, err)
	if len(out.Errors) > 0 || len(out.Instances) != 1 || len(out.Instances[0].InstanceIds) != int(n) {
		t.Fatalf("fleet of %d: instances %v, errors %v", n, out.Instances, out.Errors)
	}
	return out.Instances[0].InstanceIds
}

// describe returns the one instance of that ID.
func (a *account) describe(t *testing.T, id string) types.Instance {
	t.Helper()
	out, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	noError(t, err)
	if len(out.Reservations) != 1 || len(out.Reservations[0].Instances) != 1 {
		t.Fatalf("describing %s: %d reservations", id, len(out.Reservations))
	}
	return out.Reservations[0].Instances[0]
}
