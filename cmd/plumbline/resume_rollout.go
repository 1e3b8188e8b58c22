package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/brake"
)

func newResumeRolloutCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var pools []string
	cmd := &cobra.Command{
		Use:   "resume-rollout NODESYNC",
		Short: "Resume the replacement of nodes that plumbline has stopped",
		Long: `Resume the replacement of nodes that plumbline has stopped (RolledOut is False,
reason RolloutBraked), in all NodePools or in those of --pool. Failed launches
are counted from zero: after as many again it stops once more.`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	cmd.Flags().StringSliceVar(&pools, "pool", nil, "NodePool whose rollout is resumed; default: all")
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(kubeconfig, stoppedPools)) // the flag exists
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		resumed, err := c.resumeRollout(cmd.Context(), args[0], pools)
		if err != nil {
			return err
		}
		if len(resumed) == 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: no rollout is stopped\n", nodeSyncWord(args[0]))
			return nil
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: the rollout is resumed in %s\n", nodeSyncWord(args[0]), strings.Join(resumed, ", "))
		return nil
	}
	return cmd
}

// resumeRollout annotates a NodeSync so that the rollouts of some pools, or of all, are resumed that
// are stopped now, and returns the pools.
func (c *cluster) resumeRollout(ctx context.Context, name string, pools []string) (resumed []string, err error) {
	sync, err := c.nodeSync(ctx, name)
	if err != nil {
		return nil, err
	}
	var tokens []string
	for _, p := range sync.Status.PoolRollouts {
		if p.BrakedAt != nil && (len(pools) == 0 || slices.Contains(pools, p.Pool)) {
			resumed = append(resumed, p.Pool)
			tokens = append(tokens, p.Pool+"@"+brake.Token(*p.BrakedAt))
		}
	}
	for _, pool := range pools {
		if !slices.Contains(resumed, pool) {
			return nil, fmt.Errorf("the rollout of NodePool %s is not stopped: plumbline status %s", pool, name)
		}
	}
	if len(resumed) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{v1alpha1.ResumeRolloutAnnotation: strings.Join(tokens, ",")}}})
	if err != nil {
		return nil, err
	}
	if err := c.Patch(ctx, sync, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return nil, explain(err, "write NodeSync "+sync.Name)
	}
	return resumed, nil
}

// stoppedPools are the NodePools of a NodeSync whose rollout is stopped; none without a name.
func stoppedPools(ctx context.Context, c *cluster, args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	sync, err := c.nodeSync(ctx, args[0])
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(sync.Status.BrakedPools())), nil
}
