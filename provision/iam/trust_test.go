package iam

import (
	"strings"
	"testing"
)

func TestTrusts(t *testing.T) {
	const clusterARN = "arn:aws:eks:eu-west-1:111122223333:cluster/prod"
	pod := PodIdentity(clusterARN, "111122223333", "kube-system", "karpenter", "prod")
	web := WebIdentity("aws", "111122223333", "oidc.example.com/id/A", "kube-system", "karpenter")
	send := EventBridge("arn:aws:sqs:eu-west-1:111122223333:prod", "arn:aws:events:eu-west-1:111122223333:rule/one", "111122223333")
	statement := func(rest string) string {
		return `{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", ` + rest + `}]}`
	}
	const pods = `"Principal": {"Service": "pods.eks.amazonaws.com"}, "Action": ["sts:AssumeRole", "sts:TagSession"]`
	const provider = `"Principal": {"Federated": "arn:aws:iam::111122223333:oidc-provider/oidc.example.com/id/A"}, "Action": "sts:AssumeRoleWithWebIdentity"`
	for name, c := range map[string]struct {
		by     Assumption
		policy string
		want   Decision
		// says is the denied action, or part of the reason.
		says string
	}{
		"pod identity":           {pod, statement(pods), Allowed, ""},
		"of this namespace":      {pod, statement(pods + `, "Condition": {"StringEquals": {"aws:RequestTag/kubernetes-namespace": "kube-system"}}`), Allowed, ""},
		"of another namespace":   {pod, statement(pods + `, "Condition": {"StringEquals": {"aws:RequestTag/kubernetes-namespace": "other"}}`), Denied, "sts:AssumeRole"},
		"of this cluster":        {pod, statement(pods + `, "Condition": {"StringLike": {"AWS:sourcearn": "*:cluster/prod"}}`), Allowed, ""},
		"of another cluster":     {pod, statement(pods + `, "Condition": {"StringEquals": {"aws:SourceArn": "arn:other"}}`), Denied, "sts:AssumeRole"},
		"without tags":           {pod, statement(strings.Replace(pods, `, "sts:TagSession"`, "", 1)), Denied, "sts:TagSession"},
		"any action":             {pod, statement(strings.Replace(pods, `["sts:AssumeRole", "sts:TagSession"]`, `"sts:*"`, 1)), Allowed, ""},
		"a key that is unknown":  {pod, statement(pods + `, "Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}`), Unknown, "aws:PrincipalOrgID"},
		"an unknown operator":    {pod, statement(pods + `, "Condition": {"BinaryEquals": {"aws:SourceArn": "*"}}`), Unknown, "BinaryEquals"},
		"a pattern of clusters":  {pod, statement(pods + `, "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:eks:*:111122223333:cluster/*"}}`), Allowed, ""},
		"another pattern":        {pod, statement(pods + `, "Condition": {"ArnEquals": {"aws:SourceArn": "arn:aws:eks:*:444455556666:cluster/*"}}`), Denied, "sts:AssumeRole"},
		"everybody":              {pod, statement(`"Principal": "*", "Action": "*"`), Allowed, ""},
		"another principal":      {pod, statement(`"NotPrincipal": {"Service": "ec2.amazonaws.com"}, "Action": "*"`), Unknown, "NotPrincipal"},
		"a Deny":                 {pod, statement(pods + `}, {"Effect": "Deny", "Principal": "*", "Action": "sts:TagSession"`), Denied, "sts:TagSession"},
		"web identity":           {web, statement(provider), Allowed, ""},
		"of this ServiceAccount": {web, statement(provider + `, "Condition": {"StringEquals": {"oidc.example.com/id/A:sub": "system:serviceaccount:kube-system:karpenter", "oidc.example.com/id/A:aud": "sts.amazonaws.com"}}`), Allowed, ""},
		"of another one":         {web, statement(provider + `, "Condition": {"StringEquals": {"oidc.example.com/id/A:sub": "system:serviceaccount:default:karpenter"}}`), Denied, "sts:AssumeRoleWithWebIdentity"},
		"by another provider":    {web, statement(strings.Replace(provider, "id/A", "id/B", 1)), Denied, "sts:AssumeRoleWithWebIdentity"},
		"by a service":           {web, statement(pods), Denied, "sts:AssumeRoleWithWebIdentity"},
		"a queue":                {send, statement(`"Principal": {"Service": ["events.amazonaws.com"]}, "Action": "sqs:SendMessage", "Resource": "arn:aws:sqs:eu-west-1:111122223333:prod"`), Allowed, ""},
		"another queue":          {send, statement(`"Principal": {"Service": ["events.amazonaws.com"]}, "Action": "sqs:SendMessage", "Resource": "arn:aws:sqs:eu-west-1:111122223333:other"`), Denied, "sqs:SendMessage"},
		"only with TLS":          {send, statement(`"Principal": {"Service": ["events.amazonaws.com"]}, "Action": "sqs:SendMessage", "Resource": "*"}, {"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}`), Allowed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer, action, err := Trusts(c.policy, c.by)
			if err != nil || answer.Decision != c.want || !strings.Contains(action+answer.Reason, c.says) || c.says == "" && action != "" {
				t.Errorf("%+v %q, error %v, want %s %q", answer, action, err, c.want, c.says)
			}
		})
	}
	if _, _, err := Trusts(`{"Statement": [{"Effect": "Allow", "Principals": "*"}]}`, pod); err == nil {
		t.Error("an unknown element is accepted")
	}
}
