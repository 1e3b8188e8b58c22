package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

func newEmergencyCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var until, reason string
	cmd := &cobra.Command{
		Use:   "emergency NODESYNC",
		Short: "Override windows and freezes for at most 24 hours",
		Long: `Override spec.guard.windows and spec.guard.freeze of a NodeSync until a time, at most
24 hours ahead: nodes may be removed and replaced at once. Your name and the reason are
recorded in annotations of the NodeSync; ` + "`plumbline calendar`" + ` shows them.

RBAC decides who may declare an emergency: the ClusterRole plumbline-emergency, and the
right to patch the NodeSync. Another call replaces the time and the reason. Anyone who may
patch the NodeSync ends the emergency:

  kubectl annotate nodesync NODESYNC ` + v1alpha1.EmergencyAnnotation + `-

The guard's limits still apply: what it holds needs an approval.`,
		Example: `  plumbline emergency prod-eu --until 2h --reason 'the AMI of yesterday loses its network'
  plumbline emergency prod-eu --until 2026-12-24T20:00:00Z`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	cmd.Flags().StringVar(&until, "until", "1h", "when it ends: how long from now, or a time, such as 2026-12-24T20:00:00Z; at most 24h ahead")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who read it later")
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

// emergencyEnd is the time at which an emergency ends, in RFC 3339 and UTC, by --until: a duration from now, or a time.
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
		return "", fmt.Errorf("--until %q: it has to be in the future", until)
	}
	return at.UTC().Format(time.RFC3339), nil
}

// declareEmergency writes the annotations of an emergency, and returns the user in whose name that is.
func (c *cluster) declareEmergency(ctx context.Context, name, end, reason string) (author string, err error) {
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
	annotations := map[string]any{v1alpha1.EmergencyAnnotation: end, v1alpha1.EmergencyByAnnotation: author, v1alpha1.EmergencyReasonAnnotation: nil}
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
		return "", fmt.Errorf("you are %s, and not allowed to declare an emergency in namespace %s: an administrator allows it with `kubectl create rolebinding NAME --clusterrole plumbline-emergency --user %s -n %s` (%w)",
			author, sync.Namespace, author, sync.Namespace, err)
	case err != nil:
		return "", explain(err, "write NodeSync "+sync.Name)
	}
	return author, nil
}

// emergencyPolicy is the ValidatingAdmissionPolicy that decides who may declare an emergency.
const emergencyPolicy = "plumbline-guard-emergency"
