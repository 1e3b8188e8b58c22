package bootstrap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/plumbline-dev/plumbline/provision/iam"
)

// WriteTerraform writes what the stack would create as a configuration: the nodes' role, instance profile, queue, rules and
// access entry by the module of terraform-aws-eks, and the roles of the controller and of plumbline with the same policies as
// in the stack, because those of the module are not the ones of each version of Karpenter. The account is that of the
// provider. Errors: as New.
func WriteTerraform(out io.Writer, s Spec) error {
	s.Cluster.NodeRoles, s.Cluster.Queue = []string{s.Name(NodeRole)}, s.Name(Queue)
	if _, err := New(s); err != nil {
		return err
	}
	c := s.Cluster
	c.Account = ""
	c = c.ForTerraform()
	s.Cluster = c
	controller, err := iam.Controller(s.Version, c)
	if err != nil {
		return err
	}
	daemon, err := iam.Plumbline(c, s.Daemon)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `# What Karpenter %s and plumbline need in AWS for the cluster %s.

module "karpenter" {
  source  = "terraform-aws-modules/eks/aws//modules/karpenter"
  version = "~> 21.0"

  cluster_name                  = %q
  node_iam_role_name            = %q
  node_iam_role_use_name_prefix = false
  node_iam_role_additional_policies = {
    ssm = "arn:%s:iam::aws:policy/AmazonSSMManagedInstanceCore"
  }
  create_instance_profile = true
  create_access_entry     = %v
  queue_name              = %q

  # The policies of the controller are below: those of Karpenter %s.
  create_iam_role                 = false
  create_pod_identity_association = false
}

`, s.Version, c.Name, c.Name, s.Name(NodeRole), s.partition(), s.AccessEntries, s.Name(Queue), s.Version)
	if err := iam.WriteTerraform(&b, append(controller, daemon...)); err != nil {
		return err
	}
	for _, role := range []struct {
		label, id string
		account   ServiceAccount
		policies  []iam.Policy
	}{{"karpenter", ControllerRole, s.Controller, controller}, {"plumbline", PlumblineRole, s.Plumbline, daemon}} {
		if err := s.writeRole(&b, role.label, role.id, role.account, role.policies); err != nil {
			return err
		}
	}
	_, err = b.WriteTo(out)
	return err
}

// writeRole writes the role of a ServiceAccount, what it may do, and the association.
func (s Spec) writeRole(b *bytes.Buffer, label, id string, account ServiceAccount, policies []iam.Policy) error {
	trust, err := json.MarshalIndent(s.trust(account), "  ", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(b, "\nresource \"aws_iam_role\" %q {\n  name               = %q\n  assume_role_policy = jsonencode(%s)\n}\n",
		label, s.Name(id), trust)
	for _, p := range policies {
		fmt.Fprintf(b, "\nresource \"aws_iam_role_policy_attachment\" %q {\n"+
			"  role       = aws_iam_role.%s.name\n  policy_arn = aws_iam_policy.%s.arn\n}\n", p.Label(), label, p.Label())
	}
	if s.Auth == IRSA {
		return nil
	}
	fmt.Fprintf(b, `
resource "aws_eks_pod_identity_association" %q {
  cluster_name    = %q
  namespace       = %q
  service_account = %q
  role_arn        = aws_iam_role.%s.arn
}
`, label, s.Cluster.Name, account.Namespace, account.Name, label)
	return nil
}

// Deploy returns the command with which a person who has the permissions deploys a template.
func (s Spec) Deploy(file string) string {
	return strings.Join([]string{
		"aws cloudformation deploy", "--region " + s.Cluster.Region, "--stack-name " + s.Stack(), "--template-file " + file,
		"--capabilities CAPABILITY_NAMED_IAM", fmt.Sprintf("--tags %s=%s", Tag, s.Stack()),
	}, " ")
}
