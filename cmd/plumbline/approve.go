package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
	"github.com/plumbline-dev/plumbline/reconcile/evaluate"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// approveOptions are the flags of `plumbline approve`.
type approveOptions struct {
	digest, reason   string
	expires, timeout time.Duration
	waits, yes       bool
}

func newApproveCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	o := &approveOptions{}
	cmd := &cobra.Command{
		Use:   "approve NODESYNC",
		Short: "Approve changes that the guard holds",
		Long: `Show the changes of a NodeSync that the guard holds, and approve them after a confirmation.

The digest identifies what is held. The commit status, ` + "`plumbline status`" + ` and ` + "`plumbline plan`" + `
show it as 26 letters and digits, which are 130 bits of its SHA-256. --digest takes these 26
characters or the full sha256:<hex>; the command then approves only that digest. If the
plan changes while you confirm, nothing is approved.

The digest covers the result, not the commit. If the result changes, or the number of nodes
grows by more than 10%, the digest changes and you must approve again. An amended commit with
the same files keeps its digest. Nothing can be approved while Git's history or the status is
in doubt, or if Karpenter runs on the affected nodes.

The command creates an Approval in your name. It expires after --expires; changes that it has
already released continue. RBAC decides who may create an Approval (ClusterRole
plumbline-approver), and the API server verifies the name. Each principal has one vote. All
sessions of an IAM role share one vote, unless spec.guard.trustedSessions lists the role.

In a script, use --yes and --digest with the digest that you have reviewed.

Exit codes: 0 approved, with --wait also counted, 1 error, 3 still held, 4 timed out.`,
		Example: "  plumbline approve prod-eu\n  plumbline approve prod-eu --digest d4gjuo35eepqzgr3puqr6de2hn --reason 'batch moves to prod-us' --wait\n" +
			"  plumbline approve prod-eu --digest d4gjuo35eepqzgr3puqr6de2hn --yes",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	cmd.Flags().StringVar(&o.digest, "digest", "", "digest to approve, as shown, or the full sha256:<hex>")
	cmd.Flags().StringVar(&o.reason, "reason", "", "reason, recorded in the Approval")
	cmd.Flags().BoolVar(&o.yes, "yes", false, "skip the confirmation; needs --digest")
	cmd.Flags().DurationVar(&o.expires, "expires", 24*time.Hour, "time within which the Approval can take effect, at most 168h")
	cmd.Flags().BoolVar(&o.waits, "wait", false, "wait until the daemon has counted the Approval")
	cmd.Flags().DurationVar(&o.timeout, "wait-timeout", time.Minute, "longest time that --wait waits")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.expires <= 0 || o.expires > approval.MaxAge {
			return fmt.Errorf("--expires %s: must be more than 0 and at most %s", o.expires, approval.MaxAge)
		}
		if o.yes && o.digest == "" {
			return errors.New("--yes needs --digest: the digest of what you have reviewed")
		}
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		return c.approve(cmd, args[0], o)
	}
	return cmd
}

// approve shows what a NodeSync holds, and approves it once the user has confirmed.
func (c *clusterAccess) approve(cmd *cobra.Command, name string, o *approveOptions) error {
	sync, err := c.nodeSync(cmd.Context(), name)
	if err != nil {
		return err
	}
	held := sync.Status.Held
	if held == nil {
		return nothingHeld(sync)
	}
	printHeld(cmd.OutOrStdout(), sync)
	if o.digest == "" && terminalOf(cmd) == nil {
		return &exitError{
			code:    exitHeld,
			message: "nothing was approved: the input is no terminal to confirm on; in a script: " + approval.Command(sync, held.Digest) + " --yes",
		}
	}
	if o.digest != "" && !render.NamesDigest(o.digest, held.Digest) {
		return fmt.Errorf("%s is not the digest of what %s holds now, which is shown above; to approve that: %s",
			o.digest, nodeSyncWord(sync.Name), approval.Command(sync, held.Digest))
	}
	if strings.HasPrefix(held.Message, approval.Nothing) {
		return errors.New(held.Message)
	}
	if err := c.checkProof(cmd.Context()); err != nil {
		return err
	}
	if !o.yes {
		if err := confirmYes(cmd, "Approve "+render.ShownDigest(held.Digest)+", which "+held.Summary+"?"); err != nil {
			return err
		}
		if err := c.unchanged(cmd.Context(), sync); err != nil {
			return err
		}
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

// nothingHeld returns why there is nothing to approve.
func nothingHeld(sync *v1alpha1.NodeSync) error {
	status := summary.Of(sync)
	if status.Reason == v1alpha1.ReasonHeld {
		return fmt.Errorf("what is held of %s cannot be approved: %s", nodeSyncWord(sync.Name), oneLine(status.Message))
	}
	return fmt.Errorf("nothing is held of %s: plumbline status %s -n %s", nodeSyncWord(sync.Name), sync.Name, sync.Namespace)
}

// unchanged rereads a NodeSync, and returns an error if it now holds something other than what was shown.
func (c *clusterAccess) unchanged(ctx context.Context, shown *v1alpha1.NodeSync) error {
	sync, err := c.nodeSync(ctx, shown.Name)
	if err != nil {
		return err
	}
	now, read := sync.Status.Held, shown.Status.Held
	if now != nil && sync.UID == shown.UID && now.Digest == read.Digest && slices.EqualFunc(now.Entries, read.Entries, noMoreNodes) {
		return nil
	}
	return fmt.Errorf("%s no longer holds the changes that were shown, so nothing was approved; to see what it holds now: plumbline approve %s -n %s", nodeSyncWord(sync.Name), sync.Name, sync.Namespace)
}

// noMoreNodes reports whether an object now has at most as many nodes as shown.
func noMoreNodes(now, shown v1alpha1.ApprovedEntry) bool {
	return now.Kind == shown.Kind && now.Name == shown.Name && now.Nodes <= shown.Nodes
}

// printHeld prints what a NodeSync holds, and its effects.
func printHeld(out io.Writer, sync *v1alpha1.NodeSync) {
	held := sync.Status.Held
	fmt.Fprintf(out, "%s: %s\n", render.ShownDigest(held.Digest), held.Summary)
	t := display.NewFittedTable(out, "HELD", "OBJECT", "NODES", "DETAILS")
	for _, e := range held.Entries {
		what := "change"
		switch {
		case e.Orphan:
			what = "left unmanaged"
		case e.Definition == "":
			what = "removal"
		}
		t.AppendRow([]any{what, plan.Moved(e.Kind+"/"+e.Name, e.MovesTo), e.Nodes, orNone(strings.Join(details(e), "; "))})
	}
	t.Render()
	fmt.Fprintf(out, "the fields and nodes of each: plumbline plan %s -n %s\n", sync.Name, sync.Namespace)
	if held.Needed > 1 {
		fmt.Fprintf(out, "approved by %s; %d different principals are needed\n", orNone(strings.Join(held.Approvers, ", ")), held.Needed)
	}
	if held.Message != "" {
		fmt.Fprintln(out, held.Message)
	}
}

// details returns what an Approval of an object covers besides its nodes: the reasons for holding it, and the pods that
// would be pending.
func details(e v1alpha1.ApprovedEntry) []string {
	var found []string
	if len(e.Reasons) > 0 {
		found = append(found, strings.Join(e.Reasons, ", "))
	}
	if len(e.UnschedulablePods) > 0 {
		pods := make([]string, len(e.UnschedulablePods))
		for i, p := range e.UnschedulablePods {
			pods[i] = fmt.Sprintf("%s of %s", english.Plural(int(p.Pods), "pod", ""), p.Workload)
		}
		found = append(found, "pending: "+strings.Join(pods, ", "))
	}
	if e.LastPool {
		found = append(found, "it is the last NodePool that may launch nodes")
	}
	if len(e.Policies) > 0 {
		found = append(found, "held by policy "+strings.Join(e.Policies, ", "))
	}
	return found
}

// checkProof checks that the API server verifies who approves. A user who may not read the policy continues: the daemon
// reads it, and reports the result.
func (c *clusterAccess) checkProof(ctx context.Context) error {
	proof, err := evaluate.ReadProof(ctx, c)
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return explain(err, "read ValidatingAdmissionPolicy "+approval.PolicyName)
	case proof.Missing != "":
		return fmt.Errorf("an Approval would not count: %s", proof.Missing)
	}
	if wait := proof.Wait(time.Now()); wait > 0 {
		return fmt.Errorf("an Approval does not count yet, because ValidatingAdmissionPolicy %s or its binding was changed just now: approve again in %s", approval.PolicyName, short(wait.Truncate(time.Second)+time.Second))
	}
	return nil
}

// createApproval creates an Approval of what is held, in the name of the user.
func (c *clusterAccess) createApproval(ctx context.Context, sync *v1alpha1.NodeSync, o *approveOptions) (*v1alpha1.Approval, error) {
	who := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, who); err != nil {
		return nil, explain(err, "ask the API server who you are")
	}
	user := who.Status.UserInfo
	author := user.Username
	if strings.HasPrefix(author, "system:serviceaccount:") {
		return nil, fmt.Errorf("you are %s: a ServiceAccount cannot approve; use a kubeconfig with your own user", author)
	}
	created := &v1alpha1.Approval{
		ObjectMeta: metav1.ObjectMeta{Namespace: sync.Namespace, GenerateName: sync.Name + "-"},
		Spec: v1alpha1.ApprovalSpec{
			NodeSync: sync.Name, UID: sync.UID, Digest: sync.Status.Held.Digest, Author: author, AuthorUID: user.UID,
			AuthorExtra: authorExtra(user.Extra), Reason: o.reason,
			ExpiresAt: metav1.NewTime(time.Now().Add(o.expires).Truncate(time.Second)),
		},
	}
	err := c.Create(ctx, created)
	switch {
	case apimeta.IsNoMatchError(err):
		return nil, errors.New(approval.NotServed)
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), approval.PolicyName):
		return nil, fmt.Errorf("you are %s, who may not approve in namespace %s: an administrator can allow it with `kubectl create rolebinding NAME --clusterrole plumbline-approver --user %s -n %s` (%w)",
			author, sync.Namespace, author, sync.Namespace, err)
	case err != nil:
		return nil, explain(err, "create an Approval")
	}
	return created, nil
}

// authorExtra converts a user's extra fields to what an Approval records.
func authorExtra(of map[string]authenticationv1.ExtraValue) map[string]v1alpha1.AuthorExtraValue {
	found := map[string]v1alpha1.AuthorExtraValue{}
	for _, key := range approval.ExtraKeys() {
		if values, set := of[key]; set {
			found[key] = v1alpha1.AuthorExtraValue(values)
		}
	}
	return found
}

// waitApproved waits until the daemon has counted an Approval, or reports why it does not.
func (c *clusterAccess) waitApproved(cmd *cobra.Command, before *v1alpha1.NodeSync, made *v1alpha1.Approval, timeout time.Duration) error {
	name := nodeSyncWord(before.Name)
	err := wait.PollUntilContextTimeout(cmd.Context(), askEvery, timeout, true, func(ctx context.Context) (bool, error) {
		sync, err := c.nodeSync(ctx, before.Name)
		if err != nil {
			return false, err
		}
		if slices.Contains(sync.Status.UsedApprovals, made.UID) {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: approved, it goes ahead: plumbline status %s -n %s\n", name, sync.Name, sync.Namespace)
			return true, nil
		}
		return counted(sync, made)
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return &exitError{
			code:    exitStalled,
			message: fmt.Sprintf("%s: the daemon has not counted the Approval after %s; see its log: plumbline logs", name, short(timeout)),
		}
	}
	return err
}

// counted reports whether the daemon has counted an Approval. It returns an error that stops the wait if too few people
// have approved, the Approval does not count, or something else is held by now.
func counted(sync *v1alpha1.NodeSync, made *v1alpha1.Approval) (bool, error) {
	held, name := sync.Status.Held, nodeSyncWord(sync.Name)
	switch {
	case held == nil || held.Digest != made.Spec.Digest:
		return false, &exitError{code: exitHeld, message: fmt.Sprintf("%s: the held changes are different now, or nothing is held: plumbline approve %s -n %s", name, sync.Name, sync.Namespace)}
	case strings.Contains(held.Message, made.Name):
		return false, errors.New(held.Message)
	case slices.Contains(held.Approvers, made.Spec.Author):
		return false, &exitError{
			code:    exitHeld,
			message: fmt.Sprintf("%s: %d of %d have approved: %s", name, len(held.Approvers), held.Needed, strings.Join(held.Approvers, ", ")),
		}
	}
	return false, nil
}

// approvalOf returns the digest of what the Plan holds, and how to approve it once the daemon holds it; empty if nothing
// can be approved.
func approvalOf(sync *v1alpha1.NodeSync, made *plan.Plan) (digest, how string) {
	held := approval.Publish(sync.Status.Held, made.Approvable, sync.GetNeededApprovals())
	if held == nil {
		return "", ""
	}
	when := "held, once the daemon has this commit"
	if is := sync.Status.Held; is != nil && is.Digest == held.Digest {
		when = "held"
	}
	return held.Digest, fmt.Sprintf("%s: %s; to approve just that: %s", when, held.Summary, approval.Command(sync, held.Digest))
}

// errUnconfirmed is returned if the user does not confirm.
var errUnconfirmed = errors.New("not confirmed: nothing was changed")

// terminalOf returns the terminal that the user types into; nil if the command's input is not a terminal.
func terminalOf(cmd *cobra.Command) *os.File {
	in, isFile := cmd.InOrStdin().(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	return in
}

// typedLine prints a question and returns the line that the user types; empty if the input closes or the context is
// done first.
func typedLine(ctx context.Context, cmd *cobra.Command, terminal *os.File, question string) string {
	fmt.Fprint(cmd.ErrOrStderr(), question)
	lines := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(terminal).ReadString('\n')
		if err != nil {
			line = ""
		}
		lines <- strings.TrimSpace(line)
	}()
	select {
	case <-ctx.Done():
		return ""
	case line := <-lines:
		return line
	}
}

// confirmYes asks a question that only "yes" or "y" confirms. Without a terminal, --yes is required.
func confirmYes(cmd *cobra.Command, question string) error {
	terminal := terminalOf(cmd)
	if terminal == nil {
		return errors.New("the input is no terminal to confirm on: add --yes")
	}
	switch strings.ToLower(typedLine(cmd.Context(), cmd, terminal, question+" [y/N] ")) {
	case "y", "yes":
		return nil
	}
	return errUnconfirmed
}
