package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/steppoint"
)

const (
	formatText  format = "text"
	formatJUnit format = "junit"
)

// gonePause is how long EC2 is left between two questions: its answers are consistent in the end, and
// that nothing is left is believed when it has said so twice in a row.
const (
	gonePause = 3 * time.Second
	goneTwice = 2
)

// remains is AWS, as far as it says what is left of a cluster.
type remains interface {
	Identity(ctx context.Context) (cloud.Identity, error)
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
	Left(ctx context.Context, q cloud.Query) []cloud.Answer
}

// byUser is a verification that asks as the user.
func byUser() verification {
	return verification{dial: dialRemains, dialEnder: dialEnder, pause: gonePause, sweepAfter: sweepAfter, strandedAfter: strandedAfter, now: time.Now}
}

// dialRemains reaches it with the credentials of the user. A list of an account may have many pages.
func dialRemains(ctx context.Context, region string) (remains, error) {
	return cloud.New(ctx, cloud.Options{Region: region, UserAgent: "plumbline-cli/" + version, Timeout: time.Minute})
}

func newVerifyCommand(kubeconfig *genericclioptions.ConfigFlags, v verification) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [NODESYNC]",
		Short: "Ask AWS what of a cluster's Karpenter is left",
		Long: `Ask EC2 and IAM, with your AWS credentials, what of a cluster's Karpenter is left:
instances in any state but terminated, volumes and network interfaces that are
attached to none, launch templates, instance profiles. Nothing is deleted.

With --cluster and --region only AWS is asked: the cluster may be gone. Else the
names are those of the NodeSync, AWS has to be the account of its cluster, and
volumes of PersistentVolumes that are retained are listed, and do not count; so
they do with --cluster where --context or --kubeconfig names the cluster too. A
volume with the tag plumbline.dev/keep never counts.

What is left has to be deleted by you: a NodeClaim drains and ends its instance
where Karpenter runs; an instance, volume, interface, launch template or instance
profile that nothing owns any more is deleted in AWS. The rights that the
questions need are in manifests/iam-policy-verify.json.

Exit codes: 0 AWS has answered every question, twice, and nothing is left;
1 an error, a question without an answer, such as one that AWS denies, or nothing in
this region while IAM has instance profiles of the cluster's name for another one;
4 something is left.`,
		Example: `  plumbline verify prod-eu
  plumbline verify --cluster prod-eu --region eu-west-1 --account 111122223333 -o junit > gone.xml`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := formatText
	cmd.Flags().VarP(formatFlag{&output, []string{string(formatText), string(formatJSON), string(formatJUnit)}}, "output", "o", "how to print")
	cmd.Flags().Bool("gone", true, "verify that nothing is left; the only check, and the default")
	_ = cmd.Flags().MarkHidden("gone") // the flag exists
	cmd.Flags().StringVar(&v.cluster, "cluster", "", "name of the EKS cluster, for where no NodeSync says it")
	cmd.Flags().StringVar(&v.region, "region", "", "region of the cluster, with --cluster")
	cmd.Flags().StringVar(&v.account, "account", "", "account that AWS has to be, by its number")
	cmd.Flags().DurationVar(&v.timeout, "timeout", 0, "how long to ask again while something is left; 0 does not")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := v.find(cmd.Context(), kubeconfig, args); err != nil {
			return err
		}
		report, err := v.ask(cmd.Context())
		if err != nil {
			return err
		}
		if err := writeReport(cmd.OutOrStdout(), output, report); err != nil {
			return err
		}
		return exitOfReport(report)
	}
	return cmd
}

// exitOfReport says by the exit code what is left. Where AWS has not answered a question, nobody knows.
func exitOfReport(report leftover.Report) error {
	switch misplaced := report.Misplaced(); {
	case misplaced != "":
		return &exitError{code: exitFailed, message: "plumbline: " + misplaced}
	case report.Unanswered():
		return &exitError{code: exitFailed, message: "plumbline: AWS has not answered every question: what is left is not known"}
	case !report.Gone:
		return &exitError{code: exitStalled, message: "left in AWS: " + report.String()}
	}
	return nil
}

// verification asks what is left of one cluster.
type verification struct {
	// dial reaches AWS in a region, dialEnder to end something there.
	dial            func(ctx context.Context, region string) (remains, error)
	dialEnder       func(ctx context.Context, region string, points steppoint.Points) (ender, error)
	cluster, region string
	// account that AWS has to be; empty: any. authority is the PEM of the API server's
	// certificate authority, by which EKS confirms the cluster where account is not known; nil:
	// only AWS is asked.
	account   string
	authority []byte
	// here says that the cluster is known to be in the region, or to have been.
	here bool
	// nodes are the provider IDs of NodeClaims that there are.
	nodes   []string
	volumes func(ctx context.Context) (map[string]leftover.Volume, error)
	// stays is what of the cluster is not asked to go.
	stays leftover.Known
	// timeout is how long to ask again, pause how long between two questions, sweepAfter how long
	// something has to be left before a sweep deletes it, and strandedAfter how long Karpenter has to
	// have left an instance before it is terminated.
	timeout, pause, sweepAfter, strandedAfter time.Duration
	now                                       func() time.Time
}

// ask asks until nothing is left, or the time is over.
func (v *verification) ask(ctx context.Context) (leftover.Report, error) {
	aws, account, err := v.open(ctx)
	if err != nil {
		return leftover.Report{}, err
	}
	until, inARow := v.now().Add(v.timeout), 0
	for {
		report, err := v.look(ctx, aws, account)
		if err != nil {
			return leftover.Report{}, err
		}
		inARow++
		if !report.Gone {
			inARow = 0
		}
		if inARow == goneTwice || !report.Gone && (report.Denied() || len(report.Elsewhere) > 0 || !v.now().Before(until)) {
			return report, nil
		}
		if err := pauseFor(ctx, v.pause); err != nil {
			return leftover.Report{}, err
		}
	}
}

// once asks what there is now.
func (v *verification) once(ctx context.Context) (leftover.Report, error) {
	aws, account, err := v.open(ctx)
	if err != nil {
		return leftover.Report{}, err
	}
	return v.look(ctx, aws, account)
}

// open reaches AWS, in the account that it has to be.
func (v *verification) open(ctx context.Context) (aws remains, account string, err error) {
	if aws, err = v.dial(ctx, v.region); err != nil {
		return nil, "", err
	}
	account, err = v.confirmed(ctx, aws)
	return aws, account, err
}

// look asks each question once.
func (v *verification) look(ctx context.Context, aws remains, account string) (leftover.Report, error) {
	answers, known, err := v.answers(ctx, aws)
	if err != nil {
		return leftover.Report{}, err
	}
	return v.judge(answers, known, account), nil
}

// answers are AWS's, and what the cluster says of them.
func (v *verification) answers(ctx context.Context, aws remains) (answers []cloud.Answer, known leftover.Known, err error) {
	known = v.stays
	if v.volumes != nil {
		if known.Volumes, err = v.volumes(ctx); err != nil {
			return nil, known, err
		}
	}
	answers = aws.Left(ctx, cloud.Query{Cluster: v.cluster, ProviderIDs: v.nodes})
	v.here = v.here || slices.ContainsFunc(answers, func(a cloud.Answer) bool { return len(a.Resources) > 0 })
	return answers, known, ctx.Err()
}

func (v *verification) judge(answers []cloud.Answer, known leftover.Known, account string) leftover.Report {
	report := leftover.Judge(v.placed(answers), known)
	report.Cluster, report.Region, report.Account = v.cluster, v.region, account
	return report
}

// placed are answers without what they say of other regions, where it is known that the cluster is, or was, in
// this one: another one may have its name.
func (v *verification) placed(answers []cloud.Answer) []cloud.Answer {
	if !v.here {
		return answers
	}
	answers = slices.Clone(answers)
	for i := range answers {
		answers[i].Elsewhere = nil
	}
	return answers
}

// confirmed is the account that AWS answers for, which has to be the one with the cluster: in
// another one nothing would be left either.
func (v *verification) confirmed(ctx context.Context, aws remains) (account string, err error) {
	who, err := aws.Identity(ctx)
	if err != nil {
		return "", fmt.Errorf("find out which AWS account is asked: %w", err)
	}
	if v.account != "" {
		if who.Account != v.account {
			return "", fmt.Errorf("AWS answers for account %s, and the cluster is in %s: use credentials of that account (AWS_PROFILE)", who.Account, v.account)
		}
		return who.Account, nil
	}
	if v.authority == nil {
		return who.Account, nil
	}
	err = v.sameCluster(ctx, aws)
	v.here = v.here || err == nil
	return who.Account, err
}

// sameCluster says why the EKS cluster of the name may not be the one whose API server answers.
func (v *verification) sameCluster(ctx context.Context, aws remains) error {
	found, err := aws.Cluster(ctx, v.cluster)
	if err != nil {
		return fmt.Errorf("check that AWS answers for this cluster: %w; --account says which account it is in", err)
	}
	if verdict := cloud.Verify(found, v.authority, nil, nil); !verdict.OK {
		return errors.New(verdict.Message)
	}
	return nil
}

// pauseFor waits, or ends with ctx.
func pauseFor(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
