package awssim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/catalog"
	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/wire"
)

// imageOwner is the account that publishes the EKS images.
const imageOwner = "602401143452"

type image struct {
	resource
	name, arch, rootDevice string
	created                time.Time
}

func (a *account) imageActions() map[string]action {
	return map[string]action{"DescribeImages": query(a, a.describeImages)}
}

// publishImage adds an image, and its SSM parameters.
func (a *account) publishImage(i catalog.Image) {
	a.images[i.ID] = &image{
		resource: resource{ID: i.ID, Tags: map[string]string{}},
		name:     i.Name, arch: i.Arch, rootDevice: i.RootDevice, created: i.Created,
	}
	for _, name := range i.Parameters {
		version := int64(1)
		if before := a.parameters[name]; before != nil {
			version = before.version + 1
		}
		a.parameters[name] = &parameter{name: name, value: i.ID, version: version, modified: i.Created}
	}
}

// PublishAL2023 adds a release of AL2023, such as v20251103. The parameters that mean "newest" move to it.
func (s *Simulator) PublishAL2023(version string) {
	s.locked(func(a *account) {
		for _, i := range catalog.Later(version, a.now) {
			a.publishImage(i)
		}
	})
}

// WithdrawAL2023 deletes the images of a release of AL2023 for versions of Kubernetes, such as 1.37, or without any for all, and
// the SSM parameters that name them. restore publishes them again.
func (s *Simulator) WithdrawAL2023(version string, kubernetes ...string) (restore func()) {
	of := func(name string) bool {
		return len(kubernetes) == 0 || slices.ContainsFunc(kubernetes, func(minor string) bool { return strings.HasSuffix(name, "-"+minor+"-"+version) })
	}
	images, parameters := map[string]*image{}, map[string]*parameter{}
	s.locked(func(a *account) {
		for id, i := range a.images {
			if !strings.HasPrefix(i.name, "amazon-eks-node-al2023-") || !strings.HasSuffix(i.name, "-"+version) || !of(i.name) {
				continue
			}
			images[id] = i
			for name, p := range a.parameters {
				if p.value == id {
					parameters[name] = p
				}
			}
		}
		maps.DeleteFunc(a.images, func(id string, _ *image) bool { return images[id] != nil })
		maps.DeleteFunc(a.parameters, func(name string, _ *parameter) bool { return parameters[name] != nil })
	})
	return func() {
		s.locked(func(a *account) {
			maps.Copy(a.images, images)
			maps.Copy(a.parameters, parameters)
		})
	}
}

func (a *account) describeImages(r *request, in *ec2.DescribeImagesInput) (*ec2.DescribeImagesOutput, error) {
	matches, err := selector(in.Filters, attributes[*image]{
		"image-id":            one(func(i *image) string { return i.ID }),
		"name":                one(func(i *image) string { return i.name }),
		"architecture":        one(func(i *image) string { return i.arch }),
		"state":               one(func(*image) string { return "available" }),
		"owner-id":            one(func(*image) string { return imageOwner }),
		"owner-alias":         one(func(*image) string { return "amazon" }),
		"root-device-type":    one(func(*image) string { return "ebs" }),
		"virtualization-type": one(func(*image) string { return "hvm" }),
		"creation-date":       one(func(i *image) string { return created(i) }),
	})
	if err != nil {
		return nil, err
	}
	for _, id := range in.ImageIds {
		if _, ok := a.images[*id]; !ok {
			return nil, wire.Errorf("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", *id)
		}
	}
	var selected []*image
	for _, i := range a.images {
		named := len(in.ImageIds) == 0 || slices.Contains(aws.StringValueSlice(in.ImageIds), i.ID)
		if named && ownedBy(aws.StringValueSlice(in.Owners)) && matches(i) {
			selected = append(selected, i)
		}
	}
	selected, next, err := ec2Page(a, r, selected, func(i *image) string { return i.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &ec2.DescribeImagesOutput{NextToken: next, Images: []*ec2.Image{}}
	for _, i := range selected {
		out.Images = append(out.Images, i.describe())
	}
	return out, nil
}

// ownedBy reports whether owners, if any, include the publisher.
func ownedBy(owners []string) bool {
	return len(owners) == 0 || slices.Contains(owners, "amazon") || slices.Contains(owners, imageOwner)
}

func created(i *image) string { return i.created.UTC().Format("2006-01-02T15:04:05.000Z") }

func (i *image) describe() *ec2.Image {
	return &ec2.Image{
		ImageId: aws.String(i.ID), Name: aws.String(i.name), Architecture: aws.String(i.arch),
		State: aws.String("available"), OwnerId: aws.String(imageOwner), ImageOwnerAlias: aws.String("amazon"),
		CreationDate: aws.String(created(i)), ImageType: aws.String("machine"), Public: aws.Bool(true),
		RootDeviceName: aws.String(i.rootDevice), RootDeviceType: aws.String("ebs"), VirtualizationType: aws.String("hvm"),
		Hypervisor: aws.String("xen"), EnaSupport: aws.Bool(true), ImageLocation: aws.String("amazon/" + i.name),
		Description: aws.String(strings.ReplaceAll(i.name, "-", " ")), Tags: ec2Tags(i.Tags),
		BlockDeviceMappings: []*ec2.BlockDeviceMapping{{
			DeviceName: aws.String(i.rootDevice),
			Ebs: &ec2.EbsBlockDevice{
				VolumeSize: aws.Int64(20), VolumeType: aws.String("gp3"), DeleteOnTermination: aws.Bool(true),
				SnapshotId: aws.String(fixedID("snap-", i.name)),
			},
		}},
	}
}
