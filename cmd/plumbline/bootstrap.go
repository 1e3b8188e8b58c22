package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/bootstrap/deploy"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/redact"
)

// provisioner is the part of AWS that a bootstrap reads and changes.
type provisioner interface {
	deploy.AWS
	deploy.Account
	HasRole(ctx context.Context, name string) (bool, error)
	Instances(ctx context.Context, q cloud.Query) ([]cloud.Instance, error)
	CreateSpotRole(ctx context.Context) (created bool, err error)
	NodeGroups(ctx context.Context, cluster string) ([]cloud.NodeGroup, error)
	SubnetsByID(ctx context.Context, ids []string) (map[string]cloud.Subnet, error)
	SecurityGroupsByID(ctx context.Context, ids []string) (map[string]cloud.SecurityGroup, error)
	TaggedNetwork(ctx context.Context, key, value string) ([]string, error)
	Tag(ctx context.Context, ids []string, tags map[string]string) error
	Untag(ctx context.Context, ids []string, tags map[string]string) error
}

// bootstrapOptions are the flags of `plumbline bootstrap`.
type bootstrapOptions struct {
	cluster, region, auth, version string
	url, path, branch, secret      string
	image, charts, namespace       string
	dryRun, upgrade, undo, yes     bool
	discoveryTags                  bool
	timeout                        time.Duration
	steps                          steppoint.Options
}

// bootstrapCommand sets up AWS and the cluster for plumbline.
type bootstrapCommand struct {
	bootstrapOptions

	cmd        *cobra.Command
	kubeconfig *genericclioptions.ConfigFlags
	aws        provisioner
	stack      *deploy.Deployer
	began      time.Time
	// report prints progress; nil: on stderr.
	report func(what string)
	// dial connects to AWS with the user's credentials, and pause waits.
	dial  func(ctx context.Context, region string, points steppoint.Points) (provisioner, error)
	pause func(ctx context.Context, d time.Duration) error
}

func dialProvisioner(ctx context.Context, region string, steps steppoint.Points) (provisioner, error) {
	return cloud.NewProvisioner(ctx, cloud.Options{
		Region: region, UserAgent: "plumbline-cli/" + version, Timeout: time.Minute, Attempts: 8, Reached: steps.Request,
	})
}

func newBootstrapCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	b := &bootstrapCommand{kubeconfig: kubeconfig, dial: dialProvisioner, pause: pause.For}
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Set up AWS and an EKS cluster for Karpenter and plumbline, from a cluster without either",
		Long: `Create what Karpenter and plumbline need in AWS, and install plumbline in the cluster.

In AWS this is one CloudFormation stack, plumbline-NAME: the role of nodes with its instance
profile and access entry, the role of Karpenter's controller with the policies of the version,
the interruption queue with its rules, and plumbline's role, which only reads. The command
shows the change set, the policies as diffs, and each later step before it changes anything.
A resource that exists with one of the stack's names is never changed: a role of nodes that
needs no change is imported, for anything else the stack's gets another name.

After the stack it creates the account's service-linked role for spot instances, if it does
not exist, and installs plumbline's chart. With --git it also creates the Secret, for which it
asks unless --secret names one, and the NodeSync; then it waits for the first reconcile. Its
last steps are plumbline doctor and plumbline smoke, and it prints what to do next: before the
repository has definitions, the plumbline init command that writes the first ones.

Nothing needs a tag. --discovery-tags sets karpenter.sh/discovery on the subnets and security
groups of the node groups, for EC2NodeClasses that select by it.

The same command continues what was interrupted. --upgrade shows and applies what another
version of Karpenter needs. --undo deletes the stack and these tags, and refuses while nodes or
a NodeSync need it; plumbline teardown --down-to aws removes those first. The authenticationMode
of the cluster is never changed: without access entries, nodes get an entry in the ConfigMap
aws-auth, which is backed up.

-o cloudformation prints the template, and -o terraform the same with the module of
terraform-aws-eks; both change nothing. The required permissions are printed by plumbline
iam-policy --for plumbline --bootstrap. Without them the command prints the template, and the
command for a person who has them.

Exit codes: 0 done or no change, 1 an error, 2 changes are pending (--dry-run), or plumbline
doctor has found a problem, 3 the first commit is held, 4 plumbline smoke has failed.`,
		Example: `  plumbline bootstrap --cluster prod-eu --dry-run
  plumbline bootstrap --cluster prod-eu --git https://github.com/acme/fleet.git --path ./clusters/prod-eu
  plumbline bootstrap --cluster prod-eu --upgrade --version 1.15.0
  plumbline bootstrap --cluster prod-eu -o terraform > karpenter.tf`,
		Args: cobra.NoArgs,
	}
	output := formatTable
	cmd.Flags().VarP(formatFlag{&output, []string{string(formatTable), string(formatCloudFormation), string(formatTerraform)}},
		"output", "o", "print the stack instead of creating it: cloudformation or terraform")
	b.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b.cmd, b.began = cmd, time.Now()
		return b.run(cmd.Context(), output)
	}
	return cmd
}

func (b *bootstrapCommand) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&b.cluster, "cluster", "", "name of the EKS cluster; required")
	flags.StringVar(&b.region, "region", "", "region of the cluster; default: that in the API server's address")
	flags.StringVar(&b.auth, "auth", "", "how pods get credentials: pod-identity or irsa; default: pod-identity, or that of the stack")
	flags.StringVar(&b.version, "version", "", "version of Karpenter; default: the newest that plumbline knows, or that of the stack")
	flags.StringVar(&b.url, "git", "", "URL of the repository that the NodeSync follows; no NodeSync is created without it")
	flags.StringVar(&b.path, "path", "./", "folder of plumbline.yaml in the repository")
	flags.StringVar(&b.branch, "branch", "main", "branch of the repository")
	flags.StringVar(&b.secret, "secret", "", "Secret with the credentials for the repository; default: ask for them")
	flags.StringVar(&b.charts, "charts", "", "repository of Karpenter's charts that commits may name, if it is not upstream's")
	flags.StringVar(&b.image, "image", "", "repository of plumbline's image; default: that of the release")
	flags.StringVar(&b.namespace, "plumbline-namespace", defaultNamespace, "namespace of plumbline")
	flags.BoolVar(&b.discoveryTags, "discovery-tags", false, "tag the subnets and security groups of the node groups: "+bootstrap.DiscoveryTag)
	flags.BoolVar(&b.dryRun, "dry-run", false, "show what would change, and change nothing")
	flags.BoolVar(&b.upgrade, "upgrade", false, "change the stack to --version, or the newest one")
	flags.BoolVar(&b.undo, "undo", false, "delete the stack, and the discovery tags")
	flags.BoolVarP(&b.yes, "yes", "y", false, "do not ask")
	flags.DurationVar(&b.timeout, "timeout", 15*time.Minute, "time limit for the first reconcile of the NodeSync")
	b.steps.BindFlags(flags)
	cmd.MarkFlagsMutuallyExclusive("undo", "upgrade", "output")
	cmd.MarkFlagsMutuallyExclusive("undo", "git")
	cmd.MarkFlagsMutuallyExclusive("undo", "discovery-tags")
	// The flag exists: it is added above.
	_ = cmd.RegisterFlagCompletionFunc("auth",
		cobra.FixedCompletions([]string{string(bootstrap.PodIdentity), string(bootstrap.IRSA)}, cobra.ShellCompDirectiveNoFileComp))
}

// run prints, undoes or creates a cluster's stack, and then installs plumbline.
func (b *bootstrapCommand) run(ctx context.Context, output format) error {
	wish, err := b.connect(ctx)
	if err != nil {
		return err
	}
	if b.undo {
		return b.undoAll(ctx)
	}
	facts, err := b.stack.Read(ctx, b.aws, b.cluster, wish)
	if err != nil {
		return b.withoutRights(ctx, wish, facts, err)
	}
	spec, choices, err := bootstrap.Decide(wish, facts)
	if err != nil {
		return err
	}
	switch output {
	case formatTerraform:
		return bootstrap.WriteTerraform(b.cmd.OutOrStdout(), spec)
	case formatCloudFormation:
		return writeTemplate(b.cmd.OutOrStdout(), spec)
	default:
	}
	steps, err := b.clusterSteps(ctx, spec, facts)
	if err != nil {
		return err
	}
	b.announce(spec, choices)
	if err := b.applyStack(ctx, wish, facts, steps); err != nil {
		return b.withoutRights(ctx, wish, facts, err)
	}
	return b.applySteps(ctx, spec, steps)
}

// regionInHost matches the region in the address of an EKS cluster's API server.
var regionInHost = regexp.MustCompile(`\.([a-z]{2}(?:-[a-z]+)+-\d+)\.eks\.`)

// connect connects to AWS, and returns what the flags request.
func (b *bootstrapCommand) connect(ctx context.Context) (bootstrap.Wish, error) {
	wish := bootstrap.Wish{
		Auth: bootstrap.Auth(b.auth), Version: strings.TrimPrefix(b.version, "v"), Upgrade: b.upgrade,
		Controller: bootstrap.ServiceAccount{Namespace: "kube-system", Name: "karpenter"},
		Plumbline:  bootstrap.ServiceAccount{Namespace: b.namespace, Name: "plumbline"},
		Daemon:     daemonTemplate(),
	}
	switch {
	case b.cluster == "":
		return wish, errors.New("--cluster is required: the name of the EKS cluster")
	case b.auth != "" && wish.Auth != bootstrap.PodIdentity && wish.Auth != bootstrap.IRSA:
		return wish, fmt.Errorf("--auth %q: want %s or %s", b.auth, bootstrap.PodIdentity, bootstrap.IRSA)
	}
	var err error
	if b.region, err = regionOf(b.kubeconfig, b.region); err != nil {
		return wish, err
	}
	wish.Region = b.region
	points, err := steppoint.New(b.steps)
	if err != nil {
		return wish, err
	}
	return wish, b.open(ctx, points)
}

// open connects to AWS.
func (b *bootstrapCommand) open(ctx context.Context, points steppoint.Points) (err error) {
	if b.aws, err = b.dial(ctx, b.region, points); err != nil {
		return err
	}
	b.stack = &deploy.Deployer{
		AWS: b.aws, Stack: bootstrap.StackName(b.cluster), Token: runToken(b.began), Say: b.say,
		Wait: func(ctx context.Context) error { return b.pause(ctx, stackPoll) },
	}
	return nil
}

// regionOf returns the region of a flag; by default that in the address of the cluster's API server.
func regionOf(kubeconfig *genericclioptions.ConfigFlags, flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if config, err := kubeconfig.ToRESTConfig(); err == nil {
		if found := regionInHost.FindStringSubmatch(config.Host); found != nil {
			return found[1], nil
		}
	}
	return "", errors.New("--region is required: the API server's address does not have it")
}

// stackPoll is how often a stack is queried while it changes.
const stackPoll = 2 * time.Second

// runToken identifies a run in the events of a stack: the user, the machine and the time, in the characters of a token.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_ExecuteChangeSet.html
func runToken(now time.Time) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	token := fmt.Sprintf("plumbline-%s-%s-%d", host, now.UTC().Format("20060102-150405"), os.Getpid())
	return regexp.MustCompile(`[^a-zA-Z0-9-]`).ReplaceAllString(token, "-")
}

// say prints a line of progress with the time since the start.
func (b *bootstrapCommand) say(what string) {
	if b.report != nil {
		b.report(what)
		return
	}
	fmt.Fprintf(b.cmd.ErrOrStderr(), "%5.0fs  %s\n", time.Since(b.began).Seconds(), redact.Visible(oneLine(what)))
}

// announce prints what was found.
func (b *bootstrapCommand) announce(spec bootstrap.Spec, choices []bootstrap.Choice) {
	out := &display.Visible{Writer: b.cmd.OutOrStdout()}
	c := spec.Cluster
	fmt.Fprintf(out, "cluster %s in %s, account %s, Karpenter %s, %s\n", c.Name, c.Region, c.Account, spec.Version, spec.Auth)
	for _, choice := range choices {
		fmt.Fprintln(out, choice)
	}
	if !spec.AccessEntries && !spec.AuthMap {
		fmt.Fprintln(out, "the stack has no access entry for nodes: their role has one already")
	}
}

func writeTemplate(out io.Writer, spec bootstrap.Spec) error {
	template, err := bootstrap.New(spec)
	if err != nil {
		return err
	}
	text, err := template.YAML()
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	return err
}

// withoutRights prints the template, and the command that creates the stack from it, if AWS denies the user something. The
// account and the cluster must be known.
func (b *bootstrapCommand) withoutRights(ctx context.Context, wish bootstrap.Wish, facts bootstrap.Facts, err error) error {
	if !deploy.Denied(err) || facts.Cluster.ARN == "" || ctx.Err() != nil {
		return err
	}
	spec, draft := wish.Draft(facts)
	if draft != nil {
		return err
	}
	spec.Choose(facts.Current, facts.Found)
	if written := writeTemplate(b.cmd.OutOrStdout(), spec); written != nil {
		return errors.Join(err, written)
	}
	return fmt.Errorf("%w\n\nThe template is printed on stdout. A person who has the permissions of "+
		"`plumbline iam-policy --for plumbline --bootstrap` creates the stack with\n  %s\nThen run this command again: it continues from there", err, spec.Deploy("template.yaml"))
}
