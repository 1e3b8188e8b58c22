package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/iam"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// identityReport is what `plumbline identity` prints about a NodeSync.
type identityReport struct {
	Namespace string `json:"namespace"`
	NodeSync  string `json:"nodeSync"`
	Cluster   string `json:"cluster"`
	// Setting is spec.guard.onIdentityConflict.
	Setting  v1alpha1.OnIdentityConflict `json:"onIdentityConflict"`
	Conflict *v1alpha1.IdentityConflict  `json:"conflict,omitempty"`
	// Deny is a policy for the role of the other Karpenter, and ServiceControlPolicy the same for an account; nil if the
	// cluster's account is unknown, or no exception is given.
	Deny                 *iam.Document `json:"deny,omitempty"`
	ServiceControlPolicy *iam.Document `json:"serviceControlPolicy,omitempty"`
}

func newIdentityCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var resolved bool
	var exceptions []string
	cmd := &cobra.Command{
		Use:   "identity NODESYNC",
		Short: "Show another controller that uses the cluster's name, and how to keep it from doing so",
		Long: `Show whether another controller launches or terminates EC2 instances under the cluster's
name (condition IdentityConflict): what was found, the other API server, the instances on
either side, and what plumbline has done about it.

The command also prints an IAM policy that denies the use of the name. Attach it to the role
of the other Karpenter. With --controller-role, which names the role of this cluster's
Karpenter and can be repeated for administrators, it prints a service control policy, too:
that applies to every other principal of the accounts that it is attached to.

With --resolved, declare that the other controller is gone: what was found until now no
longer counts, instances are no longer protected, and a controller that plumbline has
stopped is started again. If the other controller is still there, it is found again. You
need permission to patch the NodeSync.`,
		Example: `  plumbline identity prod-eu
  plumbline identity prod-eu --controller-role arn:aws:iam::111122223333:role/KarpenterControllerRole-prod-eu
  plumbline identity prod-eu --resolved`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	cmd.Flags().BoolVar(&resolved, "resolved", false, "declare that the conflict is over")
	cmd.Flags().StringArrayVar(&exceptions, "controller-role", nil, "ARN of a principal to which a service control policy must not apply; can be repeated")
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		if resolved {
			return c.resolveIdentity(cmd, args[0])
		}
		sync, err := c.nodeSync(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		report, err := identityReportOf(sync, exceptions)
		if err != nil {
			return err
		}
		return output.write(cmd.OutOrStdout(), report, func(out io.Writer) error { return report.print(out) })
	}
	return cmd
}

// resolveIdentity annotates a NodeSync to declare that the conflict is over.
func (c *clusterAccess) resolveIdentity(cmd *cobra.Command, name string) error {
	sync, err := c.nodeSync(cmd.Context(), name)
	if err != nil {
		return err
	}
	if sync.Status.IdentityConflict == nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: no other controller is known to use the cluster's name\n", nodeSyncWord(name))
		return nil
	}
	return c.annotateResolved(cmd.Context(), cmd.ErrOrStderr(), sync, time.Now())
}

// annotateResolved writes the annotation.
func (c *clusterAccess) annotateResolved(ctx context.Context, errs io.Writer, sync *v1alpha1.NodeSync, now time.Time) error {
	// Signs have a precision of a second: those of this second count as found.
	at := now.UTC().Truncate(time.Second).Add(time.Second).Format(time.RFC3339)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.IdentityResolvedAnnotation: at}}})
	if err != nil {
		return err
	}
	if err := c.Patch(ctx, sync, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return explain(err, "write NodeSync "+sync.Name)
	}
	fmt.Fprintf(errs, "%s: the identity conflict is declared resolved\n", nodeSyncWord(sync.Name))
	return nil
}

// identityReportOf returns the report on a NodeSync. Errors: an exception that is no ARN.
func identityReportOf(sync *v1alpha1.NodeSync, exceptions []string) (identityReport, error) {
	for _, one := range exceptions {
		if !strings.HasPrefix(one, "arn:") {
			return identityReport{}, fmt.Errorf("--controller-role %q: want an ARN", one)
		}
	}
	report := identityReport{
		Namespace: sync.Namespace, NodeSync: sync.Name,
		Setting: cmp.Or(sync.Spec.Guard.OnIdentityConflict, v1alpha1.IdentityConflictFreeze), Conflict: sync.Status.IdentityConflict,
	}
	k := sync.Status.Karpenter
	if k == nil {
		return report, nil
	}
	report.Cluster = k.Cluster
	account := cloud.AccountOf(k.ClusterARN)
	if account == "" {
		return report, nil
	}
	of := iam.Cluster{Name: k.Cluster, Region: k.Region, Account: account}
	deny, err := iam.Shield(of, nil)
	if err != nil {
		return report, err
	}
	report.Deny = &deny
	if len(exceptions) > 0 {
		policy, err := iam.Shield(of, exceptions)
		if err != nil {
			return report, err
		}
		report.ServiceControlPolicy = &policy
	}
	return report, nil
}

// print prints the report for people.
func (r identityReport) print(out io.Writer) error {
	c := r.Conflict
	if !c.Open() {
		fmt.Fprintf(out, "no other controller is known to use the name %s\n", r.Cluster)
	} else {
		what := "another client terminates instances of this cluster in EC2"
		if c.Proven {
			what = "another Karpenter uses the name " + r.Cluster
		}
		fmt.Fprintf(out, "%s\n\nsince:       %s\nlast sign:   %s\n", what, stamp(c.Since.Time), stamp(c.LastSign.Time))
		if len(c.Endpoints) > 0 {
			fmt.Fprintf(out, "API server:  %s\n", strings.Join(c.Endpoints, ", "))
		}
		if len(c.Principals) > 0 {
			fmt.Fprintf(out, "by:          %s (CloudTrail)\n", strings.Join(c.Principals, ", "))
		}
		fmt.Fprintf(out, "instances:   %d of this cluster run, %d others; %d of this cluster were terminated\nsetting:     %s\n\nevidence:\n",
			c.Ours, c.Theirs, c.Terminated, r.Setting)
		for _, e := range c.Evidence {
			fmt.Fprintf(out, "  %s\n", e)
		}
	}
	printResponse(out, c.GetResponse())
	if r.Deny == nil {
		return nil
	}
	err := printStatements(out, "Attach this policy to the role of the other Karpenter, or give it another settings.clusterName:", r.Deny)
	if r.ServiceControlPolicy == nil {
		fmt.Fprintln(out, "\nFor a service control policy, name the role of this cluster's Karpenter with --controller-role.")
		return err
	}
	return errors.Join(err, printStatements(out, "As a service control policy:", r.ServiceControlPolicy))
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// printResponse prints what plumbline has done.
func printResponse(out io.Writer, response v1alpha1.IdentityResponse) {
	if n := len(response.Protected); n > 0 {
		fmt.Fprintf(out, "\nprotected from termination (%d):\n", n)
		for _, id := range response.Protected {
			fmt.Fprintf(out, "  %s\n", id)
		}
	}
	if s := response.Stopped; s != nil {
		fmt.Fprintf(out, "\nDeployment %s/%s is scaled to 0; it had %d replicas\n", s.Namespace, s.Name, s.Replicas)
	}
	if response.Failure != "" {
		fmt.Fprintf(out, "\nnot done: %s\n", response.Failure)
	}
}

// printStatements prints a policy.
func printStatements(out io.Writer, title string, policy *iam.Document) error {
	text, err := json.MarshalIndent(policy, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the policy: %w", err)
	}
	fmt.Fprintf(out, "\n%s\n%s\n", title, text)
	return nil
}
