package iam

import "strings"

// anything is the resource of an action that has no resource types, and the pattern that matches it.
const anything = "*"

// resourceTypes are the actions that requests may be about, with the type of their resource: those of Karpenter's
// controller and of plumbline. An action with no type is authorized for *; a policy must allow it for all resources:
// https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
var resourceTypes = map[string]string{
	"arc-zonal-shift:GetManagedResource": "cluster",
	"cloudtrail:LookupEvents":            "",
	"ec2:CreateFleet":                    "fleet and what it launches",
	"ec2:CreateLaunchTemplate":           "launch-template",
	"ec2:CreateTags":                     "any",
	"ec2:DeleteLaunchTemplate":           "launch-template",
	"ec2:DeleteNetworkInterface":         "network-interface",
	"ec2:DeleteVolume":                   "volume",
	"ec2:DescribeCapacityReservations":   "",
	"ec2:DescribeImages":                 "",
	"ec2:DescribeInstanceAttribute":      "instance",
	"ec2:DescribeInstanceStatus":         "",
	"ec2:DescribeInstanceTypeOfferings":  "",
	"ec2:DescribeInstanceTypes":          "",
	"ec2:DescribeInstances":              "",
	"ec2:DescribeLaunchTemplates":        "",
	"ec2:DescribeNetworkInterfaces":      "",
	"ec2:DescribePlacementGroups":        "",
	"ec2:DescribeSecurityGroups":         "",
	"ec2:DescribeSpotPriceHistory":       "",
	"ec2:DescribeSubnets":                "",
	"ec2:DescribeVolumes":                "",
	"ec2:DescribeVpcEndpoints":           "",
	"ec2:ModifyInstanceAttribute":        "instance",
	"ec2:RebootInstances":                "instance",
	"ec2:RunInstances":                   "instance and what it is launched with",
	"ec2:TerminateInstances":             "instance",
	"ec2:DescribeRouteTables":            "",
	"eks:DescribeAccessEntry":            "access-entry",
	"eks:DescribeAddon":                  "addon",
	"eks:DescribeCluster":                "cluster",
	"eks:DescribePodIdentityAssociation": "podidentityassociation",
	"eks:ListAddons":                     "cluster",
	"eks:ListClusters":                   "",
	"eks:ListInsights":                   "cluster",
	"eks:ListPodIdentityAssociations":    "cluster",
	"events:DescribeRule":                "rule",
	"events:ListRuleNamesByTarget":       "rule",
	"iam:AddRoleToInstanceProfile":       "instance-profile",
	"iam:CreateInstanceProfile":          "instance-profile",
	"iam:DeleteInstanceProfile":          "instance-profile",
	"iam:GetInstanceProfile":             "instance-profile",
	"iam:GetPolicy":                      "policy",
	"iam:GetPolicyVersion":               "policy",
	"iam:GetRole":                        "role",
	"iam:GetRolePolicy":                  "role",
	"iam:ListAttachedRolePolicies":       "role",
	"iam:ListInstanceProfiles":           "instance-profile",
	"iam:ListRolePolicies":               "role",
	"iam:PassRole":                       "role",
	"iam:RemoveRoleFromInstanceProfile":  "instance-profile",
	"iam:TagInstanceProfile":             "instance-profile",
	"kms:Decrypt":                        "key",
	"kms:DescribeKey":                    "key",
	"kms:GetKeyPolicy":                   "key",
	"pricing:GetProducts":                "",
	"servicequotas:ListServiceQuotas":    "",
	"sqs:DeleteMessage":                  "queue",
	"sqs:GetQueueAttributes":             "queue",
	"sqs:GetQueueUrl":                    "queue",
	"sqs:ReceiveMessage":                 "queue",
	"ssm:GetParameter":                   "parameter",
	"sts:DecodeAuthorizationMessage":     "",
	"sts:GetCallerIdentity":              "",
}

// Request is one question of AWS to IAM.
type Request struct {
	// Action as in a policy: ec2:TerminateInstances.
	Action string
	// Resource is an ARN. It is ignored if the action has no resource types.
	Resource string
	// Region is that of the endpoint, aws:RequestedRegion. IAM has one endpoint in each partition.
	Region string
	// RequestTags are those that the request sets.
	RequestTags map[string]string
	// ResourceTags are those that the resource has; if it is nil, they are unknown.
	ResourceTags map[string]string
	// Keys are the values of other condition keys: iam:PassedToService, ec2:CreateAction,
	// arc-zonal-shift:ResourceIdentifier.
	Keys map[string]string
}

// noTags are those of a resource that has none, or that the request creates.
var noTags = map[string]string{}

// otherKeys are the condition keys, in lower case, that Request.Keys may contain.
var otherKeys = map[string]bool{"iam:passedtoservice": true, "ec2:createaction": true, "arc-zonal-shift:resourceidentifier": true}

// value is a condition key of a request.
type value struct {
	// texts are its values; none if the request does not have the key.
	texts []string
	// multi is true if the key can have several values.
	multi bool
}

// key returns the value of a condition key; ok is false if it is unknown what a request has. Names of keys, including
// keys of tags, are not case-sensitive: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
func (r Request) key(name string) (v value, ok bool) {
	lower := strings.ToLower(name)
	service, _, _ := strings.Cut(r.Action, ":")
	of := func(tags map[string]string, tag string) (value, bool) {
		for key, text := range tags {
			if strings.EqualFold(key, tag) {
				return value{texts: []string{text}}, true
			}
		}
		return value{}, true
	}
	for prefix, tags := range map[string]map[string]string{
		"aws:requesttag/": r.RequestTags, "aws:resourcetag/": r.ResourceTags, service + ":resourcetag/": r.ResourceTags,
	} {
		if tag, found := strings.CutPrefix(lower, prefix); found {
			v, _ := of(tags, tag)
			return v, tags != nil || prefix == "aws:requesttag/"
		}
	}
	switch {
	case lower == "aws:requestedregion":
		return value{texts: []string{r.Region}}, r.Region != ""
	case lower == "aws:tagkeys":
		v := value{multi: true}
		for key := range r.RequestTags {
			v.texts = append(v.texts, key)
		}
		return v, true
	case otherKeys[lower]:
		return of(r.Keys, lower)
	}
	return value{}, false
}
