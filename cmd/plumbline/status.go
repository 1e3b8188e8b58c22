package main

import (
	"context"
	"fmt"
	"io"
	"sort"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// statusReport is what `plumbline status` prints.
type statusReport struct {
	Name      string                    `json:"name"`
	Namespace string                    `json:"namespace"`
	Ready     string                    `json:"ready"`
	Reason    string                    `json:"reason,omitempty"`
	Message   string                    `json:"message,omitempty"`
	Attempted string                    `json:"attempted,omitempty"`
	Applied   string                    `json:"applied,omitempty"`
	Cloud     string                    `json:"cloud,omitempty"`
	Suspended bool                      `json:"suspended,omitempty"`
	Waiting   *v1alpha1.Waiting         `json:"waiting,omitempty"`
	Karpenter *v1alpha1.KarpenterStatus `json:"karpenter,omitempty"`
	Stages    []v1alpha1.StageStatus    `json:"stages,omitempty"`
	Pools     []poolReport              `json:"pools"`
	Removals  []v1alpha1.Removal        `json:"removals,omitempty"`
}

// poolReport counts the nodes of one NodePool.
type poolReport struct {
	Name     string `json:"name"`
	Ready    bool   `json:"ready"`
	Nodes    int    `json:"nodes"`
	Draining int    `json:"draining"`
}

func newStatusCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status NODESYNC",
		Short: "Show on one screen how far a NodeSync has come and what it waits for",
		Long: `Show the stages, the pools with their nodes, the removals and what the NodeSync
waits for. Exit codes: 0 Ready or on its way, 1 failed, 2 drifted, 3 held by the
guard, 4 stalled.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig),
	}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		sync, err := getNodeSync(cmd.Context(), kubeconfig, args[0])
		if err != nil {
			return err
		}
		c, err := newClient(kubeconfig)
		if err != nil {
			return err
		}
		pools, err := poolsOf(cmd.Context(), c, sync)
		if err != nil {
			return err
		}
		report := newStatusReport(sync, pools)
		if err := output.write(cmd.OutOrStdout(), report, func(out io.Writer) error { return report.print(out) }); err != nil {
			return err
		}
		if conditions.IsStalled(sync) || conditions.IsFalse(sync, meta.ReadyCondition) {
			return exitOf(sync)
		}
		return nil
	}
	return cmd
}

func newStatusReport(sync *v1alpha1.NodeSync, pools []poolReport) statusReport {
	s := sync.Status
	report := statusReport{
		Name: sync.Name, Namespace: sync.Namespace, Ready: readyWord(sync),
		Reason: conditions.GetReason(sync, meta.ReadyCondition), Message: conditions.GetMessage(sync, meta.ReadyCondition),
		Attempted: s.LastAttemptedRevision, Applied: s.LastAppliedRevision, Suspended: sync.Spec.Suspend,
		Waiting: s.Waiting, Karpenter: s.Karpenter, Stages: s.Stages, Removals: s.Removals, Pools: pools,
	}
	if verified := conditions.Get(sync, v1alpha1.CloudVerifiedCondition); verified != nil {
		report.Cloud = fmt.Sprintf("%s (%s)", verified.Status, verified.Reason)
	}
	return report
}

// poolsOf counts the NodeClaims of each pool that the NodeSync owns.
func poolsOf(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync) ([]poolReport, error) {
	kind, _ := render.KindOf(render.NodePool)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GVK)
	if err := c.List(ctx, list); err != nil {
		if apimeta.IsNoMatchError(err) {
			return []poolReport{}, nil
		}
		return nil, explain(err, "list NodePools")
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeClaims")
	}
	pools := []poolReport{}
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for i := range list.Items {
		pool := &list.Items[i]
		if owner.Owns(pool) {
			pools = append(pools, countPool(pool, claims.Items))
		}
	}
	sort.Slice(pools, func(i, j int) bool { return pools[i].Name < pools[j].Name })
	return pools, nil
}

func countPool(pool *unstructured.Unstructured, claims []karpv1.NodeClaim) poolReport {
	count := poolReport{Name: pool.GetName(), Ready: observe.Ready(pool).Ready}
	for i := range claims {
		if claims[i].Labels[karpv1.NodePoolLabelKey] != pool.GetName() {
			continue
		}
		count.Nodes++
		if claims[i].DeletionTimestamp != nil {
			count.Draining++
		}
	}
	return count
}
