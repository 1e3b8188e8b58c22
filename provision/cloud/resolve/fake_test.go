package resolve

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fake is an account with three AMIs, two subnets and a group.
type fake struct {
	now        time.Time
	all        []ec2types.Image
	parameters map[string]string
	// refuse are errors, by query.
	refuse map[string]error
	// date is that of all AMIs, if not empty.
	date string
	// asked is the number of requests, and images the last query for AMIs.
	asked  int
	images string
}

func newFake() *fake {
	f := &fake{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	for i, one := range []struct{ id, arch string }{{"ami-amd", "x86_64"}, {"ami-arm", "arm64"}, {"ami-amd2", "x86_64"}, {"ami-gpu", "x86_64"}} {
		f.all = append(f.all, ec2types.Image{
			ImageId: aws.String(one.id), Name: aws.String(one.id), Architecture: ec2types.ArchitectureValues(one.arch),
			CreationDate: aws.String(f.now.AddDate(0, 0, i-30).Format(time.RFC3339)),
		})
	}
	return f
}

func (f *fake) resolver() *Resolver { return New(f, func() time.Time { return f.now }) }

// published makes SSM contain the latest AMIs.
func (f *fake) published() {
	const eks = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/"
	f.parameters = map[string]string{eks + "x86_64/standard/recommended/image_id": "ami-amd", eks + "arm64/standard/recommended/image_id": "ami-arm"}
}

func (f *fake) deprecate(id string, at time.Time) {
	for i := range f.all {
		if *f.all[i].ImageId == id {
			f.all[i].DeprecationTime = aws.String(at.Format(time.RFC3339))
		}
	}
}

func (f *fake) DescribeImages(_ context.Context, in *ec2.DescribeImagesInput) (*ec2.DescribeImagesOutput, error) {
	f.asked++
	f.images = words(in.Filters)
	if len(in.Owners) > 0 {
		f.images += " owners=" + strings.Join(in.Owners, ",")
	}
	out := &ec2.DescribeImagesOutput{}
	for _, image := range f.all {
		if f.date != "" {
			image.CreationDate = aws.String(f.date)
		}
		if slices.Contains(valuesOf(in.Filters, "image-id"), *image.ImageId) {
			out.Images = append(out.Images, image)
		}
	}
	return out, f.refuse["images"]
}

func (f *fake) DescribeSubnets(_ context.Context, in *ec2.DescribeSubnetsInput) (*ec2.DescribeSubnetsOutput, error) {
	f.asked++
	out := &ec2.DescribeSubnetsOutput{}
	for _, id := range []string{"subnet-a", "subnet-b"} {
		byTag := slices.Equal(valuesOf(in.Filters, "tag-key"), []string{"a"}) && id == "subnet-a"
		if byTag || slices.Contains(valuesOf(in.Filters, "subnet-id"), id) {
			out.Subnets = append(out.Subnets, ec2types.Subnet{SubnetId: aws.String(id), AvailableIpAddressCount: aws.Int32(9)})
		}
	}
	return out, f.refuse["subnets"]
}

func (f *fake) DescribeSecurityGroups(_ context.Context, in *ec2.DescribeSecurityGroupsInput) (*ec2.DescribeSecurityGroupsOutput, error) {
	f.asked++
	out := &ec2.DescribeSecurityGroupsOutput{}
	if slices.Contains(valuesOf(in.Filters, "group-name"), "nodes") {
		out.SecurityGroups = []ec2types.SecurityGroup{{GroupId: aws.String("sg-a"), GroupName: aws.String("nodes")}}
	}
	return out, f.refuse["groups"]
}

func (f *fake) DescribeCapacityReservations(context.Context, *ec2.DescribeCapacityReservationsInput) (*ec2.DescribeCapacityReservationsOutput, error) {
	f.asked++
	return &ec2.DescribeCapacityReservationsOutput{}, f.refuse["reservations"]
}

func (f *fake) GetParameter(_ context.Context, in *ssm.GetParameterInput) (*ssm.GetParameterOutput, error) {
	f.asked++
	for part, err := range f.refuse {
		if rest, ok := strings.CutPrefix(part, "ssm "); ok && strings.Contains(*in.Name, rest) {
			return nil, err
		}
	}
	if value, ok := f.parameters[*in.Name]; ok {
		return &ssm.GetParameterOutput{Parameter: &ssmtypes.Parameter{Value: aws.String(value)}}, nil
	}
	return nil, fmt.Errorf("get %s: %w", *in.Name, &ssmtypes.ParameterNotFound{})
}

func words(filters []ec2types.Filter) string {
	var found []string
	for _, f := range filters {
		found = append(found, *f.Name+"="+strings.Join(f.Values, ","))
	}
	return strings.Join(found, " ")
}

func valuesOf(filters []ec2types.Filter, name string) []string {
	for _, f := range filters {
		if *f.Name == name {
			return f.Values
		}
	}
	return nil
}

func class(terms ...awsv1.AMISelectorTerm) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: awsv1.EC2NodeClassSpec{AMISelectorTerms: terms}}
}

func ids(amis []awsv1.AMI) string {
	var found []string
	for _, ami := range amis {
		found = append(found, ami.ID)
	}
	return strings.Join(found, " ")
}
