package preflight

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/internal/shell"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
)

// NodeRole is a role that EC2NodeClasses give to nodes.
type NodeRole struct {
	// Name is that in the EC2NodeClass, or in its instance profile. Profile is that profile; empty if it names a role.
	Name, Profile string
	// Classes are the EC2NodeClasses.
	Classes []string
	// Role is read from IAM.
	Role Value[cloud.Role]
	// Entry is its access entry; nil if it has none.
	Entry Value[*cloud.AccessEntry]
}

// nodeRole checks the roles of nodes: whether their kubelets may join the cluster, and what they need then.
func nodeRole() Check {
	return Check{
		ID: "node-role",
		Why: "an instance whose role may not join the cluster never becomes a node: Karpenter launches another one " +
			"every 15 minutes, and pods stay pending",
		needs: []source{ofAccount, ofControllers, ofClasses, ofGrant, ofNodeRoles},
		look:  lookAtNodeRoles,
	}
}

func lookAtNodeRoles(o Observed) (string, []Finding) {
	if o.Classes.Err != nil {
		return "the roles of EC2NodeClasses", unread(o.Classes.Err)
	}
	var names []string
	var found []Finding
	for _, r := range o.NodeRoles {
		names = append(names, r.title())
		found = append(found, r.judge(o)...)
	}
	if len(names) == 0 {
		return "no EC2NodeClass", nil
	}
	return strings.Join(names, ", "), append(found, o.passRole()...)
}

func (r NodeRole) title() string {
	of := "EC2NodeClass/" + strings.Join(r.Classes, ", EC2NodeClass/")
	switch {
	case r.Name == "":
		return fmt.Sprintf("instance profile %s (%s)", r.Profile, of)
	case r.Profile != "":
		return fmt.Sprintf("role %s in instance profile %s (%s)", r.Name, r.Profile, of)
	}
	return fmt.Sprintf("role %s (%s)", r.Name, of)
}

func (r NodeRole) judge(o Observed) []Finding {
	if r.Name == "" {
		if r.Role.Err != nil {
			return unread(r.Role.Err)
		}
		return []Finding{{
			Status: Problem, Message: "the " + r.title() + " contains no role",
			Fix: fmt.Sprintf("aws iam add-role-to-instance-profile --instance-profile-name %s --role-name ROLE", shell.Word(r.Profile)),
		}}
	}
	var found []Finding
	if r.Role.Err != nil {
		found = unread(r.Role.Err)
	} else {
		found = r.policies(o)
	}
	if r.Role.Of.Trust != "" {
		found = append(found, r.trustsEC2(o)...)
	}
	if r.Role.Of.ARN != "" {
		found = append(found, r.access(o)...)
	}
	return found
}

// nodePolicies are the managed policies that nodes need, the first name being the one to attach:
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html and Karpenter's getting-started guide.
var nodePolicies = []struct {
	status Status
	names  []string
	why    string
}{
	{Problem, []string{"AmazonEKSWorkerNodePolicy"}, "nodes cannot describe themselves, and do not join the cluster"},
	{
		Problem,
		[]string{"AmazonEC2ContainerRegistryPullOnly", "AmazonEC2ContainerRegistryReadOnly", "AmazonEC2ContainerRegistryPowerUser", "AmazonEC2ContainerRegistryFullAccess"},
		"nodes cannot pull images from ECR, not even that of the CNI plugin",
	},
	{Warning, []string{"AmazonEKS_CNI_Policy"}, "the VPC CNI plugin cannot add addresses, unless its ServiceAccount has a role of its own"},
	{Warning, []string{"AmazonSSMManagedInstanceCore"}, "Session Manager does not reach the nodes"},
}

// policies returns which of the managed policies are missing. If the role has others, these may allow the same.
func (r NodeRole) policies(o Observed) []Finding {
	aws := "arn:" + iam.PartitionOf(o.Region) + ":iam::aws:policy/"
	others := slices.ContainsFunc(r.Role.Of.Policies, func(p cloud.RolePolicy) bool { return !strings.HasPrefix(p.ARN, aws) })
	var found []Finding
	for _, needed := range nodePolicies {
		has := slices.ContainsFunc(r.Role.Of.Policies, func(p cloud.RolePolicy) bool {
			return strings.HasPrefix(p.ARN, aws) && (slices.Contains(needed.names, p.Name) || p.Name == "AdministratorAccess")
		})
		if has {
			continue
		}
		f := Finding{
			Status: needed.status, Message: fmt.Sprintf("role %s does not have the policy %s: %s", r.Name, needed.names[0], needed.why),
			Fix: fmt.Sprintf("aws iam attach-role-policy --role-name %s --policy-arn %s%s", shell.Word(r.Name), aws, needed.names[0]),
		}
		if others && f.Status == Problem {
			f.Status, f.Message = Warning, f.Message+"; its other policies were not evaluated, and may allow that"
		}
		found = append(found, f)
	}
	return found
}

func (r NodeRole) trustsEC2(o Observed) []Finding {
	var unevaluated string
	for _, by := range iam.EC2(iam.PartitionOf(o.Region)) {
		answer, _, err := iam.Trusts(r.Role.Of.Trust, by)
		switch {
		case err != nil:
			return []Finding{{Status: Unknown, Message: err.Error()}}
		case answer.Decision == iam.Allowed:
			return nil
		case answer.Decision == iam.Unknown:
			unevaluated = answer.Reason
		}
	}
	if unevaluated != "" {
		return []Finding{{Status: Unknown, Message: "the trust policy of role " + r.Name + " was not evaluated: " + unevaluated}}
	}
	return []Finding{{
		Status: Problem, Message: "the trust policy of role " + r.Name + " does not allow sts:AssumeRole to EC2: instances get no credentials",
		Fix: "add to its trust policy:\n" + trustStatement(iam.EC2(iam.PartitionOf(o.Region))[0]),
	}}
}

// access returns why kubelets with the role may not join: neither an access entry for nodes nor an entry in aws-auth.
func (r NodeRole) access(o Observed) []Finding {
	mode := o.EKS.Of.AuthenticationMode
	entries, maps := mode != "CONFIG_MAP", mode != "API"
	if entry := r.Entry.Of; entries && entry != nil {
		if entry.Type == "EC2_LINUX" || entry.Type == "EC2_WINDOWS" {
			return nil
		}
		return []Finding{{
			Status:  Problem,
			Message: fmt.Sprintf("the access entry of role %s has the type %s, which is not for nodes: kubelets are Unauthorized", r.Name, entry.Type),
			Fix: fmt.Sprintf("aws eks delete-access-entry --region %s --cluster-name %s --principal-arn %s && %s",
				o.Region, o.Cluster, shell.Word(r.Role.Of.ARN), r.createEntry(o)),
		}}
	}
	var unknown []Finding
	if o.EKS.Err != nil {
		unknown = append(unknown, unread(o.EKS.Err)...)
	}
	if entries && r.Entry.Err != nil {
		unknown = append(unknown, unread(r.Entry.Err)...)
	}
	if maps {
		mapped, err := mapsNodes(o.AWSAuth.Of, r.Role.Of.ARN)
		switch {
		case o.AWSAuth.Err != nil:
			unknown = append(unknown, unread(o.AWSAuth.Err)...)
		case err != nil:
			unknown = append(unknown, Finding{Status: Unknown, Message: err.Error()})
		case mapped:
			return nil
		}
	}
	if len(unknown) > 0 {
		return unknown
	}
	f := Finding{Status: Problem, Message: "role " + r.Name + " has no access entry: its kubelets are Unauthorized", Fix: r.createEntry(o)}
	switch {
	case !entries:
		f.Message = fmt.Sprintf("ConfigMap kube-system/aws-auth has no entry for nodes with role %s: their kubelets are Unauthorized", r.Name)
		f.Fix = "add to mapRoles of ConfigMap kube-system/aws-auth:\n" + mapEntry(r.Role.Of.ARN)
	case maps:
		f.Message = fmt.Sprintf("role %s has neither an access entry nor an entry for nodes in ConfigMap kube-system/aws-auth: "+
			"its kubelets are Unauthorized", r.Name)
	}
	return []Finding{f}
}

func (r NodeRole) createEntry(o Observed) string {
	return fmt.Sprintf("aws eks create-access-entry --region %s --cluster-name %s --type EC2_LINUX --principal-arn %s",
		o.Region, o.Cluster, shell.Word(r.Role.Of.ARN))
}

// withoutPath returns the ARN of a role as aws-auth names it: EKS ignores the path of roles there, and an entry with one
// matches no role. https://docs.aws.amazon.com/eks/latest/userguide/auth-configmap.html
func withoutPath(arn string) string {
	before, rest, found := strings.Cut(arn, ":role/")
	if !found {
		return arn
	}
	return before + ":role/" + rest[strings.LastIndex(rest, "/")+1:]
}

// nodesGroup is the group of kubelets.
const nodesGroup = "system:nodes"

func mapEntry(arn string) string {
	return "- rolearn: " + withoutPath(arn) + "\n  username: system:node:{{EC2PrivateDNSName}}\n" +
		"  groups: [system:bootstrappers, " + nodesGroup + "]"
}

// mapsNodes reports whether mapRoles of aws-auth lets nodes with a role join. Errors: it is not valid YAML.
func mapsNodes(mapRoles, arn string) (bool, error) {
	var roles []struct {
		RoleARN string   `json:"rolearn"`
		Groups  []string `json:"groups"`
	}
	if err := yaml.Unmarshal([]byte(mapRoles), &roles); err != nil {
		return false, fmt.Errorf("read mapRoles of ConfigMap kube-system/aws-auth: %w", err)
	}
	for _, role := range roles {
		if role.RoleARN == withoutPath(arn) && slices.Contains(role.Groups, nodesGroup) {
			return true, nil
		}
	}
	return false, nil
}

// passRole returns why Karpenter may not give nodes their role.
func (o Observed) passRole() []Finding {
	if o.Grant.Err != nil {
		return unread(o.Grant.Err)
	}
	c, _ := o.controller()
	if o.Grant.Of.RoleARN == "" {
		return []Finding{noRole(o, c)}
	}
	all, err := o.judged(c)
	if err != nil {
		return []Finding{{Status: Unknown, Message: err.Error()}}
	}
	var found []Finding
	for _, f := range all {
		if f.Kind == iam.Missing && slices.Contains(f.Actions, "iam:PassRole") {
			found = append(found, o.missing(c, f))
		}
	}
	return found
}
