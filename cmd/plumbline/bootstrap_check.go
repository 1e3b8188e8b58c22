package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/bootstrap"
	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// check waits for the first reconcile, runs plumbline doctor and plumbline smoke, and prints what to do next. Before the
// repository has definitions there is no NodePool to test, and doctor runs the checks that need none. Without --git, a cluster
// that follows a repository already is not tested again: that would launch nodes.
func (b *bootstrapCommand) check(ctx context.Context, spec bootstrap.Spec) error {
	defined, err := b.firstReconcile(ctx)
	if err != nil {
		return err
	}
	if err := b.doctor(ctx, spec, defined); err != nil {
		return err
	}
	if defined && b.url != "" {
		if err := b.smoke(ctx); err != nil {
			return err
		}
	}
	b.say("done")
	b.next(spec, defined)
	return nil
}

// firstReconcile waits until the NodeSync is Ready. defined is false if there is no NodeSync, or if its repository has no
// definitions yet.
func (b *bootstrapCommand) firstReconcile(ctx context.Context) (defined bool, err error) {
	c, err := connect(ctx, b.kubeconfig)
	if err != nil {
		return false, err
	}
	if b.url == "" {
		return anyApplied(ctx, c)
	}
	name := b.nodeSyncName()
	c.namespace, c.settled = b.namespace, true
	b.say("waiting until NodeSync " + name + " is Ready")
	requested, err := c.requestReconcile(ctx, name)
	if err != nil {
		return false, err
	}
	if err = c.waitReconciled(b.cmd, name, requested, waitForApplied, b.timeout); err == nil {
		return true, nil
	}
	sync, unread := c.nodeSync(context.WithoutCancel(ctx), name)
	if ctx.Err() == nil && unread == nil && withoutDefinitions(sync) {
		b.say("the repository has no definitions for the cluster yet: " + conditions.GetMessage(sync, meta.ReadyCondition))
		return false, nil
	}
	b.say(fmt.Sprintf("the stack and plumbline are set up, but the first reconcile did not succeed: plumbline status %s -n %s", name, b.namespace))
	return false, err
}

// anyApplied reports whether a NodeSync of the cluster has applied definitions.
func anyApplied(ctx context.Context, c client.Reader) (bool, error) {
	all := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, all); err != nil {
		if apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, nil // the CRD is a moment old
		}
		return false, explain(err, "list NodeSyncs")
	}
	return slices.ContainsFunc(all.Items, func(s v1alpha1.NodeSync) bool { return s.Status.LastAppliedRevision != "" }), nil
}

// undefined are parts of the messages of a repository without definitions: those of source.NotFoundError, render.MissingError
// and render.EmptyError.
var undefined = []string{
	"the repository is empty", "the repository has no branch", "is not in the repository: put it there", "holds no NodePool and no EC2NodeClass",
}

// withoutDefinitions reports whether the repository of a NodeSync has never had definitions for the cluster.
func withoutDefinitions(sync *v1alpha1.NodeSync) bool {
	message := conditions.GetMessage(sync, meta.ReadyCondition)
	return sync.Status.LastAppliedRevision == "" && conditions.IsFalse(sync, meta.ReadyCondition) &&
		slices.ContainsFunc(undefined, func(part string) bool { return strings.Contains(message, part) })
}

// beforeDefinitions are the checks of doctor that need neither Karpenter nor definitions.
var beforeDefinitions = []string{"other-controllers", "daemonsets", "support", "leftovers"}

// doctor runs plumbline doctor. Before there are definitions, what it finds does not keep the command from its next step.
func (b *bootstrapCommand) doctor(ctx context.Context, spec bootstrap.Spec, defined bool) error {
	b.say("plumbline doctor")
	d := newDoctor()
	d.cluster, d.region = b.cluster, b.region
	if !defined {
		d.only, d.version = beforeDefinitions, spec.Version
	}
	report, err := d.examine(ctx, b.kubeconfig, nil)
	if err != nil {
		return err
	}
	if err := writeDoctor(b.cmd.OutOrStdout(), formatTable, report); err != nil || !defined {
		return err
	}
	return exitOfDoctor(report)
}

// smoke runs plumbline smoke.
func (b *bootstrapCommand) smoke(ctx context.Context) error {
	b.say("plumbline smoke")
	smoke := newSmokeCommand(b.kubeconfig, byUser())
	smoke.SetOut(b.cmd.OutOrStdout())
	smoke.SetErr(b.cmd.ErrOrStderr())
	smoke.SetArgs([]string{"--cluster", b.cluster, "--region", b.region})
	smoke.SilenceErrors, smoke.SilenceUsage = true, true
	return smoke.ExecuteContext(ctx)
}

// next prints what to do next.
func (b *bootstrapCommand) next(spec bootstrap.Spec, defined bool) {
	fmt.Fprint(b.cmd.OutOrStdout(), "\nnext:\n"+b.nextSteps(spec, defined))
}

// nextSteps returns what to do next: with definitions, how to look at the cluster; without, how to write and push the first
// ones.
func (b *bootstrapCommand) nextSteps(spec bootstrap.Spec, defined bool) string {
	if defined {
		return fmt.Sprintf("  plumbline get -n %[1]s            the NodeSyncs of the cluster\n"+
			"  plumbline status %[2]s -n %[1]s   whether the cluster follows its repository\n"+
			"  plumbline tree %[2]s -n %[1]s     its NodePools and nodes, and what they wait for\n", b.namespace, b.nodeSyncName())
	}
	lines := []string{
		"In a clone of the repository, write the first definitions, and push them:", "     " + b.initCommand(spec),
		fmt.Sprintf("     (by hand: plumbline.yaml with cluster.interruptionQueue %s, EC2NodeClasses with spec.role %s)",
			spec.Name(bootstrap.Queue), spec.Name(bootstrap.NodeRole)),
		"Merge the branch.",
	}
	if b.url == "" {
		lines = append(lines, "Connect the repository:",
			fmt.Sprintf("     plumbline bootstrap --cluster %s --region %s --git URL --path ./clusters/%s", b.cluster, b.region, b.cluster))
	} else {
		lines = append(lines, "Run this command again: it waits for the first reconcile, and tests that nodes launch.")
	}
	if b.discoveryTags {
		lines = append(lines, fmt.Sprintf("EC2NodeClasses can select subnets and security groups by {tags: {%s: %s}}.", bootstrap.DiscoveryTag, b.cluster))
	}
	var text strings.Builder
	step := 0
	for _, line := range lines {
		if !strings.HasPrefix(line, " ") {
			step++
			line = fmt.Sprintf("  %d. %s", step, line)
		}
		text.WriteString(line + "\n")
	}
	return text.String()
}

// initCommand returns the command that writes the first definitions, with the names of the stack that are not its defaults.
func (b *bootstrapCommand) initCommand(spec bootstrap.Spec) string {
	words := []string{"plumbline init", "--cluster " + b.cluster, "--region " + b.region}
	if b.url != "" {
		words = append(words, "--path "+b.path)
	}
	if queue := spec.Name(bootstrap.Queue); queue != b.cluster {
		words = append(words, "--interruption-queue "+queue)
	}
	if role := spec.Name(bootstrap.NodeRole); role != "KarpenterNodeRole-"+b.cluster {
		words = append(words, "--node-role "+role)
	}
	if spec.Version != karpenter.Newest() {
		words = append(words, "--version "+spec.Version)
	}
	if spec.Auth == bootstrap.IRSA {
		words = append(words, "--controller-role "+spec.RoleARN(bootstrap.ControllerRole))
	}
	return strings.Join(append(words, "--branch karpenter"), " ")
}
