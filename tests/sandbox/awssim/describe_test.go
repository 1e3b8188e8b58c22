package awssim_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

func TestFilters(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	ids := a.launch(t, 2)
	a.tag(t, ids[0], "Name", "first")
	a.tag(t, ids[0], "karpenter.sh/nodeclaim", "default-abc")
	subnets, _ := a.network(t)
	tests := map[string]struct {
		name   string
		values []string
		want   int
	}{
		"tag and value":            {"tag:Name", []string{"first"}, 1},
		"tag and other value":      {"tag:Name", []string{"second"}, 0},
		"one of several values":    {"tag:Name", []string{"second", "first"}, 1},
		"wildcard":                 {"tag:karpenter.sh/nodeclaim", []string{"default-*"}, 1},
		"wildcard, one character":  {"tag:Name", []string{"f?rst"}, 1},
		"escaped wildcard":         {"tag:Name", []string{`fir\*`}, 0},
		"tag key":                  {"tag-key", []string{"karpenter.sh/nodepool"}, 2},
		"absent tag key":           {"tag-key", []string{"team"}, 0},
		"state":                    {"instance-state-name", []string{"running"}, 2},
		"ID":                       {"instance-id", []string{ids[1]}, 1},
		"subnet":                   {"subnet-id", []string{subnets["eu-west-1a"]}, 2},
		"another subnet":           {"subnet-id", []string{subnets["eu-west-1b"]}, 0},
		"zone":                     {"availability-zone", []string{"eu-west-1?"}, 2},
		"type":                     {"instance-type", []string{"m5.*"}, 2},
		"address":                  {"private-ip-address", []string{"10.0.0.5"}, 1},
		"no wildcard in the value": {"tag:Name", []string{"fir"}, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{
				Filters: []types.Filter{{Name: aws.String(tc.name), Values: tc.values}},
			})
			noError(t, err)
			if got := len(idsOf(out.Reservations)); got != tc.want {
				t.Errorf("%d instances, want %d", got, tc.want)
			}
		})
	}
}

func (a *account) tag(t *testing.T, id, key, value string) {
	t.Helper()
	_, err := a.ec2().CreateTags(t.Context(), &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String(key), Value: aws.String(value)}}})
	noError(t, err)
}

func TestAnUnknownFilterIsAnError(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	unknown := []types.Filter{{Name: aws.String("colour"), Values: []string{"red"}}}
	calls := map[string]func() error{
		"instances": func() error {
			_, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: unknown})
			return err
		},
		"subnets": func() error {
			_, err := a.ec2().DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: unknown})
			return err
		},
		"volumes": func() error {
			_, err := a.ec2().DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{Filters: unknown})
			return err
		},
		"interfaces": func() error {
			_, err := a.ec2().DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{Filters: unknown})
			return err
		},
		"instance types": func() error {
			_, err := a.ec2().DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{Filters: unknown})
			return err
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) { wantCode(t, call(), "InvalidParameterValue") })
	}
}

func TestPagesHoldEverythingOnce(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	want := a.launch(t, 12)
	var got []string
	pages := ec2.NewDescribeInstancesPaginator(a.ec2(), &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)})
	for pages.HasMorePages() {
		out, err := pages.NextPage(t.Context())
		noError(t, err)
		got = append(got, idsOf(out.Reservations)...)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instances of all pages (-want +got):\n%s", diff)
	}
	_, err := a.ec2().DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: want[:1], MaxResults: aws.Int32(5)})
	wantCode(t, err, "InvalidParameterCombination")
}

func TestInstanceStatusIsOfRunningInstances(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	ids := a.launch(t, 2)
	noError(t, a.Terminate(ids[0]))
	out, err := a.ec2().DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{})
	noError(t, err)
	if len(out.InstanceStatuses) != 1 || *out.InstanceStatuses[0].InstanceId != ids[1] {
		t.Errorf("statuses = %v, want that of %s alone", out.InstanceStatuses, ids[1])
	}
	out, err = a.ec2().DescribeInstanceStatus(t.Context(), &ec2.DescribeInstanceStatusInput{
		Filters: []types.Filter{{Name: aws.String("instance-status.status"), Values: []string{"impaired"}}},
	})
	noError(t, err)
	if n := len(out.InstanceStatuses); n != 0 {
		t.Errorf("%d impaired instances, want none", n)
	}
}

func TestTags(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]
	a.tag(t, id, "team", "data")
	a.tag(t, id, "team", "web")
	_, err := a.ec2().DeleteTags(t.Context(), &ec2.DeleteTagsInput{Resources: []string{id}, Tags: []types.Tag{
		{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("another")}, // another value: kept
		{Key: aws.String("eks:eks-cluster-name")},
	}})
	noError(t, err)
	out, err := a.ec2().DescribeTags(t.Context(), &ec2.DescribeTagsInput{Filters: []types.Filter{{Name: aws.String("resource-id"), Values: []string{id}}}})
	noError(t, err)
	got := map[string]string{}
	for _, tag := range out.Tags {
		if !strings.HasPrefix(*tag.Key, "aws:") {
			got[*tag.Key] = *tag.Value
		}
	}
	want := map[string]string{"team": "web", "karpenter.sh/nodepool": "default", "kubernetes.io/cluster/prod": "owned"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
}

func TestTaggingWhatIsNotThere(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]
	for resource, want := range map[string]string{
		"i-00000000000000bad":   "InvalidInstanceID.NotFound",
		"vol-00000000000000bad": "InvalidVolume.NotFound",
		"lt-00000000000000bad":  "InvalidLaunchTemplateId.NotFound",
		"what":                  "InvalidID",
	} {
		_, err := a.ec2().CreateTags(t.Context(), &ec2.CreateTagsInput{
			Resources: []string{id, resource}, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("data")}},
		})
		wantCode(t, err, want)
	}
	for _, tag := range a.describe(t, id).Tags {
		if *tag.Key == "team" {
			t.Error("a call that failed has tagged the instance that exists")
		}
	}
}

func TestOfferings(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	typesOut, err := a.ec2().DescribeInstanceTypes(t.Context(), &ec2.DescribeInstanceTypesInput{Filters: []types.Filter{
		{Name: aws.String("supported-virtualization-type"), Values: []string{"hvm"}},
		{Name: aws.String("processor-info.supported-architecture"), Values: []string{"arm64", "x86_64"}},
	}})
	noError(t, err)
	if n := len(typesOut.InstanceTypes); n < 30 {
		t.Errorf("%d instance types, want some thirty", n)
	}
	offerings, err := a.ec2().DescribeInstanceTypeOfferings(t.Context(), &ec2.DescribeInstanceTypeOfferingsInput{LocationType: types.LocationTypeAvailabilityZone})
	noError(t, err)
	prices, err := a.ec2().DescribeSpotPriceHistory(t.Context(), &ec2.DescribeSpotPriceHistoryInput{MaxResults: aws.Int32(2000)})
	noError(t, err)
	if o, p := len(offerings.InstanceTypeOfferings), len(prices.SpotPriceHistory); o != p || o < 90 {
		t.Errorf("%d offerings and %d spot prices, want as many of each, at least 90", o, p)
	}
	for _, p := range prices.SpotPriceHistory {
		if p.Timestamp == nil || aws.ToString(p.SpotPrice) == "" {
			t.Fatalf("spot price %v lacks its time or its price", p)
		}
	}
}
