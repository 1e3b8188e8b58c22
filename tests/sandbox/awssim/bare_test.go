package awssim_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// TestBareCluster: nothing is prepared for Karpenter in it: no roles, queue, tags, or role for spot instances.
func TestBareCluster(t *testing.T) {
	s := awssim.New(awssim.Options{Region: region})
	noError(t, s.AddCluster(awssim.Cluster{Name: clusterName, Version: "1.36", Bare: true}))
	a := serve(t, s)
	state := a.State()
	if diff := cmp.Diff([]string{"prod-cluster", "prod-nodegroup"}, state.Roles); diff != "" {
		t.Errorf("roles (-want +got):\n%s", diff)
	}
	if len(state.Queues)+len(state.Profiles) != 0 || len(state.Subnets) != 3 {
		t.Errorf("queues %v, profiles %v, subnets %v; want only subnets", state.Queues, state.Profiles, state.Subnets)
	}
	out, err := a.ec2().DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{Filters: []types.Filter{{
		Name:   aws.String("tag-key"),
		Values: []string{"karpenter.sh/discovery"},
	}}})
	noError(t, err)
	if len(out.Subnets) != 0 {
		t.Errorf("subnets with the discovery tag = %v, want none", out.Subnets)
	}
	client := eks.NewFromConfig(a.config("tester"))
	list, err := client.ListAddons(t.Context(), &eks.ListAddonsInput{ClusterName: aws.String(clusterName)})
	noError(t, err)
	if diff := cmp.Diff([]string{"coredns", "eks-pod-identity-agent", "kube-proxy", "vpc-cni"}, list.Addons); diff != "" {
		t.Errorf("add-ons (-want +got):\n%s", diff)
	}
	_, err = client.CreateAddon(t.Context(), &eks.CreateAddonInput{
		ClusterName: aws.String(clusterName),
		AddonName:   aws.String("aws-ebs-csi-driver"),
	})
	noError(t, err)
	_, err = client.CreateAddon(t.Context(), &eks.CreateAddonInput{
		ClusterName: aws.String(clusterName),
		AddonName:   aws.String("aws-ebs-csi-driver"),
	})
	wantCode(t, err, "ResourceInUseException")
}

// TestServiceLinkedRole: spot instances need the account's role for them, which can be created once.
func TestServiceLinkedRole(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.as(t, "linker", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:CreateServiceLinkedRole",
		"Resource":"arn:aws:iam::000000000000:role/aws-service-role/spot.amazonaws.com/AWSServiceRoleForEC2Spot",
		"Condition":{"StringEquals":{"iam:AWSServiceName":"spot.amazonaws.com"}}}]}`)
	client := iam.NewFromConfig(a.config("linker"))
	create := func() error {
		_, err := client.CreateServiceLinkedRole(t.Context(), &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String("spot.amazonaws.com")})
		return err
	}
	denial(t, create(), "InvalidInput", "AWSServiceRoleForEC2Spot has been taken")
	noError(t, a.SetRoleGone("AWSServiceRoleForEC2Spot", true))
	a.template(t, "amd64", types.ArchitectureValuesX8664)
	launch := func() *ec2.CreateFleetOutput {
		out, err := a.ec2().CreateFleet(t.Context(), a.fleetInput(t, "amd64", 1, types.DefaultTargetCapacityTypeSpot, pool{
			"m5.large",
			region + "a",
		}))
		noError(t, err)
		return out
	}
	if out := launch(); len(out.Errors) != 1 || *out.Errors[0].ErrorCode != "AuthFailure.ServiceLinkedRoleCreationNotPermitted" {
		t.Errorf("errors = %v, want that of the missing role", out.Errors)
	}
	noError(t, create())
	if out := launch(); len(out.Errors) != 0 || len(out.Instances) != 1 {
		t.Errorf("errors = %v, want an instance", out.Errors)
	}
	_, err := client.CreateServiceLinkedRole(t.Context(), &iam.CreateServiceLinkedRoleInput{AWSServiceName: aws.String("lex.amazonaws.com")})
	denial(t, err, "AccessDenied", "iam:CreateServiceLinkedRole on resource: arn:aws:iam::000000000000:role/aws-service-role/lex.amazonaws.com/")
}

// TestOIDCProvider: without the cluster's provider in IAM, its tokens are not accepted.
func TestOIDCProvider(t *testing.T) {
	a, tokens := newIssuedAccount(t)
	noError(t, a.AddRole(awssim.Role{Name: "irsa", Trust: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
		"Principal":{"Federated":"arn:aws:iam::000000000000:oidc-provider/oidc.example.com/id/A"},"Action":"sts:AssumeRoleWithWebIdentity"}]}`}))
	client := a.iam()
	list, err := client.ListOpenIDConnectProviders(t.Context(), &iam.ListOpenIDConnectProvidersInput{})
	noError(t, err)
	arn := aws.String("arn:aws:iam::000000000000:oidc-provider/oidc.example.com/id/A")
	if len(list.OpenIDConnectProviderList) != 1 || *list.OpenIDConnectProviderList[0].Arn != *arn {
		t.Fatalf("providers = %v, want the cluster's", list.OpenIDConnectProviderList)
	}
	path := file(t, tokens.token(t, "a", "b", "sts.amazonaws.com"))
	assume := func() error {
		provider := stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(a.config("nobody")), "arn:aws:iam::000000000000:role/irsa",
			stscreds.IdentityTokenFile(path))
		_, err := provider.Retrieve(t.Context())
		return err
	}
	noError(t, assume())
	_, err = client.DeleteOpenIDConnectProvider(t.Context(), &iam.DeleteOpenIDConnectProviderInput{OpenIDConnectProviderArn: arn})
	noError(t, err)
	wantCode(t, assume(), "InvalidIdentityToken")
	_, err = client.GetOpenIDConnectProvider(t.Context(), &iam.GetOpenIDConnectProviderInput{OpenIDConnectProviderArn: arn})
	wantCode(t, err, "NoSuchEntity")
	in := &iam.CreateOpenIDConnectProviderInput{Url: aws.String("https://oidc.example.com/id/A"), ClientIDList: []string{"sts.amazonaws.com"}}
	_, err = client.CreateOpenIDConnectProvider(t.Context(), in)
	noError(t, err)
	_, err = client.CreateOpenIDConnectProvider(t.Context(), in)
	wantCode(t, err, "EntityAlreadyExists")
	noError(t, assume())
}

// TestAuthenticationMode: a cluster that knows only aws-auth has no access entries.
func TestAuthenticationMode(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	client := eks.NewFromConfig(a.config("tester"))
	create := func(principal string) error {
		_, err := client.CreateAccessEntry(t.Context(), &eks.CreateAccessEntryInput{
			ClusterName:  aws.String(clusterName),
			PrincipalArn: aws.String(principal), Type: aws.String("EC2_LINUX"),
		})
		return err
	}
	wantCode(t, create("arn:aws:iam::000000000000:role/missing"), "InvalidParameterException")
	noError(t, a.SetAuthenticationMode(clusterName, awssim.AuthenticationConfigMap))
	wantCode(t, create("arn:aws:iam::000000000000:role/prod-cluster"), "InvalidRequestException")
	out, err := client.DescribeCluster(t.Context(), &eks.DescribeClusterInput{Name: aws.String(clusterName)})
	noError(t, err)
	if got := out.Cluster.AccessConfig.AuthenticationMode; got != "CONFIG_MAP" {
		t.Errorf("authentication mode = %s", got)
	}
}

// TestPassRole: associating a role needs iam:PassRole for EKS's pods.
func TestPassRole(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	const statement = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["eks:*","iam:GetRole"],"Resource":"*"}`
	const passes = `,{"Effect":"Allow","Action":"iam:PassRole","Resource":"*","Condition":{"StringEquals":{"iam:PassedToService":"pods.eks.amazonaws.com"}}}`
	a.as(t, "without", statement+`]}`)
	a.as(t, "with", statement+passes+`]}`)
	associate := func(key string) error {
		_, err := eks.NewFromConfig(a.config(key)).CreatePodIdentityAssociation(t.Context(), &eks.CreatePodIdentityAssociationInput{
			ClusterName: aws.String(clusterName), Namespace: aws.String("a"), ServiceAccount: aws.String("b"),
			RoleArn: aws.String("arn:aws:iam::000000000000:role/with"),
		})
		return err
	}
	denial(t, associate("without"), "AccessDeniedException", "iam:PassRole on resource: arn:aws:iam::000000000000:role/with")
	noError(t, associate("with"))
}
