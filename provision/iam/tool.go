package iam

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Tool is what has made a role of Karpenter's controller.
type Tool string

// The tools whose form of a statement plumbline knows.
const (
	ToolEksctl         Tool = "eksctl"
	ToolTerraformEKS   Tool = "terraform-aws-eks"
	ToolBlueprints     Tool = "eks-blueprints-addons"
	ToolTerraform      Tool = "Terraform"
	ToolCloudFormation Tool = "CloudFormation"
)

// Named is a role by its name and tags, with its policies by their names.
type Named struct {
	Role     string
	Tags     map[string]string
	Policies map[string]Document
}

const (
	// eksctlTag is on the roles of eksctl (pkg/apis/eksctl.io/v1alpha5/types.go, ClusterNameTag), and eksctlPrefix begins
	// the names of its own policy of Karpenter's controller (pkg/cfn/builder/karpenter.go).
	eksctlTag, eksctlPrefix = "alpha.eksctl.io/cluster-name", "eksctl-KarpenterControllerPolicy-"
	stackTag                = "aws:cloudformation:stack-name"
	// upstreamSid is that of a statement in the template of Karpenter's guide, which terraform-aws-eks has copied.
	upstreamSid = "AllowScopedDeletion"
	// terraformEKSName begins the names of the role and the policy of terraform-aws-eks (modules/karpenter/variables.tf).
	terraformEKSName = "KarpenterController"
	// blueprintsName begins those of eks-blueprints-addons (main.tf, module.karpenter).
	blueprintsName = "karpenter"
)

// terraformSuffix ends the names that Terraform makes of a prefix: a time and a counter (hashicorp/terraform-plugin-sdk
// helper/id/id.go, PrefixedUniqueId).
var terraformSuffix = regexp.MustCompile(`^(.*)-\d{18}[\da-f]{8}$`)

// ToolOf returns what has made a role, by its tags and names, and by the Sids of its policies; empty if that is unknown.
func ToolOf(role Named) Tool {
	names := append([]string{role.Role}, slices.Sorted(maps.Keys(role.Policies))...)
	has := func(matches func(string) bool) bool { return slices.ContainsFunc(names, matches) }
	prefixed := has(terraformSuffix.MatchString)
	prefix := func(of string) bool {
		return has(func(name string) bool {
			found := terraformSuffix.FindStringSubmatch(name)
			return name == of || found != nil && found[1] == of
		})
	}
	switch {
	case role.Tags[eksctlTag] != "", has(func(name string) bool { return strings.HasPrefix(name, eksctlPrefix) }):
		return ToolEksctl
	case role.Tags[stackTag] != "":
		return ToolCloudFormation
	case prefix(terraformEKSName) && role.hasSid(upstreamSid):
		return ToolTerraformEKS
	case prefix(blueprintsName) && !role.hasSid(upstreamSid):
		return ToolBlueprints
	case prefixed:
		return ToolTerraform
	case role.hasSid(upstreamSid):
		return ToolCloudFormation
	}
	return ""
}

func (n Named) hasSid(sid string) bool {
	for _, d := range n.Policies {
		if slices.ContainsFunc(d.Statement, func(s Statement) bool { return s.Sid == sid }) {
			return true
		}
	}
	return false
}

// Add returns where a statement is added to a role that the tool has made, and the statement in its form.
func (t Tool) Add(s Statement) (where, text string) {
	switch t {
	case ToolEksctl:
		return "of eksctl: in the ClusterConfig, to permissionPolicy in iam.podIdentityAssociations " +
			"(eksctl update podidentityassociation -f FILE) or, with IRSA, to attachPolicy in iam.serviceAccounts " +
			"(eksctl update iamserviceaccount -f FILE --approve)", asYAML(Document{Version: languageVersion, Statement: statements{s}})
	case ToolTerraformEKS:
		return "of terraform-aws-eks: in the module karpenter; before version 21, condition is conditions",
			"iam_policy_statements = [" + s.object("condition") + "]"
	case ToolBlueprints:
		return "of eks-blueprints-addons: in karpenter of the module", "policy_statements = [" + s.object("conditions") + "]"
	case ToolTerraform:
		return "of Terraform: in the aws_iam_policy_document", s.block()
	case ToolCloudFormation:
		return "of CloudFormation: in Statement of the PolicyDocument", asYAML(statements{s})
	}
	return "", asJSON(s)
}

func asJSON(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err.Error() // it has only text
	}
	return string(text)
}

func asYAML(v any) string {
	text, err := yaml.Marshal(v)
	if err != nil {
		return err.Error() // it has only text
	}
	return strings.TrimSuffix(string(text), "\n")
}

// arguments are those of a statement in Terraform: plumbline's own statements have neither NotAction nor NotResource.
func (s Statement) arguments() []string {
	return []string{"sid       = " + hcl(s.Sid), "actions   = " + hcl(s.Action), "resources = " + hcl(s.Resource)}
}

// object returns a statement as an object of Terraform, as modules take it. The key is that of its conditions.
func (s Statement) object(key string) string {
	lines := append([]string{"{"}, s.arguments()...)
	if len(s.Condition) > 0 {
		lines = append(lines, key+" = [")
		for _, c := range s.conditions() {
			lines = append(lines, fmt.Sprintf("  { test = %s, variable = %s, values = %s },", hcl(c.test), hcl(c.variable), hcl(c.values)))
		}
		lines = append(lines, "]")
	}
	return strings.Join(lines, "\n  ") + "\n}"
}

// block returns a statement as a block of Terraform.
func (s Statement) block() string {
	lines := append([]string{"statement {"}, s.arguments()...)
	for _, c := range s.conditions() {
		lines = append(lines, "condition {", "  test     = "+hcl(c.test), "  variable = "+hcl(c.variable), "  values   = "+hcl(c.values), "}")
	}
	return strings.Join(lines, "\n  ") + "\n}"
}

// hcl returns text, or a list of it, as an expression of Terraform: JSON in which nothing is a template.
func hcl(v any) string {
	if values, ok := v.(Values); ok {
		v = []string(values)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // it is text
	}
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(text))
}

type condition struct {
	test, variable string
	values         Values
}

// conditions returns those of a statement, by operator and key.
func (s Statement) conditions() []condition {
	var all []condition
	for _, test := range slices.Sorted(maps.Keys(s.Condition)) {
		for _, variable := range slices.Sorted(maps.Keys(s.Condition[test])) {
			all = append(all, condition{test, variable, s.Condition[test][variable]})
		}
	}
	return all
}
