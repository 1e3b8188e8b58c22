package iam

import (
	"strings"
	"testing"
)

func TestVolumeKey(t *testing.T) {
	const (
		role      = "arn:aws:iam::111122223333:role/karpenter"
		delegates = `{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:root"},"Action":"kms:*","Resource":"*"}`
		mayUse    = `{"Effect":"Allow","Action":["kms:CreateGrant","kms:Decrypt","kms:DescribeKey","kms:GenerateDataKey*"],"Resource":"*","Condition":{"StringEquals":{"kms:ViaService":"ec2.eu-west-1.amazonaws.com"}}}`
		nothing   = `{"Effect":"Allow","Action":"ec2:*","Resource":"*"}`
	)
	direct := func(actions string) string {
		return `{"Effect":"Allow","Principal":{"AWS":["` + role + `"]},"Action":[` + actions + `],"Resource":"*"}`
	}
	const all = `"kms:CreateGrant","kms:Decrypt","kms:DescribeKey","kms:GenerateDataKeyWithoutPlaintext"`
	for name, c := range map[string]struct {
		key, policy, limit string
		want               Decision
		action             string
	}{
		"the key delegates, and the role allows it": {delegates, mayUse, "", Allowed, ""},
		"by the ID of the account":                  {strings.Replace(delegates, "arn:aws:iam::111122223333:root", "111122223333", 1), mayUse, "", Allowed, ""},
		"only the key delegates":                    {delegates, nothing, "", Denied, "kms:CreateGrant"},
		"only the role allows it":                   {direct(`"kms:Encrypt"`), mayUse, "", Denied, "kms:CreateGrant"},
		"the key allows it to the role":             {direct(all), nothing, "", Allowed, ""},
		"one action is missing":                     {direct(`"kms:CreateGrant","kms:DescribeKey","kms:GenerateDataKeyWithoutPlaintext"`), nothing, "", Denied, "kms:Decrypt"},
		"to another role":                           {strings.Replace(direct(all), "role/karpenter", "role/other", 1), mayUse, "", Denied, "kms:CreateGrant"},
		"grants for AWS only": {
			direct(`"kms:Decrypt","kms:DescribeKey","kms:GenerateDataKeyWithoutPlaintext"`) +
				`,{"Effect":"Allow","Principal":"*","Action":"kms:CreateGrant","Resource":"*","Condition":{"Bool":{"kms:GrantIsForAWSResource":true}}}`,
			nothing, "", Allowed, "",
		},
		"everyone of the account by EC2": {
			`{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"kms:*","Resource":"*","Condition":{"StringEquals":{"kms:CallerAccount":"111122223333","kms:ViaService":"ec2.eu-west-1.amazonaws.com"}}}`,
			nothing, "", Allowed, "",
		},
		"in another region": {
			`{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"kms:*","Resource":"*","Condition":{"StringEquals":{"kms:ViaService":"ec2.us-east-1.amazonaws.com"}}}`,
			nothing, "", Denied, "kms:CreateGrant",
		},
		"the key denies it to the role": {
			delegates + `,{"Effect":"Deny","Principal":{"AWS":"` + role + `"},"Action":"kms:Decrypt","Resource":"*"}`, mayUse, "", Denied, "kms:Decrypt",
		},
		"the role denies what the key allows": {direct(all), `{"Effect":"Deny","Action":"kms:Decrypt","Resource":"*"}`, "", Denied, "kms:Decrypt"},
		"within a boundary":                   {delegates, mayUse, nothing, Denied, "kms:CreateGrant"},
		"a condition that is unknown": {
			`{"Effect":"Allow","Principal":{"AWS":"*"},"Action":"kms:*","Resource":"*","Condition":{"StringEquals":{"aws:PrincipalOrgID":"o-1"}}}`,
			nothing, "", Unknown, "kms:CreateGrant",
		},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(text string) []Document {
				if text == "" {
					return nil
				}
				return []Document{parsed(t, `{"Version":"2012-10-17","Statement":[`+text+`]}`)}
			}
			key := VolumeKey{ARN: "arn:aws:kms:eu-west-1:111122223333:key/k", Region: "eu-west-1", Policy: `{"Version":"2012-10-17","Statement":[` + c.key + `]}`}
			got, action, err := key.Allows("aws", "111122223333", role, of(c.policy), of(c.limit))
			if err != nil || got.Decision != c.want || action != c.action || (got.Reason != "") != (c.want == Unknown) {
				t.Errorf("%+v, action %q, error %v; want %s, %q", got, action, err, c.want, c.action)
			}
		})
	}
	if _, _, err := (VolumeKey{Policy: "{"}).Allows("aws", "111122223333", role, nil, nil); err == nil {
		t.Error("a policy that cannot be parsed is accepted")
	}
}
