package preflight

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// eksctlPolicy is a policy of the shape that eksctl writes: one statement, every resource, no condition.
const eksctlPolicy = `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Resource": "*", "Action": [
	"ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:RunInstances", "ec2:TerminateInstances", "ec2:DeleteLaunchTemplate",
	"ec2:DescribeInstances", "iam:PassRole", "ssm:GetParameter"]}]}`

func TestControllerRole(t *testing.T) {
	without := func(action string) func(*Observed) {
		return func(o *Observed) {
			policies := o.Grant.Of.Role.Policies
			for i := range policies {
				policies[i].Text = strings.ReplaceAll(policies[i].Text, `"`+action+`"`, `"s3:GetObject"`)
			}
		}
	}
	irsa := func(text string) func(*Observed) {
		return func(o *Observed) {
			o.Grant.Of.Association, o.Grant.Of.Role.Trust, o.Agent.Of = nil, text, false
		}
	}
	const federated = `{"Statement": [{"Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity",
		"Principal": {"Federated": "arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-west-1.amazonaws.com/id/ABC"},
		"Condition": {"StringEquals": {"oidc.eks.eu-west-1.amazonaws.com/id/ABC:sub": "system:serviceaccount:kube-system:karpenter"}}}]}`
	run(t, "controller-role", map[string]looked{
		"no termination": {without("ec2:TerminateInstances"), Problem, "do not allow ec2:TerminateInstances as Karpenter 1.15.0", `"Sid": "Terminate"`, ""},
		"no termination, of eksctl": {func(o *Observed) {
			without("ec2:TerminateInstances")(o)
			o.Grant.Of.Role.Tags = map[string]string{"alpha.eksctl.io/cluster-name": "prod"}
		}, Problem, "do not allow ec2:TerminateInstances", "eksctl update podidentityassociation -f FILE", ""},
		"no termination, of terraform-aws-eks": {func(o *Observed) {
			without("ec2:TerminateInstances")(o)
			p := &o.Grant.Of.Role.Policies[0]
			p.Name, p.Text = "KarpenterController-202611301200001234000000a1", strings.ReplaceAll(p.Text, `"Terminate"`, `"AllowScopedDeletion"`)
		}, Problem, "do not allow ec2:TerminateInstances", "iam_policy_statements = [{\n  sid       = \"Terminate\"", ""},
		"no queue":    {without("sqs:ReceiveMessage"), Problem, "needed for settings.interruptionQueue", "--queue", ""},
		"no profiles": {without("iam:CreateInstanceProfile"), Problem, "needed for EC2NodeClasses with spec.role", "CreateProfiles", ""},
		"no prices":   {without("pricing:GetProducts"), Warning, "needed for current prices", "ReadPrices", ""},
		"another ServiceAccount is trusted": {
			irsa(strings.ReplaceAll(federated, "kube-system:", "karpenter:")), Problem,
			"does not allow sts:AssumeRoleWithWebIdentity", "system:serviceaccount:kube-system:karpenter", "",
		},
		"another cluster is trusted": {irsa(strings.ReplaceAll(federated, "ABC", "DEF")), Problem, "oidc-provider/" + issuer, "Federated", ""},
		"IRSA":                       {irsa(federated), OK, "", "", ""},
		"IRSA with a pattern":        {irsa(strings.NewReplacer("StringEquals", "StringLike", "karpenter\"", "karp*\"").Replace(federated)), OK, "", "", ""},
		"no session tags": {
			func(o *Observed) { o.Grant.Of.Role.Trust = strings.ReplaceAll(trusted, `, "sts:TagSession"`, "") }, Problem,
			"does not allow sts:TagSession", "sts:TagSession", "",
		},
		"another service": {
			func(o *Observed) { o.Grant.Of.Role.Trust = strings.ReplaceAll(trusted, "pods.eks", "ec2") }, Problem,
			"does not allow sts:AssumeRole to pods.eks.amazonaws.com", "pods.eks.amazonaws.com", "",
		},
		"another cluster in the condition": {func(o *Observed) {
			o.Grant.Of.Role.Trust = strings.Replace(trusted, `"Action"`, `"Condition": {"StringEquals": {"aws:SourceArn": "arn:aws:eks:eu-west-1:111122223333:cluster/other"}}, "Action"`, 1)
		}, Problem, "does not allow sts:AssumeRole", "", ""},
		"a trust that is not evaluated": {func(o *Observed) {
			o.Grant.Of.Role.Trust = strings.Replace(trusted, `"Action"`, `"Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}, "Action"`, 1)
		}, Unknown, "aws:PrincipalOrgID", "", ""},
		"a role that no class names": {func(o *Observed) {
			o.NodeRoles, o.Classes.Of = nil, nil
			passes(o, "arn:aws:iam::111122223333:role/other")
		}, Warning, "no EC2NodeClass names a role yet", "PassNodeRole", ""},
		"no agent": {func(o *Observed) { o.Agent.Of = false }, Problem, "no add-on eks-pod-identity-agent", "aws eks create-addon", ""},
		"no role":  {func(o *Observed) { o.Grant.Of = cloud.Grant{} }, Unknown, "neither a Pod Identity association nor the annotation", "create-pod-identity-association", ""},
		"a boundary without termination": {func(o *Observed) {
			o.Grant.Of.Role.Boundary = &cloud.RolePolicy{ARN: "arn:b", Text: `{"Statement": [
				{"Effect": "Allow", "Action": "*", "Resource": "*"}, {"Effect": "Deny", "Action": "ec2:TerminateInstances", "Resource": "*"}]}`}
		}, Problem, "ec2:TerminateInstances", "", ""},
		"a policy that is not parsed": {func(o *Observed) { o.Grant.Of.Role.Policies[0].Text = `{"Statement": []}` }, Unknown, "it has no statement", "", ""},
		"a version that is unknown":   {func(o *Observed) { o.Version = "9.0.0" }, Unknown, "9.0.0", "", ""},
		"a role that does not exist": {func(o *Observed) {
			o.Grant.Of.Role, o.Grant.Err = cloud.Role{}, &cloud.NotFoundError{What: "IAM role x", Where: "here", Check: "its name"}
		}, Problem, "does not exist", "correct its name", ""},
		"denied": {func(o *Observed) {
			o.Grant.Of.Role = cloud.Role{Trust: trusted}
			o.Grant.Err = errors.Join(denied("iam:ListRolePolicies"), denied("iam:ListAttachedRolePolicies"))
		}, Unknown, "AWS denies iam:ListRolePolicies", "manifests/iam-policy-doctor.json", "iam:ListRolePolicies"},
		"associations denied": {func(o *Observed) {
			o.Grant = Value[cloud.Grant]{Err: denied("eks:ListPodIdentityAssociations")}
		}, Unknown, "AWS denies", "allow eks:ListPodIdentityAssociations on *", "eks:ListPodIdentityAssociations"},
		"no credentials": {func(o *Observed) {
			o.Grant = Value[cloud.Grant]{Err: &cloud.CredentialsError{}}
		}, Unknown, "no AWS credentials found", "AWS_PROFILE", ""},
		"add-ons denied": {func(o *Observed) { o.Agent = Value[bool]{Err: denied("eks:ListAddons")} }, Unknown, "AWS denies", "", "eks:ListAddons"},
	})
}

func TestControllerReach(t *testing.T) {
	replace := func(old, by string) func(*Observed) {
		return func(o *Observed) {
			policies := o.Grant.Of.Role.Policies
			for i := range policies {
				policies[i].Text = strings.ReplaceAll(policies[i].Text, old, by)
			}
		}
	}
	only := func(text string) func(*Observed) {
		return func(o *Observed) { o.Grant.Of.Role.Policies = []cloud.RolePolicy{{Name: "all", Text: text}} }
	}
	run(t, "controller-reach", map[string]looked{
		"eksctl's": {only(eksctlPolicy), Problem, "may terminate any instances of the account", `aws:ResourceTag/kubernetes.io/cluster/prod`, ""},
		"tags that are like anything": {only(`{"Statement": [{"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": "*",
			"Condition": {"StringLike": {"ec2:ResourceTag/kubernetes.io/cluster/prod": "*"}}}]}`), Problem, "shared with this cluster", "Terminate", ""},
		"any role":      {replace("role/"+nodeRole0, "role/*"), Problem, "may pass any role of the account to EC2", "PassNodeRole", ""},
		"any parameter": {replace("::parameter/aws/service/*", ":*:parameter/*"), Warning, "may read any parameter", "", ""},
		"within a boundary": {func(o *Observed) {
			only(eksctlPolicy)(o)
			o.Grant.Of.Role.Boundary = &cloud.RolePolicy{Name: "limit", Text: needed(t)[0].Text}
		}, OK, "", "", ""},
		"denied": {func(o *Observed) { o.Grant.Err = denied("iam:GetPolicyVersion") }, Unknown, "AWS denies", "iam:GetPolicyVersion", "iam:GetPolicyVersion"},
	})
}
