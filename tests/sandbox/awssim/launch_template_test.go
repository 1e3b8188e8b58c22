package awssim_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

func TestLaunchTemplates(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	byName := &ec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"amd64"}}
	_, err := a.ec2().DescribeLaunchTemplates(t.Context(), byName)
	wantCode(t, err, "InvalidLaunchTemplateName.NotFoundException")

	id := a.template(t, "amd64", types.ArchitectureValuesX8664)
	found, err := a.ec2().DescribeLaunchTemplates(t.Context(), byName)
	noError(t, err)
	if len(found.LaunchTemplates) != 1 || *found.LaunchTemplates[0].LaunchTemplateId != id {
		t.Errorf("by name: %v, want %s", found.LaunchTemplates, id)
	}
	found, err = a.ec2().DescribeLaunchTemplates(t.Context(), &ec2.DescribeLaunchTemplatesInput{
		Filters: []types.Filter{{Name: aws.String("tag:eks:eks-cluster-name"), Values: []string{clusterName}}},
	})
	noError(t, err)
	if len(found.LaunchTemplates) != 1 {
		t.Errorf("by tag: %d templates, want 1", len(found.LaunchTemplates))
	}

	versions, err := a.ec2().DescribeLaunchTemplateVersions(t.Context(), &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: aws.String(id)})
	noError(t, err)
	data := versions.LaunchTemplateVersions[0].LaunchTemplateData
	if got := aws.ToString(data.UserData); got != base64.StdEncoding.EncodeToString([]byte(userData)) {
		t.Errorf("user data = %q", got)
	}
	if got := *data.BlockDeviceMappings[0].Ebs.VolumeSize; got != 30 {
		t.Errorf("root volume has %d GiB, want 30", got)
	}

	_, err = a.ec2().DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String("amd64")})
	noError(t, err)
	_, err = a.ec2().DeleteLaunchTemplate(t.Context(), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String(id)})
	wantCode(t, err, "InvalidLaunchTemplateId.NotFound")
}

func TestLaunchTemplatesAreRefused(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.template(t, "taken", types.ArchitectureValuesX8664)
	create := func(name string, data types.RequestLaunchTemplateData) error {
		_, err := a.ec2().CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(name), LaunchTemplateData: &data})
		return err
	}
	wantCode(t, create("taken", types.RequestLaunchTemplateData{InstanceType: types.InstanceTypeM5Large}), "InvalidLaunchTemplateName.AlreadyExistsException")
	long := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", 16385)))
	wantCode(t, create("long", types.RequestLaunchTemplateData{UserData: aws.String(long)}), "InvalidUserData.Malformed")
	wantCode(t, create("plain", types.RequestLaunchTemplateData{UserData: aws.String("#!/bin/bash")}), "InvalidUserData.Malformed")
}
