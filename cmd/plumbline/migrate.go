package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/internal/steppoint"
	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/migrate"
	"github.com/plumbline-dev/plumbline/provision/migrate/move"
	"github.com/plumbline-dev/plumbline/redact"
)

// fromClusterAutoscaler is the only source of a migration.
const fromClusterAutoscaler = "cluster-autoscaler"

// migrationAWS is the part of AWS that a migration reads and changes.
type migrationAWS interface {
	move.AWS
	Cluster(ctx context.Context, name string) (cloud.Cluster, error)
}

// migrateCommand is `plumbline migrate cluster-autoscaler`.
type migrateCommand struct {
	cluster, region, image string
	keep, unpinned         []string
	dryRun, yes, back      bool
	skipTest               bool
	timeout                time.Duration
	steps                  steppoint.Options

	cmd        *cobra.Command
	kubeconfig *genericclioptions.ConfigFlags
	began      time.Time
	// dial connects to AWS with the user's credentials.
	dial func(ctx context.Context, region string, points steppoint.Points) (migrationAWS, error)
	// attach connects to the cluster, after AWS.
	attach func(ctx context.Context, aws migrationAWS) (*move.Mover, error)
	// exclusive performs what one user at a time may do in the cluster.
	exclusive func(ctx context.Context, perform func(context.Context) error) error
	// poll is how often a state that is waited for is read.
	poll time.Duration
}

// migratePoll is how often a migration reads a state that it waits for.
const migratePoll = 2 * time.Second

func dialMigration(ctx context.Context, region string, points steppoint.Points) (migrationAWS, error) {
	return cloud.NewProvisioner(ctx, cloud.Options{
		Region: region, UserAgent: "plumbline-cli/" + version, Timeout: time.Minute, Attempts: 8, Reached: points.Request,
	})
}

func newMigrateCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	m := &migrateCommand{kubeconfig: kubeconfig, dial: dialMigration, poll: migratePoll}
	m.attach, m.exclusive = m.connect, m.lock
	cmd := &cobra.Command{
		Use:   "migrate " + fromClusterAutoscaler,
		Short: "Move a cluster from the Cluster Autoscaler to Karpenter, one node at a time",
		Long: `Find the Cluster Autoscaler, the node groups that it scales, and what runs on them, and move the
pods to Karpenter's nodes, one node at a time. The command shows the plan, and asks before it
changes anything. Karpenter must be installed, with a NodePool for the pods.

The steps are: test each NodePool as plumbline smoke does; pin the controllers of the cluster
(CoreDNS, CSI, Karpenter, plumbline) to nodes that are not Karpenter's; scale the autoscaler to
zero; cordon the nodes that go away; then, group by group, lower the minimum size, drain each
node, wait until its pods run elsewhere, terminate the instance with the group's desired size,
and query EC2 that it is terminated. Pods are evicted, so PodDisruptionBudgets are respected:
the command waits, and names the one that blocks.

Each group keeps as many nodes as --keep requests; by default the groups together keep what the
controllers need, at least two nodes in two zones. A group that no autoscaler scales stays as
it is, unless --keep names it.

What another tool keeps (Flux, Argo CD, Terraform, a Helm release) is never patched: the
command prints the commit or the command for it, and stops until that is done. --unpinned
leaves a workload on whatever nodes it gets.

The previous sizes, replicas and configuration are recorded in tags and annotations. The same
command continues what was interrupted by Ctrl-C, a kill or an error. --back reverses what was
done: it restores sizes, replicas and add-on configuration. The pods stay where they are. While
another user runs the command for this cluster, it waits: the Lease kube-system/plumbline-migrate.

The required permissions in AWS are printed by plumbline iam-policy --for plumbline --migrate.
In the cluster you need to list Nodes, pods, workloads and NodePools, to patch Nodes and
Deployments, to evict pods, to create and update Leases in kube-system, and what plumbline smoke
needs.

Exit codes: 0 done or no change, 1 an error, 2 changes are pending (--dry-run), 3 a step waits
for you, 4 a node could not be drained, or plumbline smoke has failed.`,
		Example: `  plumbline migrate cluster-autoscaler --cluster prod-eu --dry-run
  plumbline migrate cluster-autoscaler --cluster prod-eu --keep nodegroup/system=3 --keep asg/batch=0
  plumbline migrate cluster-autoscaler --cluster prod-eu --back`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []cobra.Completion{fromClusterAutoscaler},
	}
	output := addOutput(cmd)
	m.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		m.cmd, m.began = cmd, time.Now()
		return m.run(cmd.Context(), *output)
	}
	return cmd
}

func (m *migrateCommand) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&m.cluster, "cluster", "", "name of the EKS cluster; required")
	flags.StringVar(&m.region, "region", "", "region of the cluster; default: that in the API server's address")
	flags.StringArrayVar(&m.keep, "keep", nil, "nodegroup/NAME=N or asg/NAME=N: how many nodes a group keeps; may be repeated")
	flags.StringArrayVar(&m.unpinned, "unpinned", nil, "NAMESPACE/NAME of a workload that may run on Karpenter's nodes; may be repeated")
	flags.StringVar(&m.image, "image", "", "image of the pods that test Karpenter; default: that of plumbline smoke")
	flags.BoolVar(&m.skipTest, "skip-test", false, "do not test Karpenter first")
	flags.BoolVar(&m.dryRun, "dry-run", false, "show the plan, and change nothing")
	flags.BoolVar(&m.back, "back", false, "reverse what was done")
	flags.BoolVarP(&m.yes, "yes", "y", false, "do not ask")
	flags.DurationVar(&m.timeout, "timeout", 30*time.Minute, "how long a step may wait for the same cause")
	m.steps.BindFlags(flags)
	cmd.MarkFlagsMutuallyExclusive("back", "keep")
}

// run plans, asks, and performs the steps.
func (m *migrateCommand) run(ctx context.Context, output format) error {
	wish, err := m.wish()
	if err != nil {
		return err
	}
	points, err := steppoint.New(m.steps)
	if err != nil {
		return err
	}
	aws, err := m.dial(ctx, m.region, points)
	if err != nil {
		return err
	}
	mover, err := m.attach(ctx, aws)
	if err != nil {
		return err
	}
	plan, err := m.plan(ctx, mover, wish)
	if err != nil {
		return err
	}
	if err := output.write(m.cmd.OutOrStdout(), plan, func(out io.Writer) error { printMigration(out, plan); return nil }); err != nil {
		return err
	}
	next := plan.Next()
	switch {
	case next == nil:
		m.say("nothing is left to do")
		return nil
	case m.dryRun:
		return &exitError{code: exitChanges}
	case next.State != migrate.Waits && !m.yes:
		if err := confirmYes(m.cmd, "Proceed?"); err != nil {
			return err
		}
	}
	return m.stopped(ctx, m.exclusive(ctx, func(ctx context.Context) error { return m.replan(ctx, mover, wish) }))
}

// replan plans again, because another user may have changed something meanwhile, and performs the steps.
func (m *migrateCommand) replan(ctx context.Context, mover *move.Mover, wish migrate.Wish) error {
	plan, err := m.plan(ctx, mover, wish)
	if err != nil {
		return err
	}
	return m.perform(ctx, mover, wish, plan)
}

// lock performs what one user at a time may do in the cluster.
func (m *migrateCommand) lock(ctx context.Context, perform func(context.Context) error) error {
	config, err := m.kubeconfig.ToRESTConfig()
	if err != nil {
		return err
	}
	lease, err := newUserLease(config, "plumbline-migrate")
	if err != nil {
		return err
	}
	return exclusively(ctx, lease, m.say, perform)
}

// wish parses the flags.
func (m *migrateCommand) wish() (migrate.Wish, error) {
	w := migrate.Wish{Keep: map[string]int{}, Unpinned: m.unpinned, Tested: m.skipTest}
	if m.cluster == "" {
		return w, errors.New("--cluster is required: the name of the EKS cluster")
	}
	for _, keep := range m.keep {
		id, number, _ := strings.Cut(keep, "=")
		n, err := strconv.Atoi(number)
		kind, name, _ := strings.Cut(id, "/")
		if err != nil || n < 0 || name == "" || kind != "nodegroup" && kind != "asg" {
			return w, fmt.Errorf("--keep %s: give nodegroup/NAME=N or asg/NAME=N", keep)
		}
		w.Keep[id] = n
	}
	for _, one := range m.unpinned {
		if namespace, name, ok := strings.Cut(one, "/"); !ok || namespace == "" || name == "" {
			return w, fmt.Errorf("--unpinned %s: give NAMESPACE/NAME", one)
		}
	}
	var err error
	m.region, err = regionOf(m.kubeconfig, m.region)
	return w, err
}

// connect connects to the cluster, and checks that it is the EKS cluster of the name.
func (m *migrateCommand) connect(ctx context.Context, aws migrationAWS) (*move.Mover, error) {
	is, err := aws.Cluster(ctx, m.cluster)
	if err != nil {
		return nil, err
	}
	c, err := connectTo(ctx, m.kubeconfig, is)
	if err != nil {
		return nil, err
	}
	return &move.Mover{
		Cluster: c, AWS: aws, Name: m.cluster, Plumbline: daemonLabels(), Say: m.say, Poll: m.poll, Timeout: m.timeout, Now: time.Now,
		Test: m.test,
	}, nil
}

// test runs plumbline smoke.
func (m *migrateCommand) test(ctx context.Context) error {
	smoke := newSmokeCommand(m.kubeconfig, byUser())
	smoke.SetOut(m.cmd.ErrOrStderr())
	smoke.SetErr(m.cmd.ErrOrStderr())
	args := []string{"--cluster", m.cluster, "--region", m.region}
	if m.image != "" {
		args = append(args, "--image", m.image)
	}
	smoke.SetArgs(args)
	smoke.SilenceErrors, smoke.SilenceUsage = true, true
	return smoke.ExecuteContext(ctx)
}

// plan reads the facts, and decides.
func (m *migrateCommand) plan(ctx context.Context, mover *move.Mover, wish migrate.Wish) (*migrate.Plan, error) {
	facts, err := mover.Read(ctx)
	if err != nil {
		return nil, err
	}
	if m.back {
		return migrate.Back(facts)
	}
	return migrate.Decide(wish, facts)
}

// stepRepeats is how often a step may be Pending again right after it was performed: AWS's answers may be a moment old.
const stepRepeats = 15

// perform performs the steps, and plans again after each.
func (m *migrateCommand) perform(ctx context.Context, mover *move.Mover, wish migrate.Wish, plan *migrate.Plan) error {
	last, times := "", 0
	for {
		step := plan.Next()
		if step == nil {
			m.finish(plan)
			return nil
		}
		if step.State == migrate.Waits {
			return waitsForUser(plan)
		}
		if key := string(step.Action) + " " + step.Target; key != last {
			last, times = key, 0
			m.say(step.Target + ": " + step.What)
		} else if times++; times > stepRepeats {
			return fmt.Errorf("%s: the step %q was performed %d times, and has no effect: check who else changes it",
				step.Target, step.What, times)
		} else if err := pause.For(ctx, m.poll); err != nil {
			return err
		}
		if err := mover.Do(ctx, step); err != nil {
			return err
		}
		wish.Tested = wish.Tested || step.Action == migrate.Test
		var err error
		if plan, err = m.plan(ctx, mover, wish); err != nil {
			return err
		}
	}
}

// waitsForUser returns the end of a run in which other tools keep what has to be changed.
func waitsForUser(plan *migrate.Plan) error {
	waiting := plan.Waiting()
	lines := make([]string, 0, len(waiting))
	for _, s := range waiting {
		lines = append(lines, fmt.Sprintf("%s: %s\n    %s", s.Target, s.What, s.ByHand))
	}
	return &exitError{code: exitHeld, message: fmt.Sprintf("plumbline: %s for you; then run the same command again:\n  %s",
		english.Plural(len(waiting), "step waits", "steps wait"), strings.Join(lines, "\n  "))}
}

// stopped returns the end of a run with an error.
func (m *migrateCommand) stopped(ctx context.Context, err error) error {
	var stalled *move.StalledError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &exitError{code: exitFailed, message: "plumbline: stopped; run the same command again to continue, or with --back to reverse"}
	case errors.As(err, &stalled):
		return &exitError{code: exitStalled, message: "plumbline: " + err.Error()}
	}
	return err
}

// say prints a line of progress with the time since the start.
func (m *migrateCommand) say(what string) {
	fmt.Fprintf(m.cmd.ErrOrStderr(), "%5.0fs  %s\n", time.Since(m.began).Seconds(), redact.Visible(oneLine(what)))
}

// finish prints what is left for the user.
func (m *migrateCommand) finish(plan *migrate.Plan) {
	m.say("done")
	if m.back {
		return
	}
	fmt.Fprintf(m.cmd.ErrOrStderr(), "next: uninstall %s with the tool that installed it, and delete the node groups that you no longer need. "+
		"Until then, --back reverses the migration.\n", redact.Visible(strings.Join(plan.Autoscalers, ", ")))
}

// printMigration prints the plan: the groups, the workloads that have to stay, and the steps.
func printMigration(out io.Writer, plan *migrate.Plan) {
	if len(plan.Autoscalers) > 0 {
		fmt.Fprintf(out, "Cluster Autoscaler: %s\n\n", strings.Join(plan.Autoscalers, ", "))
	}
	groups := display.NewFittedTable(out, "GROUP", "KIND", "AUTOSCALED", "MIN/DESIRED/MAX", "NODES", "KEEP", "PODS")
	for _, g := range plan.Groups {
		groups.AppendRow([]any{g.Group, g.Kind, yesOrNo(g.Autoscaled), cmp.Or(g.Sizes, "-"), g.Nodes, g.Keep, g.Pods})
	}
	groups.Render()
	if len(plan.Workloads) > 0 {
		fmt.Fprintln(out)
		workloads := display.NewFittedTable(out, "WORKLOAD THAT STAYS", "BECAUSE", "OWNER", "PINNED", "ON")
		for _, w := range plan.Workloads {
			workloads.AppendRow([]any{w.Workload, w.Why, w.Owner, yesOrNo(w.Pinned), cmp.Or(strings.Join(w.On, ", "), "-")})
		}
		workloads.Render()
	}
	if len(plan.Steps) > 0 {
		fmt.Fprintln(out)
		steps := display.NewFittedTable(out, "STEP", "TARGET", "STATE", "WHAT")
		for i, s := range plan.Steps {
			what := s.What
			if s.ByHand != "" {
				what += ": " + s.ByHand
			}
			steps.AppendRow([]any{i + 1, s.Target, string(s.State), what})
		}
		steps.Render()
	}
	for _, blocked := range plan.Blocked {
		fmt.Fprintln(out, "will wait: "+blocked)
	}
	for _, note := range plan.Notes {
		fmt.Fprintln(out, "note: "+note)
	}
}

func yesOrNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
