package offers_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
)

func typeOf(name string) ec2types.InstanceTypeInfo {
	return ec2types.InstanceTypeInfo{
		InstanceType: ec2types.InstanceType(name), VCpuInfo: &ec2types.VCpuInfo{DefaultVCpus: aws.Int32(2)}, MemoryInfo: &ec2types.MemoryInfo{SizeInMiB: aws.Int64(8192)},
		ProcessorInfo:         &ec2types.ProcessorInfo{SupportedArchitectures: []ec2types.ArchitectureType{"x86_64"}},
		SupportedUsageClasses: []ec2types.UsageClassType{"on-demand", "spot"},
		NetworkInfo: &ec2types.NetworkInfo{
			MaximumNetworkInterfaces: aws.Int32(3), Ipv4AddressesPerInterface: aws.Int32(10), DefaultNetworkCardIndex: aws.Int32(0),
			NetworkCards: []ec2types.NetworkCardInfo{{MaximumNetworkInterfaces: aws.Int32(3)}},
		},
	}
}

// region returns two pages for each query.
type region struct{ refuse string }

func (r region) DescribeInstanceTypes(_ context.Context, in *ec2.DescribeInstanceTypesInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceTypesOutput, error) {
	if r.refuse == "types" {
		return nil, errors.New("denied")
	}
	if in.NextToken == nil {
		return &ec2.DescribeInstanceTypesOutput{InstanceTypes: []ec2types.InstanceTypeInfo{typeOf("m5.large")}, NextToken: aws.String("more")}, nil
	}
	return &ec2.DescribeInstanceTypesOutput{InstanceTypes: []ec2types.InstanceTypeInfo{typeOf("zz9.large")}}, nil
}

func (r region) DescribeInstanceTypeOfferings(_ context.Context, in *ec2.DescribeInstanceTypeOfferingsInput, _ ...func(*ec2.Options)) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
	if r.refuse == "zones" {
		return nil, errors.New("denied")
	}
	zone, next := "us-east-1a", aws.String("more")
	if in.NextToken != nil {
		zone, next = "us-east-1b", nil
	}
	return &ec2.DescribeInstanceTypeOfferingsOutput{InstanceTypeOfferings: []ec2types.InstanceTypeOffering{
		{InstanceType: "m5.large", Location: aws.String(zone)}, {InstanceType: "zz9.large", Location: aws.String(zone)},
	}, NextToken: next}, nil
}

func TestACatalogIsAllPages(t *testing.T) {
	c, err := offers.Read(t.Context(), region{}, "us-east-1")
	if err != nil || len(c.Types) != 2 {
		t.Fatalf("%v, %+v", err, c)
	}
	if diff := cmp.Diff([]string{"us-east-1a", "us-east-1b"}, c.Zones["m5.large"]); diff != "" {
		t.Error(diff)
	}
	for refuse, action := range map[string]string{"types": "ec2:DescribeInstanceTypes", "zones": "ec2:DescribeInstanceTypeOfferings"} {
		var call *offers.CallError
		if _, err := offers.Read(t.Context(), region{refuse}, "us-east-1"); !errors.As(err, &call) || call.Action != action {
			t.Errorf("%s: %v", refuse, err)
		}
	}
}

func class() *awsv1.EC2NodeClass {
	c := &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}}
	c.Status.Subnets = []awsv1.Subnet{{ID: "s", Zone: "us-east-1a", ZoneID: "use1-az1"}}
	c.Status.AMIs = []awsv1.AMI{{ID: "ami-1", Requirements: []corev1.NodeSelectorRequirement{{Key: corev1.LabelArchStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"amd64"}}}}}
	return c
}

// TestInstanceTypesAreKarpenters checks that prices come from the library's table and zones from the class's subnets,
// and that there is no offering without a price.
func TestInstanceTypesAreKarpenters(t *testing.T) {
	c, err := offers.Read(t.Context(), region{}, "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	o, err := offers.New(t.Context(), c, offers.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	types, err := o.InstanceTypes(t.Context(), class())
	if err != nil || len(types) != 2 {
		t.Fatalf("%v, %d types", err, len(types))
	}
	for _, it := range types {
		available := it.Offerings.Available()
		switch it.Name {
		case "m5.large":
			onDemand := available.Compatible(scheduling.NewLabelRequirements(map[string]string{karpv1.CapacityTypeLabelKey: "on-demand"}))
			if len(available) != 2 || len(onDemand) != 1 || onDemand[0].Price != 0.096 || onDemand[0].Zone() != "us-east-1a" {
				t.Errorf("m5.large: %+v", available)
			}
			// 8 GiB minus 7.5 % for the hypervisor.
			if memory := it.Capacity[corev1.ResourceMemory]; memory.Cmp(resource.MustParse("7577Mi")) != 0 {
				t.Errorf("memory: %s", memory.String())
			}
		default:
			if len(available) != 0 {
				t.Errorf("%s has no price, and is offered: %+v", it.Name, available)
			}
		}
	}
}

// TestMemoryIsThatOfANode checks this if a node runs.
func TestMemoryIsThatOfANode(t *testing.T) {
	c, _ := offers.Read(t.Context(), region{}, "us-east-1")
	o, err := offers.New(t.Context(), c, offers.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelInstanceTypeStable: "m5.large", corev1.LabelArchStable: "amd64"}}}
	node.Status.Capacity = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("7000Mi")}
	claim := &karpv1.NodeClaim{Status: karpv1.NodeClaimStatus{ImageID: "ami-1"}}
	if err := o.Observe(t.Context(), node, claim, class()); err != nil {
		t.Fatal(err)
	}
	types, err := o.InstanceTypes(t.Context(), class())
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range types {
		if memory := it.Capacity[corev1.ResourceMemory]; it.Name == "m5.large" && memory.Cmp(resource.MustParse("7000Mi")) != 0 {
			t.Errorf("memory: %s", memory.String())
		}
	}
}

// TestPricesOfARegionThatTheTablesLack checks that they are reported as another region's.
func TestPricesOfARegionThatTheTablesLack(t *testing.T) {
	for region, want := range map[string]string{"us-east-1": "us-east-1", "us-gov-west-1": "us-gov-west-1", "cn-north-1": "cn-north-1", "eu-west-1": "us-east-1"} {
		c := &offers.Catalog{Region: region, Types: []ec2types.InstanceTypeInfo{typeOf("m5.large")}, Zones: map[string][]string{"m5.large": {region + "a"}}}
		o, err := offers.New(t.Context(), c, offers.Defaults())
		if err != nil {
			t.Fatal(err)
		}
		if got := o.PricesOf(); got != want {
			t.Errorf("%s has the prices of %s", region, got)
		}
	}
}

// TestWhatTheLibraryCannotParseIsAnError checks this where the library panics.
func TestWhatTheLibraryCannotParseIsAnError(t *testing.T) {
	c, _ := offers.Read(t.Context(), region{}, "us-east-1")
	o, err := offers.New(t.Context(), c, offers.Defaults())
	if err != nil {
		t.Fatal(err)
	}
	broken := class()
	broken.Spec.Kubelet = awsv1.KubeletConfiguration{"evictionHard": awsv1.JSONValue(map[string]string{"memory.available": "much"})}
	if _, err := o.InstanceTypes(t.Context(), broken); err == nil || !strings.Contains(err.Error(), "EC2NodeClass/default") {
		t.Errorf("%v", err)
	}
	lacking := typeOf("m5.large")
	lacking.NetworkInfo.DefaultNetworkCardIndex = aws.Int32(7)
	c.Types = append(c.Types, lacking)
	if _, err := offers.New(t.Context(), c, offers.Defaults()); err == nil {
		t.Error("a type without its network card is taken")
	}
}

// TestListPrice checks prices without a Catalog: in a region that is not in the tables they are those of us-east-1.
func TestListPrice(t *testing.T) {
	for name, c := range map[string]struct {
		region, kind string
		known        bool
	}{
		"in the tables":   {"us-east-1", "m5.large", true},
		"another region":  {"eu-west-1", "m5.large", true},
		"China":           {"cn-north-1", "m5.large", false},
		"an unknown type": {"us-east-1", "m99.large", false},
		"no type":         {"us-east-1", "", false},
	} {
		if price, ok := offers.ListPrice(c.region, c.kind); ok != c.known || ok != (price > 0) {
			t.Errorf("%s: %v, %t", name, price, ok)
		}
	}
}
