package awssim_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// groupOf returns the only Auto Scaling group with a tag.
func (a *account) groupOf(t *testing.T, key string) astypes.AutoScalingGroup {
	t.Helper()
	out, err := autoscaling.NewFromConfig(a.config("tester")).DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{
		Filters: []astypes.Filter{{Name: aws.String("tag-key"), Values: []string{key}}},
	})
	noError(t, err)
	if len(out.AutoScalingGroups) != 1 {
		t.Fatalf("%d groups have the tag %s", len(out.AutoScalingGroups), key)
	}
	return out.AutoScalingGroups[0]
}

// TestNodeGroupsScale checks what `plumbline migrate` does with a managed node group: its Auto Scaling group launches the
// instances that it wants, and replaces one that goes away, unless it was terminated together with the desired size.
func TestNodeGroupsScale(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	noError(t, a.AddNodeGroup(clusterName, awssim.NodeGroup{
		Name: "web", AMIType: "BOTTLEROCKET_x86_64", CapacityType: "ON_DEMAND", InstanceTypes: []string{"m5.large"}, Min: 1, Max: 4, Desired: 3,
		Launches: true, Autoscaled: true, Labels: map[string]string{"team": "shop"}, Taints: []awssim.NodeGroupTaint{{Key: "web", Value: "yes", Effect: "NO_SCHEDULE"}},
	}))
	g := a.groupOf(t, "k8s.io/cluster-autoscaler/"+clusterName)
	zones := map[string]int{}
	for _, i := range g.Instances {
		zones[aws.ToString(i.AvailabilityZone)]++
	}
	if len(g.Instances) != 3 || len(zones) < 2 || aws.ToInt32(g.DesiredCapacity) != 3 {
		t.Fatalf("the group has %+v", g)
	}
	for _, i := range a.Instances() {
		if !strings.Contains(i.UserData, `"eks.amazonaws.com/nodegroup" = "web"`) || !strings.Contains(i.UserData, `"web" = ["yes:NoSchedule"]`) ||
			i.Tags["eks:nodegroup-name"] != "web" {
			t.Errorf("an instance is %+v", i)
		}
	}
	if left := a.Left(clusterName); !left.Empty() {
		t.Errorf("a node group counts as left: %s", left)
	}
	scaling, clusters := autoscaling.NewFromConfig(a.config("tester")), eks.NewFromConfig(a.config("tester"))
	terminate := func() error {
		_, err := scaling.TerminateInstanceInAutoScalingGroup(t.Context(), &autoscaling.TerminateInstanceInAutoScalingGroupInput{
			InstanceId: a.groupOf(t, "eks:nodegroup-name").Instances[0].InstanceId, ShouldDecrementDesiredCapacity: aws.Bool(true),
		})
		return err
	}
	running := func() int {
		a.clock.advance(time.Hour)
		n := 0
		for _, i := range a.groupOf(t, "eks:nodegroup-name").Instances {
			if i.LifecycleState == astypes.LifecycleStateInService {
				n++
			}
		}
		return n
	}
	running()
	noError(t, terminate())
	if n := running(); n != 2 {
		t.Errorf("%d instances run", n)
	}
	noError(t, terminate())
	running()
	if err := terminate(); code(err) != "ValidationError" || !strings.Contains(err.Error(), "desiredSize equals minSize (1)") {
		t.Errorf("below the minimum: %v", err)
	}
	// One that is terminated in EC2 is replaced.
	noError(t, a.Terminate(aws.ToString(a.groupOf(t, "eks:nodegroup-name").Instances[0].InstanceId)))
	a.clock.advance(time.Hour)
	if n := running(); n != 1 {
		t.Errorf("%d instances run", n)
	}
	resize := func(least, most, desired int32) (*eks.UpdateNodegroupConfigOutput, error) {
		return clusters.UpdateNodegroupConfig(t.Context(), &eks.UpdateNodegroupConfigInput{
			ClusterName: aws.String(clusterName), NodegroupName: aws.String("web"),
			ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(least), MaxSize: aws.Int32(most), DesiredSize: aws.Int32(desired)},
		})
	}
	if _, err := resize(2, 4, 1); code(err) != "InvalidParameterException" {
		t.Errorf("a minimum above the desired size: %v", err)
	}
	update, err := resize(0, 4, 2)
	noError(t, err)
	if _, err := resize(0, 4, 1); code(err) != "ResourceInUseException" {
		t.Errorf("during an update: %v", err)
	}
	if n := running(); n != 2 {
		t.Errorf("%d instances run", n)
	}
	described, err := clusters.DescribeUpdate(t.Context(), &eks.DescribeUpdateInput{
		Name: aws.String(clusterName), NodegroupName: aws.String("web"), UpdateId: update.Update.Id,
	})
	noError(t, err)
	if described.Update.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("the update is %s", described.Update.Status)
	}
	a.RemoveNodeGroup(clusterName, "web")
	a.clock.advance(time.Hour)
	for _, i := range a.Instances() {
		if i.State != "terminated" {
			t.Errorf("%s is %s", i.ID, i.State)
		}
	}
}

// TestScalingIsAuthorized: a user with conditions on the tag of a cluster changes the groups of that cluster only.
func TestScalingIsAuthorized(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	noError(t, a.AddScalingGroup(clusterName, awssim.ScalingGroup{Name: "own", InstanceType: "m5.large", Min: 0, Max: 2, Desired: 1}))
	allow := `{"Effect":"Allow","Action":["autoscaling:UpdateAutoScalingGroup","autoscaling:CreateOrUpdateTags","autoscaling:DeleteTags"],"Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/kubernetes.io/cluster/%s":"owned"}}}`
	a.as(t, "owner", `{"Version":"2012-10-17","Statement":[`+fmt.Sprintf(allow, clusterName)+`]}`)
	a.as(t, "stranger", `{"Version":"2012-10-17","Statement":[`+fmt.Sprintf(allow, "another")+`]}`)
	in := &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: aws.String("own"), DesiredCapacity: aws.Int32(2)}
	_, err := autoscaling.NewFromConfig(a.config("stranger")).UpdateAutoScalingGroup(t.Context(), in)
	denial(t, err, "AccessDenied", "autoscaling:UpdateAutoScalingGroup on resource: arn:aws:autoscaling:eu-west-1:000000000000:autoScalingGroup:")
	owner := autoscaling.NewFromConfig(a.config("owner"))
	_, err = owner.UpdateAutoScalingGroup(t.Context(), in)
	noError(t, err)
	_, err = owner.DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
	denial(t, err, "AccessDenied", "autoscaling:DescribeAutoScalingGroups")
	tag := astypes.Tag{ResourceId: aws.String("own"), ResourceType: aws.String("auto-scaling-group"), Key: aws.String("a"), Value: aws.String("b"), PropagateAtLaunch: aws.Bool(false)}
	_, err = owner.CreateOrUpdateTags(t.Context(), &autoscaling.CreateOrUpdateTagsInput{Tags: []astypes.Tag{tag}})
	noError(t, err)
	if g := a.groupOf(t, "a"); len(g.Instances) != 2 {
		t.Errorf("the group has %d instances", len(g.Instances))
	}
	_, err = owner.DeleteTags(t.Context(), &autoscaling.DeleteTagsInput{Tags: []astypes.Tag{tag}})
	noError(t, err)
	in.DesiredCapacity = aws.Int32(3)
	if _, err = owner.UpdateAutoScalingGroup(t.Context(), in); code(err) != "ValidationError" {
		t.Errorf("above the maximum: %v", err)
	}
	a.RemoveScalingGroup("own")
}

// TestAddonValues: an update of an add-on replaces its configuration values, tells its subscriber, and its schema says where
// the affinity is. Tags of add-ons and node groups are those of their ARN.
func TestAddonValues(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	told := make(chan awssim.AddonValues, 1)
	a.SubscribeAddons(func(v awssim.AddonValues) { told <- v })
	clusters := eks.NewFromConfig(a.config("tester"))
	name := aws.String(clusterName)
	schema, err := clusters.DescribeAddonConfiguration(t.Context(), &eks.DescribeAddonConfigurationInput{AddonName: aws.String("coredns"), AddonVersion: aws.String("v1")})
	noError(t, err)
	if !strings.Contains(aws.ToString(schema.ConfigurationSchema), `"affinity"`) {
		t.Errorf("the schema is %s", aws.ToString(schema.ConfigurationSchema))
	}
	in := &eks.UpdateAddonInput{ClusterName: name, AddonName: aws.String("coredns"), ConfigurationValues: aws.String(`{"replicaCount":3}`)}
	_, err = clusters.UpdateAddon(t.Context(), in)
	noError(t, err)
	if v := <-told; v.Addon != "coredns" || v.Values != `{"replicaCount":3}` {
		t.Errorf("the subscriber got %+v", v)
	}
	if _, err := clusters.UpdateAddon(t.Context(), in); code(err) != "ResourceInUseException" {
		t.Errorf("during an update: %v", err)
	}
	out, err := clusters.DescribeAddon(t.Context(), &eks.DescribeAddonInput{ClusterName: name, AddonName: aws.String("coredns")})
	noError(t, err)
	if aws.ToString(out.Addon.ConfigurationValues) != `{"replicaCount":3}` || out.Addon.Status != "UPDATING" {
		t.Errorf("the add-on is %+v", out.Addon)
	}
	_, err = clusters.TagResource(t.Context(), &eks.TagResourceInput{ResourceArn: out.Addon.AddonArn, Tags: map[string]string{"a": "b"}})
	noError(t, err)
	out, err = clusters.DescribeAddon(t.Context(), &eks.DescribeAddonInput{ClusterName: name, AddonName: aws.String("coredns")})
	noError(t, err)
	if !slices.Equal(slices.Collect(maps.Keys(out.Addon.Tags)), []string{"a"}) {
		t.Errorf("its tags are %v", out.Addon.Tags)
	}
	noError(t, a.SetFargateProfile(clusterName, awssim.FargateProfile{Name: "jobs", Selectors: []awssim.FargateSelector{{Namespace: "jobs"}}}, true))
	profiles, err := clusters.ListFargateProfiles(t.Context(), &eks.ListFargateProfilesInput{ClusterName: name})
	noError(t, err)
	profile, err := clusters.DescribeFargateProfile(t.Context(), &eks.DescribeFargateProfileInput{ClusterName: name, FargateProfileName: aws.String(profiles.FargateProfileNames[0])})
	noError(t, err)
	if aws.ToString(profile.FargateProfile.Selectors[0].Namespace) != "jobs" {
		t.Errorf("the profile is %+v", profile.FargateProfile)
	}
}
