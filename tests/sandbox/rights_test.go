package sandbox

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
	"github.com/plumbline-dev/plumbline/tests/sandbox/binaries"
)

// TestPlumblinesKey: with plumbline's access key of a sandbox, EC2 answers what manifests/iam-policy.json allows, and
// terminates no instance.
func TestPlumblinesKey(t *testing.T) {
	source, err := binaries.FindSource(".")
	if err != nil {
		t.Fatal(err)
	}
	s := &Sandbox{Cluster: "demo", Region: "eu-west-1", options: Options{Source: source}}
	s.AWS = awssim.New(awssim.Options{Region: s.Region, Logger: slog.New(slog.DiscardHandler)})
	if err := s.AWS.AddCluster(awssim.Cluster{Name: s.Cluster, Version: "1.36", ServiceIPv4CIDR: "10.100.0.0/16"}); err != nil {
		t.Fatal(err)
	}
	if err := s.addPlumblineRole(); err != nil {
		t.Fatal(err)
	}
	id, err := s.AWS.AddNode(s.Cluster, "general")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s.AWS.Handler())
	t.Cleanup(server.Close)
	variables := s.AWSVariables()
	client := ec2.NewFromConfig(aws.Config{
		Region: s.Region, BaseEndpoint: aws.String(server.URL), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: credentials.NewStaticCredentialsProvider(variables["AWS_ACCESS_KEY_ID"], variables["AWS_SECRET_ACCESS_KEY"], ""),
	})
	if _, err := client.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Error(err)
	}
	_, err = client.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	var denied smithy.APIError
	if !errors.As(err, &denied) || denied.ErrorCode() != "UnauthorizedOperation" {
		t.Errorf("TerminateInstances: %v", err)
	}
	for _, i := range s.AWS.Instances() {
		if i.ID == id && i.State != "pending" && i.State != "running" {
			t.Errorf("%s is %s", id, i.State)
		}
	}
}

// TestBare: a bare sandbox has no roles of plumbline or Karpenter, and its user is an administrator of the account.
func TestBare(t *testing.T) {
	s := &Sandbox{Cluster: "demo", Region: "eu-west-1", options: Options{Bare: true}}
	s.AWS = awssim.New(awssim.Options{Region: s.Region})
	if err := s.AWS.AddCluster(awssim.Cluster{Name: s.Cluster, Version: "1.36", Bare: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.addRoles(); err != nil {
		t.Fatal(err)
	}
	if roles := s.AWS.State().Roles; len(roles) != 2 {
		t.Errorf("roles = %v, want those of the cluster and of its node group", roles)
	}
	server := httptest.NewServer(s.AWS.Handler())
	t.Cleanup(server.Close)
	client := ec2.NewFromConfig(aws.Config{
		Region: s.Region, BaseEndpoint: aws.String(server.URL), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: credentials.NewStaticCredentialsProvider(s.AWSVariables()["AWS_ACCESS_KEY_ID"], secretAccessKey, ""),
	})
	if _, err := client.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{}); err != nil {
		t.Error(err)
	}
	if _, ok := s.awsPlace()["AWS_ACCESS_KEY_ID"]; ok {
		t.Error("Karpenter's pods of a bare cluster get an access key")
	}
}
