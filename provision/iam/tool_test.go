package iam

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestToolOf(t *testing.T) {
	upstream := Document{Statement: statements{{Sid: upstreamSid, Effect: Allow}}}
	own := Document{Statement: statements{{Sid: "Terminate", Effect: Allow}}}
	const suffix = "-202611301200001234000000a1"
	for name, c := range map[string]struct {
		role Named
		want Tool
	}{
		"a role of eksctl": {Named{Role: "prod-karpenter", Tags: map[string]string{"alpha.eksctl.io/cluster-name": "prod"}}, ToolEksctl},
		"a policy of eksctl": {Named{Role: "eksctl-prod-iamservice-role", Policies: map[string]Document{
			"eksctl-KarpenterControllerPolicy-prod": own,
		}}, ToolEksctl},
		"terraform-aws-eks":                   {Named{Role: "KarpenterController" + suffix, Policies: map[string]Document{"KarpenterController" + suffix: upstream}}, ToolTerraformEKS},
		"terraform-aws-eks, without prefixes": {Named{Role: "karpenter-prod", Policies: map[string]Document{"KarpenterController": upstream}}, ToolTerraformEKS},
		"eks-blueprints-addons":               {Named{Role: "karpenter" + suffix, Policies: map[string]Document{"karpenter" + suffix: {}}}, ToolBlueprints},
		"Terraform":                           {Named{Role: "platform" + suffix, Policies: map[string]Document{"platform": own}}, ToolTerraform},
		"the guide":                           {Named{Role: "prod-karpenter", Policies: map[string]Document{"KarpenterControllerPolicy-prod": upstream}}, ToolCloudFormation},
		"a stack":                             {Named{Role: "role", Tags: map[string]string{"aws:cloudformation:stack-name": "karpenter"}}, ToolCloudFormation},
		"plumbline's policies":                {Named{Role: "prod-karpenter", Policies: map[string]Document{"KarpenterControllerPolicy-prod": own}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ToolOf(c.role); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestAdd(t *testing.T) {
	s := allow("Terminate", Values{"ec2:TerminateInstances"}, Values{"arn:aws:ec2:eu-west-1:*:instance/*"}, Condition{
		"StringLike":   {"aws:ResourceTag/karpenter.sh/nodepool": {"*"}},
		"StringEquals": {"aws:ResourceTag/kubernetes.io/cluster/prod": {"owned"}},
	})
	conditions := func(key string) string {
		return key + ` = [
    { test = "StringEquals", variable = "aws:ResourceTag/kubernetes.io/cluster/prod", values = ["owned"] },
    { test = "StringLike", variable = "aws:ResourceTag/karpenter.sh/nodepool", values = ["*"] },
  ]`
	}
	const arguments = `sid       = "Terminate"
  actions   = ["ec2:TerminateInstances"]
  resources = ["arn:aws:ec2:eu-west-1:*:instance/*"]`
	const inYAML = `- Action: ec2:TerminateInstances
  Condition:
    StringEquals:
      aws:ResourceTag/kubernetes.io/cluster/prod: owned
    StringLike:
      aws:ResourceTag/karpenter.sh/nodepool: '*'
  Effect: Allow
  Resource: arn:aws:ec2:eu-west-1:*:instance/*
  Sid: Terminate`
	for tool, want := range map[Tool][2]string{
		ToolEksctl:         {"permissionPolicy", "Statement:\n" + inYAML + "\nVersion: \"2012-10-17\""},
		ToolTerraformEKS:   {"module karpenter", "iam_policy_statements = [{\n  " + arguments + "\n  " + conditions("condition") + "\n}]"},
		ToolBlueprints:     {"karpenter of the module", "policy_statements = [{\n  " + arguments + "\n  " + conditions("conditions") + "\n}]"},
		ToolCloudFormation: {"PolicyDocument", inYAML},
		ToolTerraform: {"aws_iam_policy_document", "statement {\n  " + arguments + `
  condition {
    test     = "StringEquals"
    variable = "aws:ResourceTag/kubernetes.io/cluster/prod"
    values   = ["owned"]
  }
  condition {
    test     = "StringLike"
    variable = "aws:ResourceTag/karpenter.sh/nodepool"
    values   = ["*"]
  }
}`},
	} {
		t.Run(string(tool), func(t *testing.T) {
			where, text := tool.Add(s)
			if diff := cmp.Diff(want[1], text); diff != "" || !strings.Contains(where, want[0]) {
				t.Errorf("in %q (-want +got):\n%s", where, diff)
			}
		})
	}
	if where, text := Tool("").Add(s); where != "" || !strings.HasPrefix(text, "{\n  \"Sid\": \"Terminate\"") {
		t.Errorf("an unknown tool: %q\n%s", where, text)
	}
}
