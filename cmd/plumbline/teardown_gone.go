package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/provision/leftover"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/removal/teardown"
	"github.com/plumbline-dev/plumbline/render"
)

// clusterName matches EKS's names of clusters; * would make EC2 match those of all clusters.
var clusterName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)

// goneFlags returns an error for invalid flags of a cluster that no longer exists.
func (t *teardownCommand) goneFlags(args []string) error {
	switch {
	case !t.gone:
		return nil
	case len(args) > 0:
		return errors.New("--cluster-gone cannot be combined with a NodeSync: if the cluster responds, omit --cluster-gone")
	case t.downTo != teardown.ToDefinitions:
		return errors.New("--cluster-gone cannot be combined with --down-to: Karpenter is gone with the cluster, and plumbline bootstrap --undo deletes its stack")
	case t.v.cluster == "" || t.v.account == "":
		return errors.New("--cluster-gone needs --cluster, --region and --account: nothing else identifies the cluster")
	case !clusterName.MatchString(t.v.cluster):
		return fmt.Errorf("--cluster %q is no name of an EKS cluster", t.v.cluster)
	}
	return nil
}

// runGone shows what a cluster that no longer exists has left in AWS, and deletes what it may.
func (t *teardownCommand) runGone(ctx context.Context) error {
	aws, account, err := t.v.open(ctx)
	if err != nil {
		return err
	}
	if err := t.unknownToEKS(ctx, aws); err != nil {
		return fmt.Errorf("%w; nothing was changed", err)
	}
	answers, known, err := t.v.answers(ctx, aws)
	if err != nil {
		return err
	}
	if err := t.stillAnswers(ctx, answers); err != nil {
		return fmt.Errorf("the cluster is not gone: %w; nothing was changed", err)
	}
	report := t.v.judge(answers, known, account)
	if report.Gone {
		return t.verify(ctx) // queries AWS again
	}
	if err := t.show.report(report); err != nil {
		return err
	}
	ending := leftover.Deletable(answers, known, t.scope())
	if report.Unanswered() {
		return exitOfReport(report)
	}
	if !t.terminate && !t.sweep || len(ending.Delete)+len(ending.Terminating) == 0 {
		t.printDryRun(answers, known)
		return exitOfReport(report)
	}
	t.printDeletions(ending, answers)
	return t.deleteOfGoneCluster(ctx, ending)
}

// deleteOfGoneCluster deletes what was shown, after a confirmation, and only while EKS has no cluster of the name.
func (t *teardownCommand) deleteOfGoneCluster(ctx context.Context, ending leftover.Deletion) error {
	if err := t.confirm(ctx, "this permanently deletes the resources above from AWS", t.v.cluster); err != nil {
		return err
	}
	t.until = t.v.now().Add(t.timeout) // waiting for the confirmation does not count
	run := &deletionRun{scope: t.scope(), progress: teardown.NewDeletion(ending.Delete, resourceID), allowed: func(ctx context.Context, aws remains) error {
		if err := t.unknownToEKS(ctx, aws); err != nil {
			return fmt.Errorf("%w; nothing more is terminated", err)
		}
		return nil
	}}
	if err := t.deleteLeft(ctx, run); err != nil {
		return t.withInstructions(ctx, err)
	}
	return t.verify(ctx)
}

// printDryRun prints what the flags that were not given would delete.
func (t *teardownCommand) printDryRun(answers []cloud.Answer, known leftover.Known) {
	all := t.scope()
	all.Instances, all.Leftovers = true, true
	ending := leftover.Deletable(answers, known, all)
	var instances, rest []cloud.Resource
	for _, r := range ending.Delete {
		if r.Kind == cloud.KindInstance {
			instances = append(instances, r)
		} else {
			rest = append(rest, r)
		}
	}
	if len(instances) > 0 && !t.terminate {
		t.show.sentence("--terminate would terminate " + leftover.Listed(instances))
		t.printAttached(answers, instances)
	}
	if len(rest) > 0 && !t.sweep {
		t.show.sentence("--sweep would delete " + leftover.Listed(rest))
	}
	t.printSpared(ending)
}

// unknownToEKS checks that EKS has no cluster of the name. If the user may not query it, that is unknown.
func (t *teardownCommand) unknownToEKS(ctx context.Context, aws remains) error {
	_, err := aws.Cluster(ctx, t.v.cluster)
	var missing *cloud.NotFoundError
	switch {
	case err == nil:
		return fmt.Errorf("EKS cluster %s still exists in %s: run the teardown against its API server, without --cluster-gone, or wait until EKS has deleted the cluster", t.v.cluster, t.v.region)
	case errors.As(err, &missing):
		return nil
	}
	return fmt.Errorf("make sure that EKS cluster %s is gone: %s", t.v.cluster, leftover.Explain(err, leftover.Policy))
}

// stillAnswers returns an error if the kubeconfig's API server may be that of the cluster: it responds, and either it
// knows the cluster's name or an instance, or that is unknown. An unreachable one does not count.
func (t *teardownCommand) stillAnswers(ctx context.Context, answers []cloud.Answer) error {
	c, err := connect(ctx, t.kubeconfig)
	if errors.Is(err, errNoKubeconfig) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, readTime)
	defer stop()
	is := "the API server of the kubeconfig, " + c.config.Host + ", answers"
	nodes := &corev1.NodeList{}
	err = c.List(ctx, nodes)
	if unreached(err) {
		t.show.sentence("the API server of the kubeconfig, " + c.config.Host + ", does not answer")
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s, and which cluster it serves is unknown (%w): choose the context of the cluster that is gone, or none", is, err)
	}
	if id := teardown.NodeOf(nodes.Items, answers); id != "" {
		return fmt.Errorf("%s, and %s is a Node of it", is, id)
	}
	why, err := c.whereNamed(ctx, t.v.cluster)
	if err != nil {
		return fmt.Errorf("%s, and which cluster it serves is unknown (%w): choose the context of the cluster that is gone, or none", is, err)
	}
	if why != "" {
		return fmt.Errorf("%s, and %s", is, why)
	}
	t.show.sentence(is + ", and is another cluster's: it has neither this name nor one of these instances")
	return nil
}

// whereNamed returns what in the cluster contains a cluster's name; empty if nothing does.
func (c *clusterAccess) whereNamed(ctx context.Context, name string) (string, error) {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, syncs); err != nil && !apimeta.IsNoMatchError(err) {
		return "", explain(err, "list NodeSyncs")
	}
	deployments, err := controllersOf(ctx, c)
	if err != nil {
		return "", err
	}
	return teardown.NameKnown(name, syncs.Items, deployments), nil
}

// unreached reports whether no server responds: no address, no connection, or a timeout. A server with another
// certificate does respond, and an error of the credentials proves nothing.
func unreached(err error) bool {
	var dial *net.OpError
	var name *net.DNSError
	return errors.As(err, &name) || errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, os.ErrDeadlineExceeded) ||
		errors.Is(err, context.DeadlineExceeded)
}

// appliedPools returns the NodePools that a NodeSync has applied, the UID of each by its name, unless their nodes are
// known to be gone; none if there is no NodeSync.
func (c *clusterAccess) appliedPools(ctx context.Context, sync *v1alpha1.NodeSync) (map[string]types.UID, error) {
	pools := map[string]types.UID{}
	if sync == nil {
		return pools, nil
	}
	applied, err := apply.LoadRecord(ctx, c, sync)
	if err != nil {
		return nil, explain(err, "find the NodePools that were applied")
	}
	for ref, uid := range applied.Record.Objects {
		if ref.Kind == render.NodePool {
			pools[ref.Name] = uid
		}
	}
	return pools, nil
}

// drain terminates all nodes of the NodeSync by setting spec.drain, unless an earlier run has; the definitions are
// kept.
func (t *teardownCommand) drain(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardown.Plan) error {
	if sync.Spec.Drain {
		t.show.sentence(nodeSyncWord(sync.Name) + " has drain: true already")
		return t.startController(ctx, sync, leaves)
	}
	if err := t.confirm(ctx, "this terminates all nodes of nodesync/"+sync.Name+" and keeps its definitions", sync.Name); err != nil {
		return err
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"drain":true}}`))
	if err := t.c.Patch(ctx, sync.DeepCopy(), patch, client.DryRunAll); err != nil {
		return explain(err, "write NodeSync "+sync.Name+" (nothing was changed)")
	}
	if err := t.startController(ctx, sync, leaves); err != nil {
		return err
	}
	if err := t.c.Patch(ctx, sync.DeepCopy(), patch); err != nil {
		return explain(err, "write NodeSync "+sync.Name)
	}
	t.show.sentence(nodeSyncWord(sync.Name) + ": drain is true now")
	return nil
}
