package wire_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/private/protocol/query/queryutil"
	"github.com/aws/aws-sdk-go/service/ec2"
	"github.com/aws/aws-sdk-go/service/iam"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

type roundTrip struct {
	protocol wire.Protocol
	in, out  any
}

func roundTrips() map[string]roundTrip {
	return map[string]roundTrip{
		"filters": {
			wire.EC2,
			&ec2.DescribeInstancesInput{
				Filters: []*ec2.Filter{
					{Name: aws.String("tag-key"), Values: aws.StringSlice([]string{"a", "b"})},
					{Name: aws.String("tag:x.y/z"), Values: aws.StringSlice([]string{""})},
				},
				MaxResults: aws.Int64(5),
			},
			&ec2.DescribeInstancesInput{},
		},
		"more than nine items": {
			wire.EC2,
			&ec2.DescribeInstancesInput{InstanceIds: aws.StringSlice([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"})},
			&ec2.DescribeInstancesInput{},
		},
		"nested lists, numbers and times": {
			wire.EC2,
			&ec2.CreateFleetInput{
				DryRun: aws.Bool(true),
				LaunchTemplateConfigs: []*ec2.FleetLaunchTemplateConfigRequest{{
					LaunchTemplateSpecification: &ec2.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("x")},
					Overrides:                   []*ec2.FleetLaunchTemplateOverridesRequest{{Priority: aws.Float64(0.25)}, {SubnetId: aws.String("subnet-1")}},
				}},
				ValidFrom:         aws.Time(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)),
				TagSpecifications: []*ec2.TagSpecification{{ResourceType: aws.String("instance"), Tags: []*ec2.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}},
				ClientToken:       aws.String("t"),
			},
			&ec2.CreateFleetInput{},
		},
		"members": {
			wire.Query,
			&iam.CreateInstanceProfileInput{
				InstanceProfileName: aws.String("p"), Path: aws.String("/a/"),
				Tags: []*iam.Tag{{Key: aws.String("k"), Value: aws.String("v")}, {Key: aws.String("l"), Value: aws.String("w")}},
			},
			&iam.CreateInstanceProfileInput{},
		},
	}
}

// TestDecodeQueryUndoesTheBuilder encodes inputs as aws-sdk-go does and decodes them again.
func TestDecodeQueryUndoesTheBuilder(t *testing.T) {
	for name, tc := range roundTrips() {
		t.Run(name, func(t *testing.T) {
			form := url.Values{"Action": {"X"}, "Version": {"1"}}
			if err := queryutil.Parse(form, tc.in, tc.protocol == wire.EC2); err != nil {
				t.Fatal(err)
			}
			unknown, err := wire.DecodeQuery(tc.protocol, form, tc.out)
			if err != nil || len(unknown) > 0 {
				t.Fatalf("unknown %v, error %v", unknown, err)
			}
			if diff := cmp.Diff(tc.in, tc.out, cmpopts.IgnoreUnexported(
				ec2.DescribeInstancesInput{}, ec2.Filter{}, ec2.CreateFleetInput{}, ec2.FleetLaunchTemplateConfigRequest{},
				ec2.FleetLaunchTemplateSpecificationRequest{}, ec2.FleetLaunchTemplateOverridesRequest{}, ec2.TagSpecification{}, ec2.Tag{},
				iam.CreateInstanceProfileInput{}, iam.Tag{},
			)); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeQuerySaysWhatItDoesNotKnow(t *testing.T) {
	form := url.Values{"InstanceId.1": {"i-1"}, "NewFeature.1.Name": {"x"}, "NewFeature.1.Value": {"y"}}
	unknown, err := wire.DecodeQuery(wire.EC2, form, &ec2.DescribeInstancesInput{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"NewFeature.1.Name", "NewFeature.1.Value"}, unknown); diff != "" {
		t.Errorf("unknown (-want +got):\n%s", diff)
	}
}

func TestDecodeQueryRefusesNonsense(t *testing.T) {
	for name, form := range map[string]url.Values{
		"a word for a number":    {"MaxResults": {"many"}},
		"a word for a boolean":   {"DryRun": {"perhaps"}},
		"a word in a list":       {"InstanceId.first": {"i-1"}},
		"a value for a list":     {"InstanceId": {"i-1"}, "MaxResults": {"x"}},
		"a number past 64 bits":  {"MaxResults": {"99999999999999999999"}},
		"a filter without index": {"Filter.Name": {"x"}},
	} {
		if _, err := wire.DecodeQuery(wire.EC2, form, &ec2.DescribeInstancesInput{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzDecodeQuery(f *testing.F) {
	f.Add("Action=X&Filter.1.Name=tag-key&Filter.1.Value.1=a&MaxResults=5")
	f.Add("Filter.1=x&Filter.1.Name=y&..=&Filter.-1.Name=z")
	f.Fuzz(func(_ *testing.T, body string) {
		form, err := url.ParseQuery(body)
		if err != nil {
			return
		}
		// Any input returns a result without a panic.
		_, _ = wire.DecodeQuery(wire.EC2, form, &ec2.CreateFleetInput{})
		_, _ = wire.DecodeQuery(wire.Query, form, &iam.CreateInstanceProfileInput{})
	})
}
