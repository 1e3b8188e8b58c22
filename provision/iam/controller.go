package iam

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// Policy is a managed policy.
type Policy struct {
	// Name is unique in the account: it contains the cluster's.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Characters is the document's size as IAM counts it, at most MaxCharacters.
	Characters int      `json:"characters"`
	Document   Document `json:"document"`
}

// subject is a group of statements; its name is that of the policy in Karpenter's getting-started guide.
type subject struct {
	name, description string
	statements        []Statement
}

// oldest is the first version whose permissions plumbline knows.
const oldest = "1.0.0"

// earlier are the first versions whose policy in the guide has an action, if that is before the version that
// karpenter.PermissionOf names: a feature gate that is off by default needs it.
var earlier = map[string]string{"ec2:DescribeCapacityReservations": "1.3.0"}

// Controller returns the policies that a version of Karpenter's controller needs in a cluster: one, or one for each
// subject if one would be larger than a managed policy may be. They allow the calls of the controller (KPA
// pkg/aws/sdk.go), under the conditions of the guide's policies (KPA website/content/en/v1.14/getting-started/
// getting-started-with-karpenter/cloudformation.yaml). Errors: an invalid cluster or version, or one
// whose permissions plumbline does not know.
func Controller(version string, c Cluster) ([]Policy, error) {
	subjects, err := controllerSubjects(version, c)
	if err != nil {
		return nil, err
	}
	return pack("KarpenterController", "Karpenter's controller", c, subjects), nil
}

func controllerSubjects(version string, c Cluster) ([]subject, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	if _, err := karpenter.Permissions(oldest, version); err != nil {
		return nil, err
	}
	if !karpenter.KnowsPermissions(version) {
		return nil, fmt.Errorf("version %s: this plumbline knows the permissions of Karpenter %s to %s", version, oldest, karpenter.Newest())
	}
	r := reference{Cluster: c, version: version}
	return []subject{
		{"NodeLifecycle", "launch, tag and terminate instances", r.nodeLifecycle()},
		{"IAMIntegration", "instance profiles, and the role of nodes", r.iamIntegration()},
		{"EKSIntegration", "describe the cluster", r.eksIntegration()},
		{"Interruption", "the interruption queue", r.interruption()},
		{"ZonalShift", "zonal shifts of the cluster", r.zonalShift()},
		{"ResourceDiscovery", "images, types, prices, networks", r.discovery()},
	}, nil
}

// reference builds the statements for a version.
type reference struct {
	Cluster
	version string
}

// needs reports whether the version needs an action.
func (r reference) needs(action string) bool {
	since := earlier[action]
	if p, found := karpenter.PermissionOf(action); found && since == "" {
		since = p.Since
	}
	return since == "" || !karpenter.Newer(since, r.version)
}

// actions returns those that the version needs.
func (r reference) actions(all ...string) Values {
	var needed Values
	for _, one := range all {
		if r.needs(one) {
			needed = append(needed, one)
		}
	}
	return needed
}

func allow(sid string, actions, resources Values, c Condition) Statement {
	return Statement{Sid: sid, Effect: Allow, Action: actions, Resource: resources, Condition: c}
}

// The tags by which Karpenter marks what it creates: GetTags in KPA pkg/utils/utils.go, and pkg/apis/v1/labels.go.
const (
	ownedTagPrefix = "kubernetes.io/cluster/"
	owned          = "owned"
	clusterTag     = "eks:eks-cluster-name"
	poolTag        = "karpenter.sh/nodepool"
	claimTag       = "karpenter.sh/nodeclaim"
	classTag       = "karpenter.k8s.aws/ec2nodeclass"
	regionTag      = "topology.kubernetes.io/region"
	nameTag        = "Name"

	ofRequest, ofResource = "aws:RequestTag/", "aws:ResourceTag/"
)

func (r reference) clusterARN() string { return r.arn("eks", "cluster/"+r.Name) }

// tagsToLaunch are the conditions for what a request creates.
func (r reference) tagsToLaunch() map[string]Values {
	return map[string]Values{ofRequest + ownedTagPrefix + r.Name: {owned}, ofRequest + clusterTag: {r.Name}}
}

// launched are the conditions for what Karpenter has launched: instances of versions before 1.0 have no eks:eks-cluster-name.
func (r reference) launched() Condition {
	return Condition{
		"StringEquals": {ofResource + ownedTagPrefix + r.Name: {owned}},
		"StringLike":   {ofResource + poolTag: {anything}},
	}
}

func (r reference) nodeLifecycle() []Statement {
	launch := Values{"ec2:RunInstances", "ec2:CreateFleet"}
	with := r.ec2("image", "snapshot", "security-group", "subnet")
	if r.needs("ec2:DescribeCapacityReservations") {
		with = append(with, r.ec2("capacity-reservation")...)
	}
	if r.needs("ec2:DescribePlacementGroups") {
		with = append(with, r.ec2("placement-group")...)
	}
	created := r.ec2("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
	pool := map[string]Values{ofRequest + poolTag: {anything}}
	atCreation := r.tagsToLaunch()
	atCreation["ec2:CreateAction"] = Values{"RunInstances", "CreateFleet", "CreateLaunchTemplate"}
	later := r.launched()
	later["StringEqualsIfExists"] = map[string]Values{ofRequest + clusterTag: {r.Name}}
	later["ForAllValues:StringEquals"] = map[string]Values{"aws:TagKeys": {clusterTag, claimTag, nameTag}}
	return []Statement{
		allow("LaunchWith", launch, with, nil),
		allow("LaunchFromTemplates", launch, r.ec2("launch-template"), r.launched()),
		allow("LaunchWithTags", append(launch, "ec2:CreateLaunchTemplate"), created,
			Condition{"StringEquals": r.tagsToLaunch(), "StringLike": pool}),
		allow("TagAtCreation", Values{"ec2:CreateTags"}, created, Condition{"StringEquals": atCreation, "StringLike": pool}),
		allow("TagInstances", Values{"ec2:CreateTags"}, r.ec2("instance"), later),
		allow("Terminate", r.actions("ec2:TerminateInstances", "ec2:RebootInstances", "ec2:DeleteLaunchTemplate"),
			r.ec2("instance", "launch-template"), r.launched()),
	}
}

func (r reference) iamIntegration() []Statement {
	profiles := Values{r.global("instance-profile/*")}
	// Profiles of versions before 1.0 have no eks:eks-cluster-name.
	has := map[string]Values{ofResource + ownedTagPrefix + r.Name: {owned}, ofResource + regionTag: {r.Region}}
	gets := r.tagsToLaunch()
	gets[ofRequest+regionTag] = Values{r.Region}
	both := map[string]Values{}
	for _, tags := range []map[string]Values{has, gets} {
		for key, values := range tags {
			both[key] = values
		}
	}
	hasClass, getsClass := ofResource+classTag, ofRequest+classTag
	change := Values{"iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"}
	return []Statement{
		allow("PassNodeRole", Values{"iam:PassRole"}, r.nodeRoles(),
			Condition{"StringEquals": {"iam:PassedToService": ec2Services[r.partition()]}}),
		allow("CreateProfiles", Values{"iam:CreateInstanceProfile"}, profiles,
			Condition{"StringEquals": gets, "StringLike": {getsClass: {anything}}}),
		allow("TagProfiles", Values{"iam:TagInstanceProfile"}, profiles,
			Condition{"StringEquals": both, "StringLike": {hasClass: {anything}, getsClass: {anything}}}),
		allow("ChangeProfiles", change, profiles, Condition{"StringEquals": has, "StringLike": {hasClass: {anything}}}),
	}
}

func (r reference) eksIntegration() []Statement {
	return []Statement{allow("DescribeCluster", Values{"eks:DescribeCluster"}, Values{r.clusterARN()}, nil)}
}

func (r reference) interruption() []Statement {
	if r.Queue == "" {
		return nil
	}
	return []Statement{
		allow("ReadInterruptions", Values{"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"}, Values{r.arn("sqs", r.Queue)}, nil),
	}
}

func (r reference) zonalShift() []Statement {
	actions := r.actions("arc-zonal-shift:GetManagedResource")
	if len(actions) == 0 {
		return nil
	}
	return []Statement{
		allow("ReadZonalShift", actions, Values{anything}, Condition{"StringEquals": {"arc-zonal-shift:ResourceIdentifier": {r.clusterARN()}}}),
	}
}

func (r reference) discovery() []Statement {
	all := []Statement{
		allow("ReadEC2", r.actions(
			"ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceStatus",
			"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups",
			"ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
		), Values{anything}, Condition{"StringEquals": {"aws:RequestedRegion": {r.Region}}}),
		allow("ReadImageParameters", Values{"ssm:GetParameter"}, Values{r.publicParameter(anything)}, nil),
		allow("ReadPrices", Values{"pricing:GetProducts"}, Values{anything}, nil),
		allow("ReadProfiles", Values{"iam:GetInstanceProfile"}, Values{r.global("instance-profile/*")}, nil),
	}
	if list := r.actions("iam:ListInstanceProfiles"); len(list) > 0 {
		all = append(all, allow("ListProfiles", list, Values{anything}, nil))
	}
	return all
}

// Split returns statements as one managed policy or, if that is too large, as numbered ones.
func Split(prefix, description string, c Cluster, statements []Statement) []Policy {
	return pack(prefix, description, c, []subject{{"", description, statements}})
}

// pack returns the statements as one policy or, if that is too large, as one for each subject. A subject that is too
// large for one is split into numbered ones.
func pack(prefix, of string, c Cluster, subjects []subject) []Policy {
	var all []Statement
	for _, s := range subjects {
		all = append(all, s.statements...)
	}
	if one := newPolicy(prefix+"Policy-", of+": all permissions", c, all); one.Characters <= MaxCharacters {
		return []Policy{one}
	}
	var policies []Policy
	for _, s := range subjects {
		rest := s.statements
		for part := 1; len(rest) > 0; part++ {
			name, n := prefix+s.name+"Policy-", len(rest)
			if part > 1 {
				name = fmt.Sprintf("%s%sPolicy%d-", prefix, s.name, part)
			}
			next := newPolicy(name, of+": "+s.description, c, rest)
			for ; next.Characters > MaxCharacters && n > 1; next = newPolicy(name, of+": "+s.description, c, rest[:n]) {
				n--
			}
			policies, rest = append(policies, next), rest[n:]
		}
	}
	return policies
}

func newPolicy(prefix, description string, c Cluster, s []Statement) Policy {
	d := Document{Version: languageVersion, Statement: s}
	return Policy{
		Name: Name(prefix, c.Name, maxPolicyName), Description: description + " in the cluster " + c.Name,
		Characters: sizeOf(d), Document: d,
	}
}
