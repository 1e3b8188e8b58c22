package policy_test

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/tests/sandbox/awssim/policy"
)

const instance = "arn:aws:ec2:eu-west-1:111122223333:instance/i-0123456789abcdef0"

func context(pairs ...string) policy.Context {
	c := policy.Context{}
	for i := 0; i < len(pairs); i += 2 {
		c.Set(pairs[i], strings.Split(pairs[i+1], ",")...)
	}
	return c
}

// statement returns a policy with one statement.
func statement(text string) string {
	return `{"Version":"2012-10-17","Statement":{` + text + `}}`
}

func TestIdentity(t *testing.T) {
	const terminate = "ec2:TerminateInstances"
	for name, tc := range map[string]struct {
		policies []string
		action   string
		context  policy.Context
		want     policy.Decision
	}{
		"no policy":                  {nil, terminate, nil, policy.ImplicitDeny},
		"allowed":                    {[]string{statement(`"Effect":"Allow","Action":"ec2:TerminateInstances","Resource":"*"`)}, terminate, nil, policy.Allow},
		"actions have no case":       {[]string{statement(`"Effect":"Allow","Action":"EC2:terminateinstances","Resource":"*"`)}, terminate, nil, policy.Allow},
		"another action":             {[]string{statement(`"Effect":"Allow","Action":"ec2:Describe*","Resource":"*"`)}, terminate, nil, policy.ImplicitDeny},
		"a wildcard":                 {[]string{statement(`"Effect":"Allow","Action":["ec2:Run*","ec2:Term?nate*"],"Resource":"*"`)}, terminate, nil, policy.Allow},
		"all but":                    {[]string{statement(`"Effect":"Allow","NotAction":"iam:*","Resource":"*"`)}, terminate, nil, policy.Allow},
		"all but this":               {[]string{statement(`"Effect":"Allow","NotAction":"ec2:Terminate*","Resource":"*"`)}, terminate, nil, policy.ImplicitDeny},
		"a resource":                 {[]string{statement(`"Effect":"Allow","Action":"*","Resource":"arn:aws:ec2:*:*:instance/*"`)}, terminate, nil, policy.Allow},
		"another resource":           {[]string{statement(`"Effect":"Allow","Action":"*","Resource":"arn:aws:ec2:*:*:volume/*"`)}, terminate, nil, policy.ImplicitDeny},
		"all resources but":          {[]string{statement(`"Effect":"Allow","Action":"*","NotResource":"arn:aws:ec2:*:*:instance/*"`)}, terminate, nil, policy.ImplicitDeny},
		"a deny wins":                {[]string{statement(`"Effect":"Allow","Action":"*","Resource":"*"`), statement(`"Effect":"Deny","Action":"ec2:Terminate*","Resource":"*"`)}, terminate, nil, policy.ExplicitDeny},
		"a deny that does not apply": {[]string{statement(`"Effect":"Allow","Action":"*","Resource":"*"`), statement(`"Effect":"Deny","Action":"*","Resource":"*","Condition":{"StringEquals":{"aws:RequestedRegion":"us-east-1"}}`)}, terminate, context("aws:RequestedRegion", "eu-west-1"), policy.Allow},
	} {
		t.Run(name, func(t *testing.T) {
			var documents []policy.Document
			for _, text := range tc.policies {
				d, err := policy.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				documents = append(documents, d)
			}
			if got := policy.Identity(documents, policy.Request{Action: tc.action, Resource: instance, Context: tc.context}); got != tc.want {
				t.Errorf("decision %d, want %d", got, tc.want)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	for name, tc := range map[string]struct {
		condition string
		context   policy.Context
		want      bool
	}{
		"equal":                        {`"StringEquals":{"aws:ResourceTag/team":"data"}`, context("aws:ResourceTag/team", "data"), true},
		"keys have no case":            {`"StringEquals":{"AWS:resourcetag/TEAM":"data"}`, context("aws:ResourceTag/team", "data"), true},
		"values have":                  {`"StringEquals":{"aws:ResourceTag/team":"Data"}`, context("aws:ResourceTag/team", "data"), false},
		"values without case":          {`"StringEqualsIgnoreCase":{"aws:ResourceTag/team":"Data"}`, context("aws:ResourceTag/team", "data"), true},
		"one of several":               {`"StringEquals":{"aws:ResourceTag/team":["web","data"]}`, context("aws:ResourceTag/team", "data"), true},
		"no wildcard in equal":         {`"StringEquals":{"aws:ResourceTag/team":"d*"}`, context("aws:ResourceTag/team", "data"), false},
		"a wildcard":                   {`"StringLike":{"aws:ResourceTag/team":"d*"}`, context("aws:ResourceTag/team", "data"), true},
		"absent":                       {`"StringLike":{"aws:ResourceTag/team":"*"}`, context(), false},
		"absent, if it exists":         {`"StringEqualsIfExists":{"aws:ResourceTag/team":"data"}`, context(), true},
		"other, if it exists":          {`"StringEqualsIfExists":{"aws:ResourceTag/team":"data"}`, context("aws:ResourceTag/team", "web"), false},
		"not equal":                    {`"StringNotEquals":{"aws:ResourceTag/team":["web","data"]}`, context("aws:ResourceTag/team", "data"), false},
		"not equal, absent":            {`"StringNotEquals":{"aws:ResourceTag/team":"data"}`, context(), true},
		"two keys, one holds":          {`"StringEquals":{"aws:ResourceTag/team":"data","aws:ResourceTag/env":"prod"}`, context("aws:ResourceTag/team", "data"), false},
		"two operators":                {`"StringEquals":{"aws:ResourceTag/team":"data"},"Null":{"aws:ResourceTag/env":"true"}`, context("aws:ResourceTag/team", "data"), true},
		"null, present":                {`"Null":{"aws:ResourceTag/team":"true"}`, context("aws:ResourceTag/team", "data"), false},
		"not null, present":            {`"Null":{"aws:ResourceTag/team":"false"}`, context("aws:ResourceTag/team", "data"), true},
		"bool":                         {`"Bool":{"aws:SecureTransport":true}`, context("aws:SecureTransport", "true"), true},
		"all values":                   {`"ForAllValues:StringEquals":{"aws:TagKeys":["Name","team"]}`, context("aws:TagKeys", "Name,team"), true},
		"all values, one more":         {`"ForAllValues:StringEquals":{"aws:TagKeys":["Name"]}`, context("aws:TagKeys", "Name,team"), false},
		"all values of none":           {`"ForAllValues:StringEquals":{"aws:TagKeys":["Name"]}`, context(), true},
		"any value":                    {`"ForAnyValue:StringEquals":{"aws:TagKeys":["Name"]}`, context("aws:TagKeys", "Name,team"), true},
		"any value of none":            {`"ForAnyValue:StringEquals":{"aws:TagKeys":["Name"]}`, context(), false},
		"an ARN":                       {`"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::*:role/Karpenter*"}`, context("aws:PrincipalArn", "arn:aws:iam::111122223333:role/KarpenterRole"), true},
		"a wildcard within a part":     {`"ArnLike":{"aws:PrincipalArn":"arn:aws:iam:*:role/KarpenterRole"}`, context("aws:PrincipalArn", "arn:aws:iam::111122223333:role/KarpenterRole"), false},
		"a variable":                   {`"StringEquals":{"aws:ResourceTag/team":"${aws:PrincipalTag/team}"}`, context("aws:ResourceTag/team", "data", "aws:PrincipalTag/team", "data"), true},
		"a variable that is absent":    {`"StringEquals":{"aws:ResourceTag/team":"${aws:PrincipalTag/team}"}`, context("aws:ResourceTag/team", "data"), false},
		"a variable with a default":    {`"StringEquals":{"aws:ResourceTag/team":"${aws:PrincipalTag/team, 'data'}"}`, context("aws:ResourceTag/team", "data"), true},
		"a variable's value is itself": {`"StringLike":{"aws:ResourceTag/team":"${aws:PrincipalTag/team}"}`, context("aws:ResourceTag/team", "data", "aws:PrincipalTag/team", "*"), false},
		"a star itself":                {`"StringLike":{"aws:ResourceTag/team":"${*}"}`, context("aws:ResourceTag/team", "data"), false},
		"a number":                     {`"NumericLessThan":{"s3:max-keys":"10"}`, context("s3:max-keys", "9"), true},
		"a date":                       {`"DateGreaterThan":{"aws:CurrentTime":"2026-01-01T00:00:00Z"}`, context("aws:CurrentTime", "2026-05-01T12:00:00Z"), true},
		"an address":                   {`"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}`, context("aws:SourceIp", "10.1.2.3"), true},
		"no such address":              {`"NotIpAddress":{"aws:SourceIp":"10.0.0.0/8"}`, context("aws:SourceIp", "10.1.2.3"), false},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := policy.Parse(statement(`"Effect":"Allow","Action":"*","Resource":"*","Condition":{` + tc.condition + `}`))
			if err != nil {
				t.Fatal(err)
			}
			got := policy.Identity([]policy.Document{d}, policy.Request{Action: "ec2:TerminateInstances", Resource: instance, Context: tc.context})
			if (got == policy.Allow) != tc.want {
				t.Errorf("decision %d, want allowed: %v", got, tc.want)
			}
		})
	}
}

func TestTrust(t *testing.T) {
	d, err := policy.Parse(`{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Principal":{"Service":"pods.eks.amazonaws.com"},"Action":["sts:AssumeRole","sts:TagSession"]},
		{"Effect":"Allow","Principal":{"Federated":"arn:aws:iam::111122223333:oidc-provider/oidc"},"Action":"sts:AssumeRoleWithWebIdentity",
		 "Condition":{"StringEquals":{"oidc:aud":"sts.amazonaws.com","oidc:sub":"system:serviceaccount:a:b"}}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string][]string{"Service": {"pods.eks.amazonaws.com"}}
	provider := map[string][]string{"Federated": {"arn:aws:iam::111122223333:oidc-provider/oidc"}}
	for name, tc := range map[string]struct {
		request policy.Request
		want    policy.Decision
	}{
		"the service":      {policy.Request{Action: "sts:AssumeRole", Caller: pods}, policy.Allow},
		"another service":  {policy.Request{Action: "sts:AssumeRole", Caller: map[string][]string{"Service": {"ec2.amazonaws.com"}}}, policy.ImplicitDeny},
		"another action":   {policy.Request{Action: "sts:AssumeRoleWithWebIdentity", Caller: pods}, policy.ImplicitDeny},
		"the right token":  {policy.Request{Action: "sts:AssumeRoleWithWebIdentity", Caller: provider, Context: context("oidc:aud", "sts.amazonaws.com", "oidc:sub", "system:serviceaccount:a:b")}, policy.Allow},
		"another audience": {policy.Request{Action: "sts:AssumeRoleWithWebIdentity", Caller: provider, Context: context("oidc:aud", "else", "oidc:sub", "system:serviceaccount:a:b")}, policy.ImplicitDeny},
		"another subject":  {policy.Request{Action: "sts:AssumeRoleWithWebIdentity", Caller: provider, Context: context("oidc:aud", "sts.amazonaws.com", "oidc:sub", "system:serviceaccount:a:c")}, policy.ImplicitDeny},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policy.Trust(d, tc.request); got != tc.want {
				t.Errorf("decision %d, want %d", got, tc.want)
			}
		})
	}
}

func TestWhatIsNotUnderstoodIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":            `{`,
		"no statement":       `{"Version":"2012-10-17","Statement":[]}`,
		"another version":    `{"Version":"2020-01-01","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`,
		"an unknown effect":  statement(`"Effect":"Maybe","Action":"*","Resource":"*"`),
		"no action":          statement(`"Effect":"Allow","Resource":"*"`),
		"both actions":       statement(`"Effect":"Allow","Action":"*","NotAction":"iam:*","Resource":"*"`),
		"both resources":     statement(`"Effect":"Allow","Action":"*","Resource":"*","NotResource":"x"`),
		"an unknown element": statement(`"Effect":"Allow","Action":"*","Resource":"*","Colour":"red"`),
		"unknown operator":   statement(`"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringResembles":{"a":"b"}}`),
		"a value of no kind": statement(`"Effect":"Allow","Action":{"a":1},"Resource":"*"`),
	} {
		if _, err := policy.Parse(text); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
