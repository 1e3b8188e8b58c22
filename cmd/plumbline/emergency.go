package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/rollout"
)

func newEmergencyCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var until, reason string
	cmd := &cobra.Command{
		Use:   "emergency NODESYNC",
		Short: "Override windows and freezes for at most 24 hours",
		Long: `Override spec.guard.windows and spec.guard.freeze of a NodeSync until a time, at most
24 hours ahead: nodes may be removed and replaced at once. Your name and the reason are
recorded in annotations of the NodeSync; ` + "`plumbline calendar`" + ` shows them.

You need the ClusterRole plumbline-emergency and permission to patch the NodeSync. A second
call replaces the time and the reason. Anyone who may patch the NodeSync can end the
emergency:

  kubectl annotate nodesync NODESYNC ` + v1alpha1.EmergencyAnnotation + `-

The guard's limits still apply: changes that it holds need an approval.`,
		Example: `  plumbline emergency prod-eu --until 2h --reason 'nodes of the latest AMI lose their network'
  plumbline emergency prod-eu --until 2026-12-24T20:00:00Z`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	cmd.Flags().StringVar(&until, "until", "1h", "when it ends: how long from now, or a time, such as 2026-12-24T20:00:00Z; at most 24h ahead")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, recorded in an annotation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		end, err := emergencyEnd(until, time.Now())
		if err != nil {
			return &usageError{cmd: cmd, err: err}
		}
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		author, err := c.declareEmergency(cmd.Context(), args[0], end, reason)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: windows and freezes are overridden until %s (declared by %s)\n", nodeSyncWord(args[0]), end, author)
		return nil
	}
	return cmd
}

// emergencyEnd parses --until, a duration from now or a time, and returns the end of the emergency in RFC 3339 and UTC.
func emergencyEnd(until string, now time.Time) (string, error) {
	end := until
	if lasts, err := time.ParseDuration(until); err == nil {
		end = now.Add(lasts).UTC().Format(time.RFC3339)
	}
	at, mistake := plan.Emergency(end, now)
	switch {
	case mistake != "":
		return "", fmt.Errorf("--until %q: it %s, or a duration, such as 2h", until, mistake)
	case at.IsZero():
		return "", fmt.Errorf("--until %q: must be in the future", until)
	}
	return at.UTC().Format(time.RFC3339), nil
}

// declareEmergency writes the annotations of an emergency, and returns the user who is recorded as its author.
func (c *clusterAccess) declareEmergency(ctx context.Context, name, end, reason string) (author string, err error) {
	sync, err := c.nodeSync(ctx, name)
	if err != nil {
		return "", err
	}
	if len(sync.Spec.Guard.Windows)+len(sync.Spec.Guard.Freeze) == 0 {
		return "", fmt.Errorf("nodesync/%s has neither windows nor freezes: there is nothing to override", sync.Name)
	}
	who := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, who); err != nil {
		return "", explain(err, "ask the API server who you are")
	}
	author = who.Status.UserInfo.Username
	annotations := map[string]any{
		v1alpha1.EmergencyAnnotation: end, v1alpha1.EmergencyByAnnotation: author, v1alpha1.EmergencyReasonAnnotation: nil,
	}
	if reason != "" {
		annotations[v1alpha1.EmergencyReasonAnnotation] = reason
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return "", err
	}
	err = c.Patch(ctx, sync, client.RawPatch("application/merge-patch+json", patch))
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), emergencyPolicy):
		return "", fmt.Errorf("you are %s, who may not declare an emergency in namespace %s: an administrator can allow it with `kubectl create rolebinding NAME --clusterrole plumbline-emergency --user %s -n %s` (%w)",
			author, sync.Namespace, author, sync.Namespace, err)
	case err != nil:
		return "", explain(err, "write NodeSync "+sync.Name)
	}
	return author, nil
}

// emergencyPolicy is the ValidatingAdmissionPolicy that decides who may declare an emergency.
const emergencyPolicy = "plumbline-guard-emergency"

func newSuspendCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "suspend NODESYNC...",
		Short:             "Suspend a NodeSync: nothing is fetched, applied or removed until it is resumed",
		Example:           "  plumbline suspend prod-eu",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setSuspend(cmd, kubeconfig, args, true)
		},
	}
}

func newResumeCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "resume NODESYNC...",
		Short:             "Resume a NodeSync that is suspended, or was drained by teardown --down-to nodes",
		Example:           "  # Resume, and wait until the nodes match the newest commit\n  plumbline resume prod-eu && plumbline reconcile prod-eu --wait",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, math.MaxInt),
		RunE: func(cmd *cobra.Command, args []string) error {
			return setSuspend(cmd, kubeconfig, args, false)
		},
	}
}

// setSuspend suspends or resumes NodeSyncs, one after another.
func setSuspend(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, names []string, suspend bool) error {
	c, err := connect(cmd.Context(), kubeconfig)
	if err != nil {
		return err
	}
	word := map[bool]string{true: "suspended", false: "resumed"}[suspend]
	for _, name := range names {
		sync, err := c.nodeSync(cmd.Context(), name)
		if err != nil {
			return err
		}
		if sync.Spec.Suspend == suspend && (suspend || !sync.Spec.Drain) {
			fmt.Fprintf(cmd.ErrOrStderr(), "nodesync/%s is %s already\n", sync.Name, word)
			continue
		}
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`))
		if !suspend {
			patch = client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":false,"drain":false}}`))
		}
		if err := c.Patch(cmd.Context(), sync, patch); err != nil {
			return explain(err, "write NodeSync "+sync.Name)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "nodesync/%s %s\n", sync.Name, word)
	}
	return nil
}

func newResumeRolloutCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var pools []string
	var wave bool
	var reason string
	cmd := &cobra.Command{
		Use:   "resume-rollout NODESYNC",
		Short: "Resume the replacement of nodes that plumbline has stopped",
		Long: `Resume the replacement of nodes that plumbline has stopped (RolledOut is False,
reason RolloutBraked), in all NodePools or in those of --pool. plumbline resets its count
of failed launches, and stops the rollout again if it reaches the limit again. After a wave
whose workloads failed, the remaining nodes are replaced without waves.

With --wave, begin the next wave although nothing has run on the new nodes that proves
anything, or before the pause is over. After the last wave, end the time in which workloads are
judged, once spec.rollout.watchFor is over. The reason is recorded in the status.`,
		Example: `  plumbline resume-rollout prod-eu --pool general
  plumbline resume-rollout prod-eu --wave --reason 'the batch nodes have no pods until tonight'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	cmd.Flags().StringSliceVar(&pools, "pool", nil, "NodePool whose rollout is resumed; default: all")
	cmd.Flags().BoolVar(&wave, "wave", false, "continue a wave that is judged or inconclusive; requires --reason")
	cmd.Flags().StringVar(&reason, "reason", "", "reason to continue the wave, recorded in the status")
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(kubeconfig, stoppedPools)) // the flag exists
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if wave != (reason != "") {
			return &usageError{cmd: cmd, err: errors.New("--wave and --reason belong together")}
		}
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		if wave {
			return c.continueWaves(cmd, args[0], pools, reason)
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

// resumeRollout annotates a NodeSync to resume the rollouts that are stopped now, of some pools or of all, and returns
// the pools.
func (c *clusterAccess) resumeRollout(ctx context.Context, name string, pools []string) (resumed []string, err error) {
	return c.resume(ctx, name, pools, resumption{
		annotation: v1alpha1.ResumeRolloutAnnotation, missing: "the rollout of NodePool %s is not stopped: see plumbline status %s",
		since: func(p v1alpha1.PoolRollout) *metav1.Time { return p.BrakedAt },
	})
}

// resumption is what a person continues in NodePools.
type resumption struct {
	// annotation names the pools, each with the time that since returns: nil if there is nothing to continue in a pool.
	annotation string
	since      func(v1alpha1.PoolRollout) *metav1.Time
	// missing is the error for a pool without one, with the names of the pool and of the NodeSync.
	missing string
	// more are further annotations.
	more map[string]string
}

// resume annotates a NodeSync to continue something in some NodePools, or in all, and returns the pools.
func (c *clusterAccess) resume(ctx context.Context, name string, pools []string, what resumption) (resumed []string, err error) {
	sync, err := c.nodeSync(ctx, name)
	if err != nil {
		return nil, err
	}
	var tokens []string
	for _, p := range sync.Status.PoolRollouts {
		if since := what.since(p); since != nil && (len(pools) == 0 || slices.Contains(pools, p.Pool)) {
			resumed = append(resumed, p.Pool)
			tokens = append(tokens, p.Pool+"@"+rollout.Token(*since))
		}
	}
	for _, pool := range pools {
		if !slices.Contains(resumed, pool) {
			return nil, fmt.Errorf(what.missing, pool, name)
		}
	}
	if len(resumed) == 0 {
		return nil, nil
	}
	annotations := map[string]string{what.annotation: strings.Join(tokens, ",")}
	maps.Copy(annotations, what.more)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": annotations}})
	if err != nil {
		return nil, err
	}
	if err := c.Patch(ctx, sync, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return nil, explain(err, "write NodeSync "+sync.Name)
	}
	return resumed, nil
}

// stoppedPools returns the NodePools of a NodeSync whose rollout is stopped; none without a name.
func stoppedPools(ctx context.Context, c *clusterAccess, args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	sync, err := c.nodeSync(ctx, args[0])
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(sync.Status.BrakedPools())), nil
}
