package awssim_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	v1 "github.com/aws/aws-sdk-go/aws"
	v1ec2 "github.com/aws/aws-sdk-go/service/ec2"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// TestNodeGroups checks what `plumbline init` reads of a managed node group, and that IAM is evaluated for it.
func TestNodeGroups(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	data := &v1ec2.RequestLaunchTemplateData{UserData: v1.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\n")))}
	noError(t, a.AddNodeGroup(clusterName, awssim.NodeGroup{
		Name: "web", AMIType: "AL2023_x86_64_STANDARD", CapacityType: "SPOT", InstanceTypes: []string{"m5.large"}, Min: 1, Max: 4, Desired: 2,
		Taints: []awssim.NodeGroupTaint{{Key: "web", Value: "yes", Effect: "NO_SCHEDULE"}}, LaunchTemplateData: data,
	}))
	if err := a.AddNodeGroup(clusterName, awssim.NodeGroup{Name: "web"}); err == nil {
		t.Error("a second node group of the same name was added")
	}
	clusters := eks.NewFromConfig(a.config("tester"))
	listed, err := clusters.ListNodegroups(t.Context(), &eks.ListNodegroupsInput{ClusterName: aws.String(clusterName)})
	noError(t, err)
	if len(listed.Nodegroups) != 1 {
		t.Errorf("the node groups are %v", listed.Nodegroups)
	}
	in := &eks.DescribeNodegroupInput{ClusterName: aws.String(clusterName), NodegroupName: aws.String("web")}
	out, err := clusters.DescribeNodegroup(t.Context(), in)
	noError(t, err)
	g := out.Nodegroup
	if g.CapacityType != "SPOT" || aws.ToInt32(g.ScalingConfig.MaxSize) != 4 || len(g.Subnets) == 0 || g.Taints[0].Effect != "NO_SCHEDULE" {
		t.Errorf("the node group is %+v", g)
	}
	versions, err := a.ec2().DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{
		LaunchTemplateId: g.LaunchTemplate.Id, Versions: []string{aws.ToString(g.LaunchTemplate.Version)},
	})
	noError(t, err)
	if got := aws.ToString(versions.LaunchTemplateVersions[0].LaunchTemplateData.UserData); got != *data.UserData {
		t.Errorf("the user data is %q", got)
	}
	if _, err := clusters.DescribeNodegroup(t.Context(), &eks.DescribeNodegroupInput{ClusterName: aws.String(clusterName), NodegroupName: aws.String("api")}); err == nil ||
		!strings.Contains(err.Error(), "ResourceNotFoundException") {
		t.Errorf("a node group that does not exist: %v", err)
	}
	a.as(t, "reader", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"eks:DescribeNodegroup","Resource":"arn:aws:eks:*:*:nodegroup/`+clusterName+`/api/*"}]}`)
	reader := eks.NewFromConfig(a.config("reader"))
	_, err = reader.DescribeNodegroup(t.Context(), in)
	denial(t, err, "AccessDeniedException", "eks:DescribeNodegroup on resource: arn:aws:eks:eu-west-1:000000000000:nodegroup/"+clusterName+"/web/")
	_, err = reader.ListNodegroups(t.Context(), &eks.ListNodegroupsInput{ClusterName: aws.String(clusterName)})
	denial(t, err, "AccessDeniedException", "eks:ListNodegroups on resource: arn:aws:eks:eu-west-1:000000000000:cluster/"+clusterName)
	a.as(t, "allowed", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"eks:DescribeNodegroup","Resource":"arn:aws:eks:*:*:nodegroup/`+clusterName+`/*"}]}`)
	_, err = eks.NewFromConfig(a.config("allowed")).DescribeNodegroup(t.Context(), in)
	noError(t, err)
}
