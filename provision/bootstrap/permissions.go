package bootstrap

import (
	"fmt"
	"maps"
	"slices"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// Permissions returns the policies of a user who bootstraps a cluster, undoes that, and writes the first definitions with
// plumbline init, together with those of plumbline doctor, which it does not repeat: what the commands call, and what
// CloudFormation calls with the user's permissions. Those are the permissions in the handlers of each resource type's schema:
// https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-template-resource-type-ref.html
// Everything that changes something is restricted to the names of the stack's resources, and to those that these get if the
// first is taken. Errors: as New.
func Permissions(s Spec) ([]iam.Policy, error) {
	s.Names, s.Adopted = nil, nil
	template, err := New(s)
	if err != nil {
		return nil, err
	}
	p := permissions{s, template}
	statements := slices.Concat(p.stack(), p.reads(), p.roles(), p.queue(), p.access(), p.tags())
	return iam.Split("PlumblineBootstrap", "plumbline bootstrap", s.Cluster, statements), nil
}

type permissions struct {
	Spec
	template Template
}

// named returns the ARNs of the template's resources of a type.
func (p permissions) named(resourceType, service, prefix string) iam.Values {
	var arns iam.Values
	for _, id := range slices.Sorted(maps.Keys(p.template.Resources)) {
		if p.template.Resources[id].Type == "AWS::"+resourceType {
			arns = append(arns, p.arn(service, prefix+p.Name(id)), p.arn(service, prefix+otherName(id, p.Cluster.Name)))
		}
	}
	return arns
}

// actions returns actions of a service.
func actions(service string, names ...string) iam.Values {
	all := make(iam.Values, 0, len(names))
	for _, name := range names {
		all = append(all, service+":"+name)
	}
	return all
}

func allow(sid string, actions, resources iam.Values) iam.Statement {
	return iam.Statement{Sid: sid, Effect: iam.Allow, Action: actions, Resource: resources}
}

func only(s iam.Statement, operator, key string, values ...string) iam.Statement {
	s.Condition = iam.Condition{operator: {key: values}}
	return s
}

func (p permissions) stack() []iam.Statement {
	return []iam.Statement{allow("ChangeTheStack", actions("cloudformation",
		"CreateChangeSet", "DescribeChangeSet", "ExecuteChangeSet", "DeleteChangeSet", "DescribeStacks", "DescribeStackEvents",
		"DescribeStackResources", "GetTemplate", "DeleteStack", "ContinueUpdateRollback", "TagResource",
	), iam.Values{p.arn("cloudformation", "stack/"+p.Stack()+"/*")})}
}

func (p permissions) reads() []iam.Statement {
	provider := p.arn("iam", "oidc-provider/*")
	if p.Issuer != "" {
		provider = p.ProviderARN()
	}
	return []iam.Statement{
		allow("KnowTheAccount", actions("sts", "GetCallerIdentity"), iam.Values{"*"}),
		allow("ReadRoles", actions("iam", "GetRole", "ListRolePolicies", "GetRolePolicy", "ListAttachedRolePolicies", "ListRoleTags"),
			iam.Values{p.arn("iam", "role/*")}),
		allow("ReadProvider", actions("iam", "GetOpenIDConnectProvider"), iam.Values{provider}),
		only(allow("SeeNodes", actions("ec2", "DescribeInstances", "DescribeLaunchTemplateVersions", "DescribeRouteTables",
			"DescribeSecurityGroups", "DescribeSubnets"), iam.Values{"*"}), "StringEquals", "aws:RequestedRegion", p.Cluster.Region),
		allow("SeeNodeGroups", actions("eks", "ListNodegroups", "DescribeNodegroup"), iam.Values{
			p.arn("eks", "cluster/"+p.Cluster.Name), p.arn("eks", "nodegroup/"+p.Cluster.Name+"/*"),
		}),
	}
}

// tags are about subnets and security groups, which are not the stack's: only the two tags of the cluster can be set, and only
// where the bootstrap has set them can they be deleted. A tag of another cluster cannot be replaced. Subnets may be shared by
// another account.
func (p permissions) tags() []iam.Statement {
	const ofRequest, ofResource = "aws:RequestTag/", "aws:ResourceTag/"
	var resources, keys iam.Values
	for _, kind := range []string{"security-group", "subnet"} {
		resources = append(resources, fmt.Sprintf("arn:%s:ec2:%s:*:%s/*", p.partition(), p.Cluster.Region, kind))
	}
	wanted, deletable := map[string]iam.Values{}, map[string]iam.Values{ofResource + Tag: {p.Stack()}}
	for _, key := range slices.Sorted(maps.Keys(p.DiscoveryTags())) {
		wanted[ofRequest+key], keys = iam.Values{p.DiscoveryTags()[key]}, append(keys, key)
	}
	set, unset := allow("SetDiscoveryTags", actions("ec2", "CreateTags"), resources), allow("DeleteDiscoveryTags", actions("ec2", "DeleteTags"), resources)
	set.Condition = iam.Condition{
		"StringEquals": wanted, "StringEqualsIfExists": {ofResource + DiscoveryTag: {p.Cluster.Name}},
		"ForAllValues:StringEquals": {"aws:TagKeys": keys},
	}
	unset.Condition = iam.Condition{"StringEquals": deletable, "ForAllValues:StringEquals": {"aws:TagKeys": keys}}
	return []iam.Statement{set, unset}
}

// roles are about IAM. Only the stack's own policies and those of AWS for nodes can be attached, and only EC2 and Pod Identity
// receive a role.
func (p permissions) roles() []iam.Statement {
	roles, policies := p.named("IAM::Role", "iam", "role/"), p.named("IAM::ManagedPolicy", "iam", "policy/")
	attached := slices.Clone(policies)
	for _, name := range nodePolicies {
		attached = append(attached, "arn:"+p.partition()+":iam::aws:policy/"+name)
	}
	services := []string{"pods.eks.amazonaws.com"}
	for _, by := range iam.EC2(p.partition()) {
		services = append(services, by.Principal)
	}
	spot := p.arn("iam", "role/aws-service-role/"+cloud.SpotService+"/"+cloud.SpotRole)
	return []iam.Statement{
		allow("ChangeRoles", actions("iam", "CreateRole", "DeleteRole", "UpdateRole", "UpdateRoleDescription", "UpdateAssumeRolePolicy",
			"TagRole", "UntagRole"), roles),
		only(allow("AttachPolicies", actions("iam", "AttachRolePolicy", "DetachRolePolicy"), roles), "ArnEquals", "iam:PolicyARN", attached...),
		only(allow("PassRoles", actions("iam", "PassRole"), roles), "StringEquals", "iam:PassedToService", services...),
		allow("ChangePolicies", actions("iam", "CreatePolicy", "DeletePolicy", "GetPolicy", "GetPolicyVersion", "CreatePolicyVersion",
			"DeletePolicyVersion", "ListPolicyVersions", "ListEntitiesForPolicy", "TagPolicy", "UntagPolicy"), policies),
		allow("ChangeProfile", actions("iam", "CreateInstanceProfile", "DeleteInstanceProfile", "GetInstanceProfile", "AddRoleToInstanceProfile",
			"RemoveRoleFromInstanceProfile", "TagInstanceProfile", "UntagInstanceProfile"),
			p.named("IAM::InstanceProfile", "iam", "instance-profile/")),
		only(allow("CreateSpotRole", actions("iam", "CreateServiceLinkedRole"), iam.Values{spot}),
			"StringEquals", "iam:AWSServiceName", cloud.SpotService),
	}
}

func (p permissions) queue() []iam.Statement {
	return []iam.Statement{
		allow("ChangeQueue", actions("sqs", "CreateQueue", "DeleteQueue", "GetQueueUrl", "GetQueueAttributes", "SetQueueAttributes",
			"TagQueue", "UntagQueue", "ListQueueTags"), p.named("SQS::Queue", "sqs", "")),
		allow("ChangeRules", actions("events", "PutRule", "DeleteRule", "DescribeRule", "PutTargets", "RemoveTargets", "ListTargetsByRule",
			"TagResource", "UntagResource", "ListTagsForResource"), p.named("Events::Rule", "events", "rule/")),
	}
}

// access is about the cluster: EKS names access entries and associations.
func (p permissions) access() []iam.Statement {
	name := p.Cluster.Name
	return []iam.Statement{allow("GiveAccess", actions("eks", "DescribeCluster", "ListAddons", "DescribeAddon", "ListPodIdentityAssociations",
		"CreatePodIdentityAssociation", "DescribePodIdentityAssociation", "UpdatePodIdentityAssociation", "DeletePodIdentityAssociation",
		"CreateAccessEntry", "DescribeAccessEntry", "UpdateAccessEntry", "DeleteAccessEntry", "ListAssociatedAccessPolicies",
		"TagResource", "UntagResource"),
		iam.Values{
			p.arn("eks", "cluster/"+name), p.arn("eks", "addon/"+name+"/*"), p.arn("eks", "podidentityassociation/"+name+"/*"),
			p.arn("eks", "access-entry/"+name+"/*"),
		})}
}

// otherName returns the name that a resource gets if its default one is taken.
func otherName(id, cluster string) string { return nameOf(id, cluster+otherSuffix) }

const otherSuffix = "-plumbline"
