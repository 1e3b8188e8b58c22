package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

func newEventsCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "events NODESYNC",
		Short: "List the events of a NodeSync, the newest last",
		Long: `List what plumbline has reported of a NodeSync: what it applied, removed, held,
refused and repaired. The cluster keeps events for an hour, unless it is set up otherwise.`,
		Example:           "  plumbline events prod-eu",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, sync, err := nodeSyncOf(cmd.Context(), kubeconfig, args[0])
		if err != nil {
			return err
		}
		found := &corev1.EventList{}
		of := client.MatchingFields{"involvedObject.kind": v1alpha1.NodeSyncKind, "involvedObject.name": sync.Name}
		if err := c.List(cmd.Context(), found, client.InNamespace(sync.Namespace), of); err != nil {
			return explain(err, "list events")
		}
		found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("EventList"))
		slices.SortStableFunc(found.Items, func(a, b corev1.Event) int { return seenAt(&a).Compare(seenAt(&b).Time) })
		for i := range found.Items {
			found.Items[i].ManagedFields = nil
		}
		if len(found.Items) == 0 && *output == formatTable {
			fmt.Fprintf(cmd.ErrOrStderr(), "no events of nodesync/%s are left\n", sync.Name)
			return nil
		}
		return output.write(cmd.OutOrStdout(), found, func(out io.Writer) error {
			t := newFittedTable(out, "LAST SEEN", "TYPE", "REASON", "MESSAGE")
			for i := range found.Items {
				e := &found.Items[i]
				t.AppendRow([]any{age(seenAt(e)), e.Type, e.Reason, oneLine(e.Message)})
			}
			t.Render()
			return nil
		})
	}
	return cmd
}

// seenAt is when an event was reported last.
func seenAt(e *corev1.Event) metav1.Time {
	for _, at := range []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.FirstTimestamp.Time} {
		if !at.IsZero() {
			return metav1.NewTime(at)
		}
	}
	return e.CreationTimestamp
}
