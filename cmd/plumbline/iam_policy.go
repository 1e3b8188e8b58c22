package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/manifests"
	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
)

// The formats of -o that only policies have.
const (
	formatCloudFormation format = "cloudformation"
	formatTerraform      format = "terraform"
)

// The values of --for.
const (
	forController = "controller"
	forPlumbline  = "plumbline"
)

// iamPolicyOptions are the flags of `plumbline iam-policy`.
type iamPolicyOptions struct {
	role, version                                                   string
	readOnly, verify, teardown, doctor, protect, bootstrap, migrate bool
	cluster                                                         iam.Cluster
}

func newIAMPolicyCommand() *cobra.Command {
	o := &iamPolicyOptions{}
	cmd := &cobra.Command{
		Use:   "iam-policy",
		Short: "Print the IAM policies of Karpenter's controller or of plumbline for a cluster",
		Long: `Print the IAM policies that a version of Karpenter's controller needs in a cluster, or those of
plumbline. Every permission to change something is restricted to the cluster: a controller
cannot terminate or tag instances of another cluster, or pass another role to EC2.

If one policy would have more than the 6,144 characters of a managed policy, the command
prints one for each subject. A name that is too long for IAM is shortened and ends with a
hash of the cluster's name.

The nodes' role is KarpenterNodeRole-NAME, and the interruption queue has the cluster's
name, as in Karpenter's getting-started guide; --node-role and --queue name others.

With --for plumbline the command prints the policy of plumbline's role, which only reads
(--read-only, the default); with --protect also the one that
spec.guard.onIdentityConflict: Protect needs; with --verify that of a user of plumbline verify; with
--doctor that of a user of plumbline doctor; with --teardown those of a user of plumbline teardown
--terminate or --sweep; with --bootstrap those of a user of plumbline bootstrap; with --migrate
that of a user of plumbline migrate.

-o cloudformation and -o terraform print a template or a configuration. Without --account
these use the account that they are applied in. The command needs neither a cluster nor AWS.`,
		Example: "  plumbline iam-policy --cluster prod-eu --region eu-west-1 --version " + karpenter.Newest() + ` -o terraform
  plumbline iam-policy --cluster prod-eu --region eu-west-1 --node-role nodes --node-role gpu-nodes -o cloudformation
  plumbline iam-policy --for plumbline --cluster prod-eu --region eu-west-1 --account 111122223333 -o json`,
		Args: cobra.NoArgs,
	}
	output := addOutput(cmd, formatCloudFormation, formatTerraform)
	o.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("queue") {
			o.cluster.Queue = iam.QueueName(o.cluster.Name)
		}
		policies, err := o.policies(*output)
		if err != nil {
			return err
		}
		switch *output {
		case formatCloudFormation:
			return iam.WriteCloudFormation(cmd.OutOrStdout(), policies)
		case formatTerraform:
			return iam.WriteTerraform(cmd.OutOrStdout(), policies)
		default:
		}
		return output.write(cmd.OutOrStdout(), policies, func(out io.Writer) error {
			printIAMPolicies(out, policies)
			return nil
		})
	}
	return cmd
}

// addFlags adds the flags of the command to it.
func (o *iamPolicyOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.role, "for", forController, "whose policies: controller or plumbline")
	flags.StringVar(&o.version, "version", karpenter.Newest(), "version of Karpenter")
	flags.StringVar(&o.cluster.Name, "cluster", "", "name of the EKS cluster; required")
	flags.StringVar(&o.cluster.Region, "region", "", "region of the cluster; required")
	flags.StringVar(&o.cluster.Account, "account", "", "ID of the AWS account; required for -o json, yaml and table")
	flags.StringVar(&o.cluster.Partition, "partition", "", "partition of AWS: "+strings.Join(iam.Partitions(), ", ")+
		"; default: that of the region")
	flags.StringArrayVar(&o.cluster.NodeRoles, "node-role", nil, "name or ARN of a role of nodes; can be repeated; default: "+
		iam.NodeRolePrefix+"NAME")
	flags.StringVar(&o.cluster.Queue, "queue", "", "name of the interruption queue, or empty if there is none; default: the cluster's name")
	flags.BoolVar(&o.readOnly, "read-only", false, "with --for plumbline: the policy of plumbline's role")
	flags.BoolVar(&o.verify, "verify", false, "with --for plumbline: the policy of a user of plumbline verify")
	flags.BoolVar(&o.teardown, "teardown", false, "with --for plumbline: those of a user of plumbline teardown --terminate or --sweep")
	flags.BoolVar(&o.doctor, "doctor", false, "with --for plumbline: the policy of a user of plumbline doctor")
	flags.BoolVar(&o.protect, "protect", false, "with --for plumbline: those of plumbline's role with spec.guard.onIdentityConflict: Protect")
	flags.BoolVar(&o.bootstrap, "bootstrap", false, "with --for plumbline: those of a user of plumbline bootstrap")
	flags.BoolVar(&o.migrate, "migrate", false, "with --for plumbline: the policy of a user of plumbline migrate")
	cmd.MarkFlagsMutuallyExclusive("read-only", "verify", "teardown", "doctor", "protect", "bootstrap", "migrate")
	for flag, values := range map[string][]string{"for": {forController, forPlumbline}, "partition": iam.Partitions()} {
		// The flags exist: they are added above.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// ofPlumbline reports whether a flag requests a policy of plumbline.
func (o *iamPolicyOptions) ofPlumbline() bool {
	return o.readOnly || o.verify || o.teardown || o.doctor || o.protect || o.bootstrap || o.migrate
}

// policies returns the policies that the flags request.
func (o *iamPolicyOptions) policies(output format) ([]iam.Policy, error) {
	c := o.cluster
	switch {
	case c.Name == "" || c.Region == "":
		return nil, errors.New("--cluster and --region are required")
	case output == formatCloudFormation:
		c = c.ForCloudFormation()
	case output == formatTerraform:
		c = c.ForTerraform()
	case c.Account == "":
		return nil, fmt.Errorf("--account is required with -o %s; -o cloudformation and -o terraform use the account that they are applied in",
			output)
	}
	switch {
	case o.role == forController && o.ofPlumbline():
		return nil, errors.New("--read-only, --verify, --doctor, --teardown, --protect, --bootstrap and --migrate need --for plumbline")
	case o.role == forController:
		return iam.Controller(o.version, c)
	case o.role == forPlumbline && o.bootstrap:
		return o.bootstrapPolicies(c)
	case o.role == forPlumbline:
		return iam.Plumbline(c, o.templates()...)
	}
	return nil, fmt.Errorf("--for %q: want %s or %s", o.role, forController, forPlumbline)
}

// bootstrapPolicies returns those of a user of plumbline bootstrap, which runs plumbline doctor and plumbline smoke, too.
func (o *iamPolicyOptions) bootstrapPolicies(c iam.Cluster) ([]iam.Policy, error) {
	policies, err := bootstrap.Permissions(bootstrap.Spec{
		Cluster: c, Version: o.version, Auth: bootstrap.PodIdentity, AccessEntries: true, Daemon: daemonTemplate(),
	})
	if err != nil {
		return nil, err
	}
	doctor, err := iam.Plumbline(c, doctorTemplate())
	return append(policies, doctor...), err
}

func daemonTemplate() iam.Template {
	return iam.Template{Prefix: "PlumblinePolicy-", Description: "plumbline's role", Text: manifests.DaemonPolicy}
}

func doctorTemplate() iam.Template {
	return iam.Template{Prefix: "PlumblineDoctorPolicy-", Description: "plumbline doctor", Text: manifests.DoctorPolicy}
}

// templates returns those of plumbline's policies that the flags request.
func (o *iamPolicyOptions) templates() []iam.Template {
	verify := iam.Template{Prefix: "PlumblineVerifyPolicy-", Description: "plumbline verify", Text: manifests.VerifyPolicy}
	switch {
	case o.verify:
		return []iam.Template{verify}
	case o.doctor:
		return []iam.Template{doctorTemplate()}
	case o.migrate:
		return []iam.Template{{
			Prefix: "PlumblineMigratePolicy-", Description: "plumbline migrate", Text: manifests.MigratePolicy,
		}}
	case o.teardown:
		return []iam.Template{verify, {
			Prefix: "PlumblineTeardownPolicy-", Description: "plumbline teardown --terminate and --sweep", Text: manifests.TeardownPolicy,
		}}
	}
	templates := []iam.Template{daemonTemplate()}
	if o.protect {
		templates = append(templates, iam.Template{
			Prefix: "PlumblineProtectPolicy-", Description: "termination protection during an identity conflict", Text: manifests.ProtectPolicy,
		})
	}
	return templates
}

// printIAMPolicies prints a row for each statement.
func printIAMPolicies(out io.Writer, policies []iam.Policy) {
	t := display.NewFittedTable(out, "POLICY", "CHARACTERS", "STATEMENT", "ACTIONS")
	for _, p := range policies {
		for _, s := range p.Document.Statement {
			t.AppendRow([]any{p.Name, p.Characters, s.Sid, strings.Join(s.Action, ", ")})
		}
	}
	t.Render()
}
