package main

import (
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/reconcile/steppoint"
)

const teardownHelp = `Show what a NodeSync has, and after a confirmation delete it with onDelete: Drain:
the daemon ends its NodeClaims, asks EC2, and deletes NodePools and EC2NodeClasses;
no guard weighs it, PodDisruptionBudgets hold, and nothing is forced. When the
NodeSync is gone, AWS is asked with your credentials what is left, as by
` + "`plumbline verify`" + `. What other NodePools and EC2NodeClasses of the cluster
have stays, and does not count. --sweep deletes leftovers that nothing in the cluster
has any more, and that have only this cluster's tags.

--down-to says how far it goes, each level after the one before:
  nodes        NodeClaims and EC2 instances; the NodeSync stays, by drain: true, and so
               do its definitions: its NodePools make no node, and nothing is fetched
               or applied, until ` + "`plumbline resume`" + `
  definitions  NodePools with their NodeClaims and EC2 instances, EC2NodeClasses, and
               the NodeSync; Karpenter and its CRDs stay (the default)
  controller   and then, once AWS has nothing left, Karpenter's main chart
  crds         and then its CRDs, and their chart
Karpenter goes only where plumbline has installed it, no other NodeSync needs it, and
no object of its kinds is left in the cluster, of any owner; that is checked before
anything is deleted, too. plumbline itself stays. Its own Git is not asked; where there
are other NodeSyncs, theirs is, as an entry may have moved there. AWS has to answer
before anything is deleted.

Where Flux or Argo CD applies something of this, it is named, since it would create that
again. --suspend-appliers suspends them first: spec.suspend of a Kustomization or
HelmRelease, and spec.syncPolicy.automated of an Application; the command that takes it
back is printed. What applies these may set that again from Git.

Karpenter's controller has to run, as nothing else ends the nodes. Where it is scaled to
0 it is scaled up first; where it is gone, the daemon, or where none leads this command,
installs it again first, at its version and with its values, from Git; where neither is
possible, the command says what to do. One that runs and whose credentials
AWS refuses, by its own log, is found before anything is deleted, and nothing is begun
without --terminate. Where it, or the daemon, runs on a node that would end, nothing is
begun: move it to nodes that Karpenter does not manage.

--terminate is for a Karpenter whose role or credentials are gone: it drains nodes, and
may not end their instances. An instance that it has drained and left for a minute, or
every one where its controller does not run for a minute, is listed and, after another
confirmation, ended with your AWS rights: only where a NodeClaim or the record of a
removal names it, and its tags are this cluster's and no other's. A node whose pods are
still being evicted is not touched. Karpenter's finalizers stay: what they keep in the
cluster is listed, with exit code 4.

Where no daemon leads, this command takes the daemon's lease and ends the nodes
itself, by the daemon's own passes, with your rights and AWS credentials; a daemon
that starts meanwhile waits. Where the deletion guard lets only the daemon delete, it
acts as the daemon's ServiceAccount, which you need the right to impersonate.

Ctrl-C and --timeout end the watching, not the teardown, as long as a daemon leads;
else the lease is released, and what was begun waits. The same command goes on;
where the NodeSync is gone already it needs --cluster and --region, and asks AWS only.

--cluster-gone is for a cluster that has no API server any more, and then only AWS is
asked. Without more flags it only shows what AWS has of the cluster. --terminate ends
its instances, --sweep deletes its volumes and network interfaces that are attached to
nothing, its launch templates and instance profiles, each only with the tags of this
cluster and of no other one, and only what was listed before: the volume that an
instance leaves is for the next run. EKS has to say that there is no such cluster, each
time, and the API server of the kubeconfig, if there is one, must not know it. Nothing
is drained: who would do that is gone. The rights are in
manifests/iam-policy-teardown.json.

Exit codes: 0 AWS was asked and nothing is left; 1 an error, nothing was confirmed,
or AWS has not answered; 4 something is left, or it is not done after --timeout.`

func newTeardownCommand(kubeconfig *genericclioptions.ConfigFlags, v verification, stand standInStarter) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "teardown [NODESYNC]",
		Short: "Take a NodeSync away with all of its nodes, and ask AWS what is left",
		Long:  teardownHelp,
		Example: `  plumbline teardown prod-eu
  plumbline teardown dev --down-to nodes
  plumbline teardown prod-eu --yes --cluster prod-eu --region eu-west-1 -o json
  plumbline teardown --cluster-gone --cluster prod-eu --region eu-west-1 --account 111122223333 --terminate --sweep`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	t, output := teardown{v: v, kubeconfig: kubeconfig, stand: stand, downTo: toDefinitions}, formatText
	cmd.Flags().VarP(formatFlag{&output, []string{string(formatText), string(formatJSON)}}, "output", "o", "how to print; json is one event a line")
	t.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if (t.v.cluster == "") != (t.v.region == "") {
			return &usageError{cmd: cmd, err: errors.New("--cluster and --region go together")}
		}
		if err := t.goneFlags(args); err != nil {
			return &usageError{cmd: cmd, err: err}
		}
		if t.points, err = steppoint.New(t.steps); err != nil {
			return err
		}
		t.cmd, t.show, t.until = cmd, newShow(cmd, output, t.v.now), t.v.now().Add(t.timeout)
		if t.gone {
			return t.runGone(cmd.Context())
		}
		if err := t.connect(cmd.Context()); err != nil {
			return err
		}
		return t.run(cmd.Context(), args)
	}
	return cmd
}

// addFlags adds what says how far the teardown goes, and which cluster it is.
func (t *teardown) addFlags(cmd *cobra.Command) {
	t.steps.BindFlags(cmd.Flags())
	cmd.Flags().Var(&t.downTo, "down-to", "what is taken away: nodes, and then their definitions, and then Karpenter's controller, and then its CRDs, too")
	cmd.Flags().BoolVar(&t.yes, "yes", false, "ask for no confirmation")
	cmd.Flags().DurationVar(&t.timeout, "timeout", teardownTime, "longest time to watch")
	cmd.Flags().StringVar(&t.v.cluster, "cluster", "", "name of the EKS cluster; needed where the NodeSync does not say it, or is gone")
	cmd.Flags().StringVar(&t.v.region, "region", "", "region of the cluster, with --cluster")
	cmd.Flags().StringVar(&t.v.account, "account", "", "account that AWS has to be, by its number")
	cmd.Flags().BoolVar(&t.gone, "cluster-gone", false, "the cluster has no API server any more: ask AWS only")
	cmd.Flags().BoolVar(&t.terminate, "terminate", false, "end instances with your AWS rights: of a cluster that is gone, or those that Karpenter has left for a minute")
	cmd.Flags().BoolVar(&t.suspends, "suspend-appliers", false, "suspend first the Kustomizations, HelmReleases and Applications that apply what is deleted, and would create it again")
	cmd.Flags().BoolVar(&t.sweep, "sweep", false, "delete what only this cluster's tags are on: free volumes and interfaces, launch templates, instance profiles")
}
