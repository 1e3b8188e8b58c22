package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/policy"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// approveOptions are the flags of `plumbline approve`.
type approveOptions struct {
	digest, reason   string
	expires, timeout time.Duration
	waits            bool
}

func newApproveCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	o := &approveOptions{}
	cmd := &cobra.Command{
		Use:   "approve NODESYNC",
		Short: "Approve what the guard holds",
		Long: `Approve what the guard holds of a NodeSync: just what --digest names, which
` + "`plumbline status`" + `, ` + "`plumbline plan`" + ` and the commit status print. Another plan, or the same
one once it disrupts over a tenth more nodes, has another digest. What is held as Git's
history, the status or Karpenter's own nodes are in doubt cannot be approved.

An Approval is created in your name, and expires. The API server checks the name; RBAC
decides who may create one (ClusterRole plumbline-approver). Without --digest nothing is
approved: what is held is shown.

Exit codes: 0 approved, with --wait also counted, 1 error, 3 held still, 4 timed out.`,
		Example:           "  plumbline approve prod-eu\n  plumbline approve prod-eu --digest sha256:1f0c9a3b7d21 --reason 'batch moves to prod-us' --wait",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	cmd.Flags().StringVar(&o.digest, "digest", "", "what is approved, by at least 12 digits of its digest")
	cmd.Flags().StringVar(&o.reason, "reason", "", "why, for those who read it later")
	cmd.Flags().DurationVar(&o.expires, "expires", 24*time.Hour, "how long the Approval may begin to count, at most 168h")
	cmd.Flags().BoolVar(&o.waits, "wait", false, "wait until the daemon has counted it")
	cmd.Flags().DurationVar(&o.timeout, "wait-timeout", time.Minute, "longest time that --wait waits")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.expires <= 0 || o.expires > approval.MaxAge {
			return fmt.Errorf("--expires %s: has to be more than 0 and at most %s", o.expires, approval.MaxAge)
		}
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		return c.approve(cmd, args[0], o)
	}
	return cmd
}

// approve shows what is held of a NodeSync, and approves it where the digest is the right one.
func (c *cluster) approve(cmd *cobra.Command, name string, o *approveOptions) error {
	sync, err := c.nodeSync(cmd.Context(), name)
	if err != nil {
		return err
	}
	held := sync.Status.Held
	if held == nil {
		return nothingHeld(sync)
	}
	printHeld(cmd.OutOrStdout(), held)
	if o.digest == "" {
		return &exitError{code: exitHeld, message: "nothing was approved; to approve it: " + approval.Command(sync, held.Digest)}
	}
	if !namesDigest(o.digest, held.Digest) {
		return fmt.Errorf("%s is not what is held of %s now: that is shown above; if it is what you mean: %s", o.digest, nodeSyncWord(sync.Name), approval.Command(sync, held.Digest))
	}
	if strings.HasPrefix(held.Message, approval.Nothing) {
		return errors.New(held.Message)
	}
	if err := c.checkProof(cmd.Context()); err != nil {
		return err
	}
	created, err := c.createApproval(cmd.Context(), sync, o)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "approval/%s created by %s\n", created.Name, created.Spec.Author)
	if !o.waits {
		return nil
	}
	return c.waitApproved(cmd, sync, created, o.timeout)
}

// nothingHeld says why there is nothing to approve.
func nothingHeld(sync *v1alpha1.NodeSync) error {
	status := summary.Of(sync)
	if status.Reason == v1alpha1.ReasonHeld {
		return fmt.Errorf("what is held of %s cannot be approved: %s", nodeSyncWord(sync.Name), oneLine(status.Message))
	}
	return fmt.Errorf("nothing is held of %s: plumbline status %s -n %s", nodeSyncWord(sync.Name), sync.Name, sync.Namespace)
}

// namesDigest says whether what a person typed names a digest.
func namesDigest(typed, digest string) bool {
	return len(typed) >= len(approval.Short(digest)) && strings.HasPrefix(digest, typed)
}

// printHeld shows what is held, and what it does.
func printHeld(out io.Writer, held *v1alpha1.HeldPlan) {
	fmt.Fprintf(out, "%s: %s\n", approval.Short(held.Digest), held.Summary)
	t := newFittedTable(out, "HELD", "OBJECT", "NODES")
	for _, e := range held.Entries {
		what := "change"
		if e.Definition == "" {
			what = "removal"
		}
		t.AppendRow([]any{what, e.Kind + "/" + e.Name, e.Nodes})
	}
	t.Render()
	if held.Needed > 1 {
		fmt.Fprintf(out, "approved by %s; %d different people are needed\n", orNone(strings.Join(held.Approvers, ", ")), held.Needed)
	}
	if held.Message != "" {
		fmt.Fprintln(out, held.Message)
	}
}

// checkProof asks whether the API server checks who approves. Who may not read that goes on: the
// daemon reads it, and says what it finds.
func (c *cluster) checkProof(ctx context.Context) error {
	proof, err := policy.ReadProof(ctx, c)
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return explain(err, "read ValidatingAdmissionPolicy "+approval.PolicyName)
	case proof.Missing != "":
		return fmt.Errorf("an Approval would not count: %s", proof.Missing)
	}
	if wait := proof.Wait(time.Now()); wait > 0 {
		return fmt.Errorf("an Approval would not count yet: ValidatingAdmissionPolicy %s, or its binding, was changed just now: approve again in %s", approval.PolicyName, short(wait.Truncate(time.Second)+time.Second))
	}
	return nil
}

// createApproval creates an Approval of what is held, by the user who asks.
func (c *cluster) createApproval(ctx context.Context, sync *v1alpha1.NodeSync, o *approveOptions) (*v1alpha1.Approval, error) {
	who := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, who); err != nil {
		return nil, explain(err, "ask the API server who you are")
	}
	author := who.Status.UserInfo.Username
	if strings.HasPrefix(author, "system:serviceaccount:") {
		return nil, fmt.Errorf("you are %s: a person approves, not a ServiceAccount; use a kubeconfig of your own", author)
	}
	created := &v1alpha1.Approval{
		ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, GenerateName: sync.Name + "-"},
		Spec: v1alpha1.ApprovalSpec{
			NodeSync: sync.Name, UID: sync.UID, Digest: sync.Status.Held.Digest, Author: author, Reason: o.reason,
			ExpiresAt: metav1.NewTime(time.Now().Add(o.expires).Truncate(time.Second)),
		},
	}
	err := c.Create(ctx, created)
	switch {
	case apimeta.IsNoMatchError(err):
		return nil, errors.New(approval.NotServed)
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), approval.PolicyName):
		return nil, fmt.Errorf("you are %s, and not allowed to approve in namespace %s: an administrator allows it with `kubectl create rolebinding NAME --clusterrole plumbline-approver --user %s -n %s` (%w)",
			author, sync.Namespace, author, sync.Namespace, err)
	case err != nil:
		return nil, explain(err, "create an Approval")
	}
	return created, nil
}
