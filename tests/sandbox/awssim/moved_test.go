package awssim_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// TestANewerRelease: the parameter that means "newest" moves to it, the others stay.
func TestANewerRelease(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	client := ssm.NewFromConfig(a.config("karpenter"))
	const prefix = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/"
	get := func(name string) *ssmtypes.Parameter {
		out, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(prefix + name + "/image_id")})
		noError(t, err)
		return out.Parameter
	}
	const older, newer = "amazon-eks-node-al2023-x86_64-standard-1.36-v20251002", "amazon-eks-node-al2023-x86_64-standard-1.36-v20251103"
	if before := get("recommended"); *before.Value != *get(older).Value {
		t.Fatalf("the newest is %s", *before.Value)
	}
	a.PublishAL2023("v20251103")
	after := get("recommended")
	if *after.Value != *get(newer).Value || *after.Value == *get(older).Value || after.Version != 2 {
		t.Errorf("the newest is %s, version %d", *after.Value, after.Version)
	}
	images, err := a.ec2().DescribeImages(t.Context(), &ec2.DescribeImagesInput{ImageIds: []string{*after.Value}})
	if err != nil || len(images.Images) != 1 || *images.Images[0].Name != newer {
		t.Errorf("its image: %v (%v)", images, err)
	}
}

// TestAReleaseIsWithdrawn: its image and the parameters that name it are gone, and the release before it is kept.
func TestAReleaseIsWithdrawn(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	client := ssm.NewFromConfig(a.config("karpenter"))
	const prefix = "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/"
	a.WithdrawAL2023("v20251002")
	for name, there := range map[string]bool{
		"amazon-eks-node-al2023-x86_64-standard-1.36-v20251002": false, "recommended": false, "amazon-eks-node-al2023-x86_64-standard-1.36-v20250904": true,
	} {
		_, err := client.GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String(prefix + name + "/image_id")})
		if gone := errors.As(err, new(*ssmtypes.ParameterNotFound)); gone == there || !gone && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		images, err := a.ec2().DescribeImages(t.Context(), &ec2.DescribeImagesInput{Filters: []ec2types.Filter{{Name: aws.String("name"), Values: []string{name}}}})
		noError(t, err)
		if (len(images.Images) > 0) != there {
			t.Errorf("%s: images %v", name, images.Images)
		}
	}
}

// TestASecurityGroupIsTagged: it is found by the tag as long as it has it.
func TestASecurityGroupIsTagged(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	byTag := func() int {
		out, err := a.ec2().DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{
			Filters: []ec2types.Filter{{Name: aws.String("tag:karpenter.sh/discovery"), Values: []string{clusterName}}},
		})
		noError(t, err)
		return len(out.SecurityGroups)
	}
	id, err := a.SecurityGroup(clusterName, "default")
	noError(t, err)
	before := byTag()
	noError(t, a.Tag(id, "karpenter.sh/discovery", clusterName))
	if got := byTag(); got != before+1 {
		t.Errorf("with the tag %d groups are found, %d before", got, before)
	}
	noError(t, a.Untag(id, "karpenter.sh/discovery"))
	if got := byTag(); got != before {
		t.Errorf("without it %d groups are found, %d before", got, before)
	}
	if id, err := a.SecurityGroup(clusterName, "nobody"); err == nil {
		t.Errorf("there is no such group: %s", id)
	}
}
