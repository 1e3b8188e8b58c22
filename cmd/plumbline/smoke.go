package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/internal/junit"
	"github.com/plumbline-dev/plumbline/internal/pause"
	"github.com/plumbline-dev/plumbline/internal/workers"
	"github.com/plumbline-dev/plumbline/provision/preflight"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/smoke"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

// smokesAtOnce is the maximum number of NodePools that are tested at a time.
const smokesAtOnce = 8

// smokeOptions are the flags of `plumbline smoke`.
type smokeOptions struct {
	pools            []string
	namespace, image string
	cluster, region  string
	timeout          time.Duration
}

func newSmokeCommand(kubeconfig *genericclioptions.ConfigFlags, v verification) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "smoke",
		Short: "Test that each NodePool launches a node for a pod, and terminates it",
		Long: `Create a Deployment with one pod for each NodePool, which runs only on a node of that pool
without other pods, so that a node has to be launched, and show how long each stage takes.
Then scale the Deployment to zero, wait until the node is terminated, and query EC2, with your
AWS credentials, whether the instance is.

If a NodePool consolidates empty nodes within 5 minutes, Karpenter terminates the node.
Otherwise the command deletes its NodeClaim, unless other pods run on the node meanwhile.

If no pod runs, the command shows the cause, and ends the test if the same cause lasts for a
minute: definitions that are not Ready, no capacity, and for an instance that does not become
a node what plumbline doctor finds; startup taints and other taints that nothing removes, and
an image that cannot be pulled. Ctrl-C ends all tests, and deletes what they have created. What
a test that was killed has left is deleted at the next run: run only one at a time in a
namespace.

Static NodePools and those of EKS Auto Mode are not tested. You need permissions to create
Deployments in the namespace, to read pods, events, Nodes and Karpenter's objects, to delete
NodeClaims, and ec2:DescribeInstances; for the cause in AWS those of plumbline doctor.

Exit codes: 0 each NodePool has passed, 1 an error, 4 a NodePool has failed.`,
		Example: `  plumbline smoke
  plumbline smoke --pool general --pool gpu -o junit > smoke.xml
  plumbline smoke --image registry.example.com/pause:3.10`,
		Args: cobra.NoArgs,
	}
	o := smokeOptions{}
	output := formatTable
	cmd.Flags().VarP(formatFlag{&output, []string{string(formatTable), string(formatJSON), string(formatYAML), string(formatJUnit)}},
		"output", "o", "how to print the results")
	cmd.Flags().StringArrayVar(&o.pools, "pool", nil, "test only this NodePool; may be repeated")
	cmd.Flags().StringVar(&o.namespace, "workload-namespace", "", "namespace of the Deployments (default: that of the NodeSyncs)")
	cmd.Flags().StringVar(&o.image, "image", smoke.Image, "image of the pods, for all architectures of the NodePools")
	cmd.Flags().StringVar(&o.cluster, "cluster", "", "name of the EKS cluster, if no NodeSync has it")
	cmd.Flags().StringVar(&o.region, "region", "", "region of the cluster, with --cluster")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 10*time.Minute, "time limit for the launch of a node, and again for its termination")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		results, err := o.run(cmd, kubeconfig, v)
		if err != nil {
			return err
		}
		if err := writeSmoke(cmd.OutOrStdout(), output, results); err != nil {
			return err
		}
		return exitOfSmoke(cmd.Context(), results)
	}
	return cmd
}

// run tests the NodePools, and prints progress.
func (o *smokeOptions) run(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, v verification) ([]smoke.Result, error) {
	ctx := cmd.Context()
	c, err := connect(ctx, kubeconfig)
	if err != nil {
		return nil, err
	}
	pools, err := o.poolsOf(ctx, c, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	v.cluster, v.region = o.cluster, o.region
	if err := v.find(ctx, kubeconfig, nil); err != nil {
		return nil, err
	}
	aws, err := dialPatiently(ctx, v.region)
	if err != nil {
		return nil, err
	}
	var printing sync.Mutex
	began := time.Now()
	runner := &smoke.Runner{
		Cluster: c, EC2: aws, Name: v.cluster, Namespace: cmp.Or(o.namespace, c.namespaceOfNodeSyncs(ctx)), Image: o.image,
		Timeout: o.timeout, Poll: time.Second, Now: time.Now, Finding: joinFinding(c, aws, v.cluster, v.region),
		Progress: func(pool, what string) {
			printing.Lock()
			defer printing.Unlock()
			fmt.Fprintf(cmd.ErrOrStderr(), "%5.0fs  %s: %s\n", time.Since(began).Seconds(), redact.Visible(pool), redact.Visible(oneLine(what)))
		},
	}
	deleted, err := runner.Sweep(ctx)
	for _, name := range deleted {
		fmt.Fprintf(cmd.ErrOrStderr(), "deleted %s, which an earlier run has left\n", redact.Visible(name))
	}
	if err != nil {
		return nil, err
	}
	results := make([]smoke.Result, len(pools))
	err = workers.Each(smokesAtOnce, len(pools), func(i int) error {
		results[i] = runner.Test(ctx, pools[i])
		return nil
	})
	return results, err
}

// joinFinding returns a function that runs the checks of plumbline doctor which are about instances that do not become nodes.
func joinFinding(c *clusterAccess, aws preflight.AWS, name, region string) func(ctx context.Context, class, subnet string) (string, error) {
	return func(ctx context.Context, class, subnet string) (string, error) {
		checks, err := preflight.Select(preflight.Joining())
		if err != nil {
			return "", err
		}
		reader := &preflight.Reader{
			AWS: aws, API: c, ControllerLabels: cluster.ControllerLabels(),
			Wait: func(ctx context.Context, until time.Time) error { return pause.For(ctx, time.Until(until)) },
		}
		observed := reader.Read(ctx, checks, preflight.Observed{Now: time.Now(), Cluster: name, Region: region})
		check, f, found := preflight.FirstProblem(preflight.Run(checks, observed.OfInstance(class, subnet)))
		if !found {
			return "", ctx.Err()
		}
		return fmt.Sprintf("%s (plumbline doctor --only %s prints the fix)", f.Message, check), nil
	}
}

// poolsOf reads the NodePools to test, sorted by name.
func (o *smokeOptions) poolsOf(ctx context.Context, c *clusterAccess, progress io.Writer) ([]*karpv1.NodePool, error) {
	kind, _ := render.KindOf(render.NodePool)
	objects, err := definitionsOf(ctx, c, kind)
	if err != nil {
		return nil, err
	}
	for _, name := range o.pools {
		if !slices.ContainsFunc(objects, func(p unstructured.Unstructured) bool { return p.GetName() == name }) {
			return nil, fmt.Errorf("NodePool/%s not found", name)
		}
	}
	var pools []*karpv1.NodePool
	for i := range objects {
		asked := slices.Contains(o.pools, objects[i].GetName())
		if len(o.pools) > 0 && !asked {
			continue
		}
		if why := smoke.Testable(&objects[i]); why != "" {
			if asked {
				return nil, fmt.Errorf("NodePool/%s cannot be tested: %s", objects[i].GetName(), why)
			}
			fmt.Fprintf(progress, "NodePool/%s is not tested: %s\n", redact.Visible(objects[i].GetName()), why)
			continue
		}
		pool := &karpv1.NodePool{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[i].Object, pool); err != nil {
			return nil, fmt.Errorf("read NodePool/%s: %w", objects[i].GetName(), err)
		}
		pools = append(pools, pool)
	}
	if len(pools) == 0 {
		return nil, errors.New("the cluster has no NodePool that can be tested with a pod")
	}
	slices.SortFunc(pools, func(a, b *karpv1.NodePool) int { return cmp.Compare(a.Name, b.Name) })
	return pools, nil
}

func exitOfSmoke(ctx context.Context, results []smoke.Result) error {
	if ctx.Err() != nil {
		return &exitError{code: exitFailed, message: "plumbline: stopped"}
	}
	var failed []string
	for _, r := range results {
		if r.State != smoke.Passed {
			failed = append(failed, "NodePool/"+r.Pool)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &exitError{code: exitStalled, message: "failed: " + strings.Join(failed, ", ")}
}

func writeSmoke(out io.Writer, output format, results []smoke.Result) error {
	if output == formatJUnit {
		return writeJUnit(out, smokeSuite(results).XML)
	}
	return output.write(out, results, func(visible io.Writer) error {
		paint := display.Paint(out)
		t := display.NewFittedTable(visible, "POOL", "RESULT", "TYPE", "ZONE", "LAUNCHED", "RUNNING", "TERMINATED", "CAUSE")
		for _, r := range results {
			colour := text.FgGreen
			if r.State != smoke.Passed {
				colour = text.FgRed
			}
			t.AppendRow([]any{
				r.Pool, paint(string(r.State), colour), cmp.Or(r.Type, "-"), cmp.Or(r.Zone, "-"), secondsOf(r, smoke.Launched),
				secondsOf(r, smoke.Running), secondsOf(r, smoke.Terminated), r.Message,
			})
		}
		t.Render()
		return nil
	})
}

// secondsOf returns how long a stage took.
func secondsOf(r smoke.Result, name smoke.StageName) string {
	for _, s := range r.Stages {
		if s.Name == name {
			return fmt.Sprintf("%ds", s.Seconds)
		}
	}
	return "-"
}

// smokeSuite returns the results with a case for each NodePool.
func smokeSuite(results []smoke.Result) junit.Suite {
	suite := junit.Suite{Name: "plumbline smoke"}
	for _, r := range results {
		one := junit.Case{Class: "NodePool", Name: r.Pool}
		var stages strings.Builder
		for _, s := range r.Stages {
			fmt.Fprintf(&stages, "%s after %d s\n", s.Name, s.Seconds)
		}
		one.Out = stages.String()
		if r.State != smoke.Passed {
			one.Failure = &junit.Trouble{Message: r.Message}
		}
		suite.Cases = append(suite.Cases, one)
	}
	return suite
}
