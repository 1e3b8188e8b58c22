package iam

import (
	"fmt"
	"slices"
)

// volumeKeyActions are those that a role needs to launch instances with volumes that a KMS key of the customer encrypts:
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html. EC2 makes the requests on behalf of the
// role.
var volumeKeyActions = []string{"kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext"}

// VolumeKey is a KMS key that encrypts volumes of instances.
type VolumeKey struct {
	// ARN of the key, and Policy is the JSON of its policy.
	ARN, Policy string
	// Region is that of EC2.
	Region string
}

// keys are the condition keys of requests that EC2 makes for a role of an account.
func (k VolumeKey) keys(account string) map[string]string {
	return map[string]string{"kms:ViaService": "ec2." + k.Region + ".amazonaws.com", "kms:CallerAccount": account}
}

// Allows decides whether a role may launch instances with volumes that the key encrypts, and returns the action that it may
// not do. The key's policy allows that to the role, or it allows that to the account of the role and the role's policies allow it:
// https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html. Errors: the key's policy cannot be parsed.
func (k VolumeKey) Allows(partition, account, roleARN string, policies, limits []Document) (answer Answer, action string, err error) {
	root := fmt.Sprintf("arn:%s:iam::%s:root", partition, account)
	decide := within(policies, limits)
	// What is denied with every permission is denied explicitly, or by a limit.
	everything := Document{Statement: statements{{Effect: Allow, Action: Values{anything}, Resource: Values{anything}}}}
	forbids := within(append(slices.Clone(policies), everything), limits)
	for _, action := range volumeKeyActions {
		keys := k.keys(account)
		if action == "kms:CreateGrant" {
			keys["kms:GrantIsForAWSResource"] = "true"
		}
		by := Assumption{Kind: "AWS", Principal: roleARN, Also: root, Actions: []string{action}, Resource: k.ARN, Keys: keys}
		direct, _, err := Trusts(k.Policy, by)
		if err != nil {
			return Answer{}, "", err
		}
		by.Principal, by.Also = root, roleARN
		delegated, _, err := Trusts(k.Policy, by)
		if err != nil {
			return Answer{}, "", err
		}
		request := Request{Action: action, Resource: k.ARN, Region: k.Region, Keys: keys}
		if answer := forbids(request).and(direct.or(delegated.and(decide(request)))); answer.Decision != Allowed {
			return answer, action, nil
		}
	}
	return Answer{Decision: Allowed}, "", nil
}

// or and and combine answers; the reason of what is unknown stays.
func (a Answer) or(b Answer) Answer {
	switch {
	case a.Decision == Allowed || b.Decision == Denied:
		return a
	case b.Decision == Allowed || a.Decision == Denied:
		return b
	}
	return a
}

func (a Answer) and(b Answer) Answer {
	switch {
	case a.Decision == Denied || b.Decision == Allowed:
		return a
	case b.Decision == Denied || a.Decision == Allowed:
		return b
	}
	return a
}

// VolumeKeyStatement allows a role to use keys for the volumes of instances.
func VolumeKeyStatement(region string, keys ...string) Statement {
	return Statement{
		Sid: "UseVolumeKeys", Effect: Allow, Action: volumeKeyActions, Resource: keys,
		Condition: Condition{"StringEquals": {"kms:ViaService": {"ec2." + region + ".amazonaws.com"}}},
	}
}
