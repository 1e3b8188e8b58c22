package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	formatText  format = "text"
	formatJUnit format = "junit"
)

// gonePause is the time between two queries: EC2 is eventually consistent, so only two consecutive answers without
// anything left count.
const (
	gonePause   = 3 * time.Second
	goneAnswers = 2
)

// remains queries AWS for what is left of a cluster.
type remains interface {
	Identity(ctx context.Context) (cloud.Identity, error)
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
	Left(ctx context.Context, q cloud.Query) []cloud.Answer
}

// byUser returns a verification that queries as the user.
func byUser() verification {
	return verification{
		dial: dialRemains, dialDeleter: dialDeleter, dialProvisioner: dialProvisioner, pause: gonePause, sweepAfter: sweepAfter, strandedAfter: teardown.StrandedAfter,
		now: time.Now,
	}
}

// dialPatiently connects with the user's credentials. A list of an account may have many pages.
func dialPatiently(ctx context.Context, region string) (*cloud.Client, error) {
	return cloud.New(ctx, cloud.Options{Region: region, UserAgent: "plumbline-cli/" + version, Timeout: time.Minute})
}

func dialRemains(ctx context.Context, region string) (remains, error) {
	return dialPatiently(ctx, region)
}

func newVerifyCommand(kubeconfig *genericclioptions.ConfigFlags, v verification) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify [NODESYNC]",
		Short: "Query AWS for leftover resources of a cluster's Karpenter",
		Long: `Query EC2 and IAM, with your AWS credentials, for leftover resources of a cluster's
Karpenter: instances in any state except terminated, unattached volumes and network
interfaces, launch templates, and instance profiles. The command deletes nothing.

With --cluster and --region only AWS is queried, so the cluster may already be gone.
Otherwise cluster and region come from the NodeSync, and your AWS credentials must belong to
the account of its cluster. Volumes of retained PersistentVolumes are then listed but do not
count as leftovers. The same applies if you give --cluster together with --context or
--kubeconfig. A volume with the tag plumbline.dev/keep never counts.

You have to delete the leftovers yourself. If Karpenter still runs, delete the NodeClaim:
that drains its node and terminates its instance. Delete instances, volumes, interfaces, launch
templates and instance profiles without an owner in AWS. The required permissions are in
manifests/iam-policy-verify.json.

Exit codes: 0 AWS has answered every query, twice, and nothing is left; 1 an error, a query
that AWS did not answer or denied, or nothing in this region while IAM has instance
profiles of a cluster of this name in another region; 4 something is left.`,
		Example: `  plumbline verify prod-eu
  plumbline verify --cluster prod-eu --region eu-west-1 --account 111122223333 -o junit > gone.xml`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := formatText
	cmd.Flags().VarP(formatFlag{&output, []string{string(formatText), string(formatJSON), string(formatJUnit)}}, "output", "o", "how to print")
	cmd.Flags().Bool("gone", true, "verify that nothing is left; the only check, and the default")
	_ = cmd.Flags().MarkHidden("gone") // the flag exists
	cmd.Flags().StringVar(&v.cluster, "cluster", "", "name of the EKS cluster, if no NodeSync has it")
	cmd.Flags().StringVar(&v.region, "region", "", "region of the cluster, with --cluster")
	cmd.Flags().StringVar(&v.account, "account", "", "ID of the AWS account that the credentials must belong to")
	cmd.Flags().DurationVar(&v.timeout, "timeout", 0, "how long to repeat the queries while something is left; 0 queries once")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := v.find(cmd.Context(), kubeconfig, args); err != nil {
			return err
		}
		report, err := v.queryUntilGone(cmd.Context())
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

// exitOfReport returns an exit code for what is left. If AWS has not answered a query, that is unknown.
func exitOfReport(report leftover.Report) error {
	switch misplaced := report.Misplaced(); {
	case misplaced != "":
		return &exitError{code: exitFailed, message: "plumbline: " + misplaced}
	case report.Unanswered():
		return &exitError{code: exitFailed, message: "plumbline: AWS did not answer every query, so it is unknown whether something is left"}
	case !report.Gone:
		return &exitError{code: exitStalled, message: "left in AWS: " + report.String()}
	}
	return nil
}

// verification queries AWS for what is left of one cluster.
type verification struct {
	// dial connects to AWS in a region, dialDeleter connects to delete something there, and dialProvisioner to delete the
	// stack of plumbline bootstrap.
	dial            func(ctx context.Context, region string) (remains, error)
	dialDeleter     func(ctx context.Context, region string, points steppoint.Points) (deleter, error)
	dialProvisioner func(ctx context.Context, region string, points steppoint.Points) (provisioner, error)
	cluster, region string
	// account is the required AWS account; if empty, any. authority is the PEM of the API server's certificate
	// authority, with which EKS confirms the cluster if account is unknown; if nil, only AWS is queried.
	account   string
	authority []byte
	// here is true if the cluster is known to be, or to have been, in the region.
	here bool
	// nodes are the provider IDs of existing NodeClaims.
	nodes   []string
	volumes func(ctx context.Context) (map[string]leftover.Volume, error)
	// stays is what the cluster keeps.
	stays leftover.Known
	// timeout limits the queries, and pause is the time between two of them. sweepAfter is how long a resource must
	// have been left over before a sweep deletes it, and strandedAfter how long Karpenter must have left an instance
	// before it is terminated.
	timeout, pause, sweepAfter, strandedAfter time.Duration
	now                                       func() time.Time
}

// queryUntilGone queries AWS until nothing is left, or the time is over.
func (v *verification) queryUntilGone(ctx context.Context) (leftover.Report, error) {
	aws, account, err := v.open(ctx)
	if err != nil {
		return leftover.Report{}, err
	}
	until, inARow := v.now().Add(v.timeout), 0
	for {
		report, err := v.queryAll(ctx, aws, account)
		if err != nil {
			return leftover.Report{}, err
		}
		inARow++
		if !report.Gone {
			inARow = 0
		}
		if inARow == goneAnswers || !report.Gone && (report.Denied() || len(report.Elsewhere) > 0 || !v.now().Before(until)) {
			return report, nil
		}
		if err := pause.For(ctx, v.pause); err != nil {
			return leftover.Report{}, err
		}
	}
}

// once queries what is left now.
func (v *verification) once(ctx context.Context) (leftover.Report, error) {
	aws, account, err := v.open(ctx)
	if err != nil {
		return leftover.Report{}, err
	}
	return v.queryAll(ctx, aws, account)
}

// open connects to AWS, in the required account.
func (v *verification) open(ctx context.Context) (aws remains, account string, err error) {
	if aws, err = v.dial(ctx, v.region); err != nil {
		return nil, "", err
	}
	account, err = v.confirmed(ctx, aws)
	return aws, account, err
}

// queryAll sends each query once.
func (v *verification) queryAll(ctx context.Context, aws remains, account string) (leftover.Report, error) {
	answers, known, err := v.answers(ctx, aws)
	if err != nil {
		return leftover.Report{}, err
	}
	return v.judge(answers, known, account), nil
}

// answers returns AWS's answers, and what the cluster knows about them.
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
	report := leftover.NewReport(v.placed(answers), known)
	report.Cluster, report.Region, report.Account = v.cluster, v.region, account
	return report
}

// placed returns answers without what they report about other regions, if the cluster is or was known to be in this
// one: another region may have a cluster of the same name.
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

// confirmed returns the account that AWS answers for. It must be the one with the cluster: in another one nothing would
// be left either.
func (v *verification) confirmed(ctx context.Context, aws remains) (account string, err error) {
	who, err := aws.Identity(ctx)
	if err != nil {
		return "", fmt.Errorf("find the AWS account of the credentials: %w", err)
	}
	if v.account != "" {
		if who.Account != v.account {
			return "", fmt.Errorf("the AWS credentials are for account %s, but the cluster is in %s: use credentials of that account (AWS_PROFILE)",
				who.Account, v.account)
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

// sameCluster returns an error if the EKS cluster of the name may not be the one of the API server.
func (v *verification) sameCluster(ctx context.Context, aws remains) error {
	found, err := aws.Cluster(ctx, v.cluster)
	if err != nil {
		return fmt.Errorf("check that the AWS credentials are for this cluster's account: %w; give the account with --account", err)
	}
	if verdict := cloud.Verify(found, v.authority, nil, nil); !verdict.OK {
		return errors.New(verdict.Message)
	}
	return nil
}

// find takes the names from the flags, or from a NodeSync, and reads the cluster's volumes and NodeClaims.
func (v *verification) find(ctx context.Context, kubeconfig *genericclioptions.ConfigFlags, args []string) error {
	switch {
	case v.cluster == "" && v.region != "":
		return errors.New("--region needs --cluster: the region of a NodeSync is known")
	case v.cluster != "" && len(args) > 0:
		return errors.New("a NodeSync and --cluster cannot be combined")
	case v.cluster != "" && v.region == "":
		return errors.New("--cluster needs --region: give the region of the cluster")
	case v.cluster != "" && *kubeconfig.KubeConfig == "" && *kubeconfig.Context == "":
		return nil // only AWS is queried
	}
	c, err := connect(ctx, kubeconfig)
	if err != nil {
		return err
	}
	if v.cluster == "" {
		sync, err := c.oneNodeSync(ctx, args)
		if err != nil {
			return err
		}
		if err := v.useNamesOf(sync); err != nil {
			return err
		}
	}
	return v.readCluster(ctx, c)
}

// oneNodeSync returns the named NodeSync, or any of the namespace that knows its cluster: they all have the same.
func (c *clusterAccess) oneNodeSync(ctx context.Context, args []string) (*v1alpha1.NodeSync, error) {
	if len(args) > 0 {
		return c.nodeSync(ctx, args[0])
	}
	list, err := c.readAll(ctx, false)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Status.Karpenter != nil {
			return &list.Items[i], nil
		}
	}
	return nil, fmt.Errorf("no NodeSync in namespace %s has the cluster's name: give --cluster and --region", c.namespaceOfNodeSyncs(ctx))
}

// useNamesOf takes the names from a NodeSync, and the account that its daemon has confirmed.
func (v *verification) useNamesOf(sync *v1alpha1.NodeSync) error {
	k := sync.Status.Karpenter
	if k == nil || k.Cluster == "" || k.Region == "" {
		return fmt.Errorf("nodesync/%s does not have the cluster's name yet: give --cluster and --region", sync.Name)
	}
	v.cluster, v.region = k.Cluster, k.Region
	if v.account == "" {
		v.account = cloud.AccountOf(k.ClusterARN)
	}
	v.here = k.ClusterARN != "" // AWS has confirmed it
	v.stays.Protected = map[string]bool{}
	for _, id := range sync.Status.IdentityConflict.GetResponse().Protected {
		v.stays.Protected[id] = true
	}
	return nil
}

// readCluster reads what the API server knows.
func (v *verification) readCluster(ctx context.Context, c *clusterAccess) (err error) {
	if v.authority, err = certificateAuthority(c.config); err != nil {
		return err
	}
	if v.authority == nil {
		v.authority = []byte{} // required, but unknown
	}
	if v.nodes, err = c.providerIDs(ctx); err != nil {
		return err
	}
	v.volumes = c.volumes
	return nil
}

// providerIDs returns the provider IDs of NodeClaims, except those of EKS Auto Mode, whose instances AWS terminates.
func (c *clusterAccess) providerIDs(ctx context.Context) (ids []string, err error) {
	list := &karpv1.NodeClaimList{}
	if err := c.List(ctx, list); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeClaims")
	}
	for i := range list.Items {
		if class := list.Items[i].Spec.NodeClassRef; class != nil && render.ClassOfAutoMode(class.Group) {
			continue
		}
		if id := list.Items[i].Status.ProviderID; id != "" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// writeReport prints a report in the format of -o.
func writeReport(out io.Writer, output format, report leftover.Report) error {
	switch output {
	case formatJSON:
		return writeJSON(out, report, redact.VisibleJSON)
	case formatJUnit:
		return writeJUnit(out, report.JUnit)
	default:
	}
	printReport(&display.Visible{Writer: out}, report)
	return nil
}

// printReport prints a report as text: what is left, what is kept, and each unanswered query in full.
func printReport(out io.Writer, report leftover.Report) {
	fmt.Fprintf(out, "cluster %s in %s of account %s\n", report.Cluster, report.Region, report.Account)
	t, rows := display.NewFittedTable(out, "LEFT", "ID", "ZONE", "STATE", "WHAT"), 0
	add := func(kind string, items []leftover.Item) {
		for _, item := range items {
			t.AppendRow([]any{kind, item.ID, orNone(item.Zone), orNone(item.State), orNone(item.What)})
			rows++
		}
	}
	for _, kind := range report.Kinds {
		add(leftover.Noun(kind.Kind), kind.Left)
	}
	for _, kind := range report.Kinds {
		add(leftover.Noun(kind.Kind)+" (kept)", kind.Kept)
	}
	if rows > 0 {
		fmt.Fprintln(out)
		t.Render()
	}
	if report.Unanswered() {
		fmt.Fprintln(out)
	}
	for _, kind := range report.Kinds {
		if kind.Error != "" {
			fmt.Fprintf(out, "%ss: %s\n", leftover.Noun(kind.Kind), kind.Error)
		}
	}
	if words := report.Misplaced(); words != "" {
		fmt.Fprintln(out, "\n"+words)
	}
	if report.Gone {
		fmt.Fprintln(out, "nothing is left: AWS was queried for instances, volumes, network interfaces, launch templates and instance profiles")
	}
}

// volumeID matches the ID of an EBS volume, in any notation: vol-1 for the EBS CSI driver, aws://eu-west-1a/vol-1 in
// tree, and anything else for other drivers.
var volumeID = regexp.MustCompile(`vol-[0-9a-z]+`)

// volumes returns what uses EBS volumes in the cluster, by their ID: PersistentVolumes of any driver, and pods with
// inline volumes.
func (c *clusterAccess) volumes(ctx context.Context) (map[string]leftover.Volume, error) {
	list := &corev1.PersistentVolumeList{}
	if err := c.List(ctx, list); err != nil {
		return nil, explain(err, "list PersistentVolumes")
	}
	all := map[string]leftover.Volume{}
	for i := range list.Items {
		pv := &list.Items[i]
		volume := leftover.Volume{Name: pv.Name, Retained: pv.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain}
		if claim := pv.Spec.ClaimRef; claim != nil {
			volume.Claim = claim.Namespace + "/" + claim.Name
		}
		for _, id := range volumesOf(&pv.Spec) {
			if known := all[id]; !known.Retained {
				all[id] = volume
			}
		}
	}
	return all, c.inlineVolumes(ctx, all)
}

// volumesOf returns the IDs in a PersistentVolume.
func volumesOf(spec *corev1.PersistentVolumeSpec) []string {
	var names []string
	if spec.CSI != nil {
		names = append(slices.Sorted(maps.Values(spec.CSI.VolumeAttributes)), spec.CSI.VolumeHandle)
	}
	if spec.AWSElasticBlockStore != nil {
		names = append(names, spec.AWSElasticBlockStore.VolumeID)
	}
	var ids []string
	for _, name := range names {
		ids = append(ids, volumeID.FindAllString(name, -1)...)
	}
	return ids
}

// podsAtOnce is the page size for listing pods.
const podsAtOnce = 500

// inlineVolumes adds the volumes that pods reference without a PersistentVolume.
func (c *clusterAccess) inlineVolumes(ctx context.Context, all map[string]leftover.Volume) error {
	for from := ""; ; {
		list := &corev1.PodList{}
		if err := c.List(ctx, list, client.Limit(podsAtOnce), client.Continue(from)); err != nil {
			return explain(err, "list pods, which may name EBS volumes")
		}
		for i := range list.Items {
			pod := &list.Items[i]
			for _, v := range pod.Spec.Volumes {
				if v.AWSElasticBlockStore == nil {
					continue
				}
				for _, id := range volumeID.FindAllString(v.AWSElasticBlockStore.VolumeID, -1) {
					if _, known := all[id]; !known {
						all[id] = leftover.Volume{Pod: pod.Namespace + "/" + pod.Name}
					}
				}
			}
		}
		if from = list.Continue; from == "" {
			return nil
		}
	}
}
