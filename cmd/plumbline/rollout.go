package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

// rolloutEvery is how often `plumbline rollout --watch` reads the NodeSyncs.
const rolloutEvery = 2 * time.Second

// syncRollout is the rollout of one NodeSync as printed.
type syncRollout struct {
	Namespace string `json:"namespace"`
	NodeSync  string `json:"nodeSync"`
	// Rollout is nil if each node matches its definitions.
	Rollout *v1alpha1.Rollout `json:"rollout,omitempty"`
	// Pools are the NodePools with outdated nodes, and those whose new nodes are judged.
	Pools []v1alpha1.PoolRollout `json:"pools"`
}

func newRolloutCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout [NODESYNC...]",
		Short: "Show how far the replacement of nodes is, in which wave, and how workloads do on new nodes",
		Long: `Show for each NodePool with outdated nodes how far their replacement is: the wave, how many
replacements of it have begun, how many of its new nodes have only good workloads, when the
next wave may begin, and what stops the rollout or how the workloads compare with those on
old nodes. Without a name the command shows all NodeSyncs of the namespace. With --watch it
keeps running, and prints the table again after each change.

Waves are on by default; spec.rollout.waves changes them or turns them off. To continue an
inconclusive wave, use plumbline resume-rollout --wave.`,
		Example:           "  plumbline rollout prod-eu\n  plumbline rollout prod-eu --watch\n  plumbline rollout prod-eu -o json",
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 100),
	}
	watches := cmd.Flags().BoolP("watch", "w", false, "keep running, and print each change")
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		for last := []syncRollout(nil); ; {
			list, missing := c.rollouts(cmd.Context(), args)
			if missing != nil && (list == nil || len(list.Items) == 0) {
				return missing
			}
			if found := rolloutsOf(list.Items); !equality.Semantic.DeepEqual(found, last) {
				last = found
				if err := output.write(cmd.OutOrStdout(), found, func(out io.Writer) error {
					if len(found) == 0 {
						fmt.Fprintln(cmd.ErrOrStderr(), "no NodeSync here; `plumbline get -A` lists all")
						return nil
					}
					printRollouts(out, found, time.Now())
					return nil
				}); err != nil {
					return err
				}
			}
			if missing != nil || !*watches {
				return missing
			}
			select {
			case <-cmd.Context().Done():
				return nil
			case <-time.After(rolloutEvery):
			}
		}
	}
	return cmd
}

// rollouts reads NodeSyncs by name, or all of the namespace.
func (c *clusterAccess) rollouts(ctx context.Context, names []string) (*v1alpha1.NodeSyncList, error) {
	if len(names) > 0 {
		return c.readNamed(ctx, names)
	}
	return c.readAll(ctx, false)
}

func rolloutsOf(syncs []v1alpha1.NodeSync) []syncRollout {
	all := make([]syncRollout, 0, len(syncs))
	for i := range syncs {
		s := &syncs[i]
		pools := append([]v1alpha1.PoolRollout{}, s.Status.PoolRollouts...)
		all = append(all, syncRollout{Namespace: s.Namespace, NodeSync: s.Name, Rollout: s.Status.Rollout, Pools: pools})
	}
	return all
}

// printRollouts prints a row for each NodePool, and one for a NodeSync that has none.
func printRollouts(out io.Writer, all []syncRollout, now time.Time) {
	t := display.NewFittedTable(out, "NODESYNC", "NODES", "NODEPOOL", "WAVE", "BEGUN", "NEW GOOD", "NEXT", "WHY")
	for _, s := range all {
		nodes := "each matches"
		if s.Rollout != nil {
			nodes = rollout.Replaced(*s.Rollout)
		}
		for _, p := range s.Pools {
			t.AppendRow(append([]any{s.NodeSync, nodes, p.Pool}, waveCells(p, now)...))
		}
		if len(s.Pools) == 0 {
			t.AppendRow([]any{s.NodeSync, nodes, "", "", "", "", "", ""})
		}
	}
	t.Render()
}

// waveCells returns the wave, how many replacements have begun, how many new nodes are good, when the next wave may begin,
// and why it is in this state.
func waveCells(p v1alpha1.PoolRollout, now time.Time) []any {
	why := p.Message
	if p.Failure != "" {
		why = p.Failure
	}
	w := p.Wave
	if w == nil {
		return []any{"", "", "", "", why}
	}
	if why == "" {
		why = w.Message
	}
	wave := fmt.Sprintf("%d of %d %s", w.Number, w.Of, w.State)
	if w.Number == 0 {
		return []any{string(w.State), "", "", "", why}
	}
	next := ""
	if w.NextAt != nil {
		next = "in " + plan.Short(max(0, w.NextAt.Sub(now).Round(time.Second)))
	}
	return []any{wave, fmt.Sprintf("%d of %d", w.Begun, w.Size), fmt.Sprintf("%d of %d", w.Good, w.New), next, why}
}

// isJudged reports whether a person may continue a wave: it is judged or held, or all nodes of the last one are replaced.
func isJudged(w *v1alpha1.RolloutWave) bool {
	switch w.State {
	case v1alpha1.WaveJudging, v1alpha1.WaveHeld:
		return true
	case v1alpha1.WaveLast:
		return w.ReplacedAt != nil && w.WatchedAt == nil
	case v1alpha1.WavePreparing, v1alpha1.WaveQueued, v1alpha1.WaveOpen, v1alpha1.WaveFailed:
	}
	return false
}

// resumeWave annotates a NodeSync to continue the waves that are judged or held, of some pools or of all, and returns the
// pools.
func (c *clusterAccess) resumeWave(ctx context.Context, name string, pools []string, reason string) (resumed []string, err error) {
	return c.resume(ctx, name, pools, resumption{
		annotation: v1alpha1.ResumeWaveAnnotation, more: map[string]string{v1alpha1.ResumeWaveReasonAnnotation: reason},
		missing: "no wave of NodePool %s is judged or held: see plumbline rollout %s",
		since: func(p v1alpha1.PoolRollout) *metav1.Time {
			if w := p.Wave; w != nil && p.BrakedAt == nil && isJudged(w) {
				return &w.BeganAt
			}
			return nil
		},
	})
}

// continueWaves continues waves, and prints which.
func (c *clusterAccess) continueWaves(cmd *cobra.Command, name string, pools []string, reason string) error {
	resumed, err := c.resumeWave(cmd.Context(), name, pools, reason)
	switch {
	case err != nil:
		return err
	case len(resumed) == 0:
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: no wave is judged or held\n", nodeSyncWord(name))
	default:
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: the wave is continued in %s\n", nodeSyncWord(name), strings.Join(resumed, ", "))
	}
	return nil
}
