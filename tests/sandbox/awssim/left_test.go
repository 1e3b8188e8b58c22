package awssim_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

func count(l awssim.Left) []int {
	return []int{len(l.Instances), len(l.Interfaces), len(l.Volumes), len(l.Attachments), len(l.LaunchTemplates), len(l.InstanceProfiles)}
}

func TestLeft(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	if left := a.Left(clusterName); !left.Empty() || left.String() != "nothing" {
		t.Errorf("a new cluster has left %s, want nothing", left)
	}
	id := a.launch(t, 1)[0]
	if diff := cmp.Diff([]int{1, 1, 1, 1, 1, 0}, count(a.Left(clusterName))); diff != "" {
		t.Errorf("after a launch (-want +got):\n%s", diff)
	}
	if left := a.Left("staging"); !left.Empty() {
		t.Errorf("another cluster has left %s, want nothing", left)
	}
	noError(t, a.Terminate(id))
	if diff := cmp.Diff([]int{0, 0, 0, 0, 1, 0}, count(a.Left(clusterName))); diff != "" {
		t.Errorf("after the end (-want +got):\n%s", diff)
	}
	_, err := a.ec2().DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("amd64")})
	noError(t, err)
	if left := a.Left(clusterName); !left.Empty() {
		t.Errorf("left %s, want nothing", left)
	}
}

func TestVolumes(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]
	mine := map[string]string{"kubernetes.io/cluster/" + clusterName: "owned"}
	near, far := a.CreateVolume("eu-west-1a", 10, mine), a.CreateVolume("eu-west-1b", 10, mine)

	wantCode(t, a.AttachVolume(id, far, "/dev/xvdaa"), "InvalidVolume.ZoneMismatch")
	noError(t, a.AttachVolume(id, near, "/dev/xvdaa"))
	wantCode(t, a.AttachVolume(id, near, "/dev/xvdab"), "VolumeInUse")
	if diff := cmp.Diff([]int{1, 1, 3, 2, 1, 0}, count(a.Left(clusterName))); diff != "" {
		t.Errorf("with a volume attached (-want +got):\n%s", diff)
	}
	_, err := a.ec2().DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: aws.String(near)})
	wantCode(t, err, "VolumeInUse")

	noError(t, a.DetachVolume(id, near))
	wantCode(t, a.DetachVolume(id, near), "IncorrectState")
	noError(t, a.AttachVolume(id, near, "/dev/xvdaa"))
	noError(t, a.Terminate(id))
	out, err := a.ec2().DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{})
	noError(t, err)
	states := map[string]string{}
	for _, v := range out.Volumes {
		states[*v.VolumeId] = string(v.State)
	}
	if diff := cmp.Diff(map[string]string{near: "available", far: "available"}, states); diff != "" {
		t.Errorf("after the instance's end its root volume is gone and the others are free (-want +got):\n%s", diff)
	}
	wantCode(t, a.AttachVolume(id, near, "/dev/xvdaa"), "IncorrectState")
	noError(t, a.DeleteVolume(near))
	wantCode(t, a.DeleteVolume(near), "InvalidVolume.NotFound")
}

func TestVolumesByTheAPI(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]
	made, err := a.ec2().CreateVolume(t.Context(), &ec2.CreateVolumeInput{AvailabilityZone: aws.String("eu-west-1a"), Size: aws.Int32(8)})
	noError(t, err)
	attached, err := a.ec2().AttachVolume(t.Context(), &ec2.AttachVolumeInput{InstanceId: aws.String(id), VolumeId: made.VolumeId, Device: aws.String("/dev/xvdb")})
	noError(t, err)
	if attached.State != "attached" || len(a.describe(t, id).BlockDeviceMappings) != 2 {
		t.Errorf("attachment = %+v, want attached and listed with the instance", attached)
	}
	_, err = a.ec2().DetachVolume(t.Context(), &ec2.DetachVolumeInput{VolumeId: made.VolumeId})
	noError(t, err)
	_, err = a.ec2().DeleteVolume(t.Context(), &ec2.DeleteVolumeInput{VolumeId: made.VolumeId})
	noError(t, err)
	_, err = a.ec2().DescribeVolumes(t.Context(), &ec2.DescribeVolumesInput{VolumeIds: []string{*made.VolumeId}})
	wantCode(t, err, "InvalidVolume.NotFound")
}

func TestClustersOfOneAccountAreApart(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	noError(t, a.AddCluster(awssim.Cluster{Name: "staging", Version: "1.36"}))
	out, err := a.ec2().DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	noError(t, err)
	blocks := map[string]bool{}
	for _, s := range out.Subnets {
		blocks[*s.CidrBlock] = true
	}
	if len(blocks) != 6 {
		t.Errorf("%d address blocks for two clusters, want 6: %v", len(blocks), blocks)
	}
	a.launch(t, 1)
	if left := a.Left("staging"); !left.Empty() {
		t.Errorf("staging has left %s, want nothing: the instance is prod's", left)
	}
}
