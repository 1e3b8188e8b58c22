package awssim_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/google/go-cmp/cmp"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim"
)

// TestInstanceProfile makes the calls of Karpenter for an EC2NodeClass.
func TestInstanceProfile(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	client, name := a.iam(), aws.String("prod_4067990795380418201")
	nodeRole := aws.String("KarpenterNodeRole-prod")

	_, err := client.GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "NoSuchEntity")
	path := aws.String("/karpenter/eu-west-1/prod/uid/")
	_, err = client.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{
		InstanceProfileName: name, Path: path,
		Tags: []types.Tag{{Key: aws.String("kubernetes.io/cluster/prod"), Value: aws.String("owned")}},
	})
	noError(t, err)
	_, err = client.CreateInstanceProfile(t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "EntityAlreadyExists")
	_, err = client.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: aws.String("nobody")})
	wantCode(t, err, "NoSuchEntity")
	if err == nil || !strings.Contains(err.Error(), "role") {
		t.Errorf("error = %v; Karpenter tells a missing role from a missing profile by the word role", err)
	}
	_, err = client.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: nodeRole})
	noError(t, err)
	_, err = client.AddRoleToInstanceProfile(t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: name, RoleName: nodeRole})
	wantCode(t, err, "LimitExceeded")

	list, err := client.ListInstanceProfiles(t.Context(), &iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/eu-west-1/prod/")})
	noError(t, err)
	if len(list.InstanceProfiles) != 1 || *list.InstanceProfiles[0].Roles[0].RoleName != *nodeRole || len(list.InstanceProfiles[0].Tags) != 0 {
		t.Errorf("profiles = %v, want one with the node role, and no tags, which IAM does not list", list.InstanceProfiles)
	}
	one, err := client.GetInstanceProfile(t.Context(), &iam.GetInstanceProfileInput{InstanceProfileName: name})
	noError(t, err)
	if len(one.InstanceProfile.Tags) != 1 {
		t.Errorf("profile = %v, want its tag", one.InstanceProfile)
	}
	list, err = client.ListInstanceProfiles(t.Context(), &iam.ListInstanceProfilesInput{PathPrefix: aws.String("/karpenter/eu-west-1/staging/")})
	noError(t, err)
	if len(list.InstanceProfiles) != 0 {
		t.Errorf("profiles of another cluster = %v, want none", list.InstanceProfiles)
	}
	if diff := cmp.Diff([]string{*name}, a.Left(clusterName).InstanceProfiles); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}

	_, err = client.DeleteInstanceProfile(t.Context(), &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	wantCode(t, err, "DeleteConflict")
	_, err = client.RemoveRoleFromInstanceProfile(t.Context(), &iam.RemoveRoleFromInstanceProfileInput{InstanceProfileName: name, RoleName: nodeRole})
	noError(t, err)
	_, err = client.DeleteInstanceProfile(t.Context(), &iam.DeleteInstanceProfileInput{InstanceProfileName: name})
	noError(t, err)
	if left := a.Left(clusterName); !left.Empty() {
		t.Errorf("left: %s", left)
	}
}

func TestRoles(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	got, err := a.iam().GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("KarpenterNodeRole-prod")})
	noError(t, err)
	if want := "arn:aws:iam::000000000000:role/KarpenterNodeRole-prod"; *got.Role.Arn != want {
		t.Errorf("ARN = %s, want %s", *got.Role.Arn, want)
	}
	trust, err := url.QueryUnescape(aws.ToString(got.Role.AssumeRolePolicyDocument))
	if err != nil || !strings.Contains(trust, "ec2.amazonaws.com") {
		t.Errorf("trust = %q (%v), want ec2.amazonaws.com in it", trust, err)
	}
	policies, err := a.iam().ListAttachedRolePolicies(t.Context(), &iam.ListAttachedRolePoliciesInput{RoleName: got.Role.RoleName})
	noError(t, err)
	if n := len(policies.AttachedPolicies); n != 4 {
		t.Errorf("%d policies, want 4", n)
	}
	_, err = a.iam().GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("KarpenterNodeRole-staging")})
	wantCode(t, err, "NoSuchEntity")
	roles := iam.NewListRolesPaginator(a.iam(), &iam.ListRolesInput{MaxItems: aws.Int32(1)})
	n := 0
	for roles.HasMorePages() {
		out, err := roles.NextPage(t.Context())
		noError(t, err)
		n += len(out.Roles)
	}
	if n != 4 { // those of the cluster, its nodes, Karpenter and EC2 Spot
		t.Errorf("%d roles, want 4", n)
	}
}

func TestCallerIdentity(t *testing.T) {
	a := newAccount(t, awssim.Options{})
	a.RegisterCredentials("karpenter", "KarpenterControllerRole-prod")
	who := func(accessKey string) string {
		t.Helper()
		out, err := sts.NewFromConfig(a.config(accessKey)).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
		noError(t, err)
		return *out.Arn
	}
	if got, want := who("tester"), "arn:aws:iam::000000000000:user/tester"; got != want {
		t.Errorf("an access key is %s, want %s", got, want)
	}
	if got, want := who("karpenter"), "arn:aws:sts::000000000000:assumed-role/KarpenterControllerRole-prod/karpenter"; got != want {
		t.Errorf("a registered access key is %s, want %s", got, want)
	}
}
