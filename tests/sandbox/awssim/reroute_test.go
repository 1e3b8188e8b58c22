package awssim_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// TestTheWrongAccount answers callers with its credentials, and no others.
func TestTheWrongAccount(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	id := a.launch(t, 1)[0]
	wrong := awssim.New(awssim.Options{Region: region, Account: "999988887777"})
	noError(t, wrong.AddCluster(awssim.Cluster{Name: clusterName, CertificateAuthority: "b3RoZXI="}))

	type look struct{ account, authority, instance string }
	see := func(accessKey string) look {
		t.Helper()
		config := a.config(accessKey)
		who, err := sts.NewFromConfig(config).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
		noError(t, err)
		cluster, err := eks.NewFromConfig(config).DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String(clusterName)})
		noError(t, err)
		_, err = ec2.NewFromConfig(config).DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		return look{*who.Account, *cluster.Cluster.CertificateAuthority.Data, code(err)}
	}
	own, others := look{"000000000000", "Y2E=", ""}, look{"999988887777", "b3RoZXI=", "InvalidInstanceID.NotFound"}
	a.Reroute("plumbline", wrong)
	if got := see("plumbline"); got != others {
		t.Errorf("with the wrong credentials: %+v", got)
	}
	if got := see("karpenter"); got != own {
		t.Errorf("others are rerouted, too: %+v", got)
	}
	a.Reroute("plumbline", nil)
	if got := see("plumbline"); got != own {
		t.Errorf("with the right ones again: %+v", got)
	}
}
