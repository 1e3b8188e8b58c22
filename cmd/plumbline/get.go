package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	"github.com/fluxcd/pkg/runtime/conditions"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/redact"
	"github.com/plumbline-dev/plumbline/render"
)

func newGetCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:               "get [NODESYNC]",
		Short:             "List NodeSyncs",
		Example:           "  plumbline get -n plumbline-system\n  plumbline get -A -o json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig),
	}
	output := addOutput(cmd)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list those of all namespaces")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		list, err := listNodeSyncs(cmd, kubeconfig, all, args)
		if err != nil {
			return err
		}
		if err := warnUnled(cmd, kubeconfig, list); err != nil {
			return err
		}
		return output.write(cmd.OutOrStdout(), list, func(out io.Writer) error {
			return printNodeSyncs(out, list, all)
		})
	}
	return cmd
}

func listNodeSyncs(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, all bool, args []string) (*v1alpha1.NodeSyncList, error) {
	if all && len(args) > 0 {
		return nil, fmt.Errorf("a name and --all-namespaces do not go together")
	}
	c, err := connect(kubeconfig)
	if err != nil {
		return nil, err
	}
	list := &v1alpha1.NodeSyncList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind + "List"))
	if len(args) > 0 {
		sync, err := c.nodeSync(cmd.Context(), args[0])
		if err != nil {
			return nil, err
		}
		list.Items = []v1alpha1.NodeSync{*sync}
		return list, nil
	}
	var options []client.ListOption
	if !all {
		options = append(options, client.InNamespace(c.namespace))
	}
	if err := c.List(cmd.Context(), list, options...); err != nil {
		return nil, explain(err, "list NodeSyncs")
	}
	for i := range list.Items {
		c.takeStandIn(cmd.Context(), &list.Items[i])
	}
	return list, nil
}

// warnUnled says of each namespace in which no daemon leads that its list is of before.
func warnUnled(cmd *cobra.Command, kubeconfig *genericclioptions.ConfigFlags, list *v1alpha1.NodeSyncList) error {
	c, err := connect(kubeconfig)
	if err != nil {
		return err
	}
	namespaces := map[string]bool{}
	for i := range list.Items {
		namespaces[list.Items[i].Namespace] = true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if message := unled(cmd.Context(), c, namespace, time.Now); message != "" {
			fmt.Fprintln(cmd.ErrOrStderr(), message)
		}
	}
	return nil
}

func printNodeSyncs(out io.Writer, list *v1alpha1.NodeSyncList, all bool) error {
	if len(list.Items) == 0 {
		_, err := fmt.Fprintln(out, "no NodeSync here; look in all namespaces with -A")
		return err
	}
	header := []any{"NAME", "READY", "REVISION", "KARPENTER", "REMOVALS", "SUSPENDED", "STATUS"}
	if all {
		header = append([]any{"NAMESPACE"}, header...)
	}
	t := newTable(out, header...)
	for i := range list.Items {
		sync := &list.Items[i]
		row := []any{sync.Name, readyWord(sync), render.ShortRevision(sync.Status.LastAppliedRevision), karpenterVersion(sync), sync.Status.OpenRemovals, sync.Spec.Suspend, readyMessage(sync)}
		if all {
			row = append([]any{sync.Namespace}, row...)
		}
		t.AppendRow(row)
	}
	t.Render()
	return nil
}

func readyWord(sync *v1alpha1.NodeSync) string {
	if stateOf(sync) == stateUnknown {
		return "Unknown"
	}
	if ready := conditions.Get(sync, meta.ReadyCondition); ready != nil {
		return string(ready.Status)
	}
	return "Unknown"
}

// readyMessage says in one line how a NodeSync is.
func readyMessage(sync *v1alpha1.NodeSync) string {
	if stateOf(sync) == stateUnknown {
		return "unknown: " + unknown(sync)
	}
	return oneLine(conditions.GetMessage(sync, meta.ReadyCondition))
}

func karpenterVersion(sync *v1alpha1.NodeSync) string {
	switch k := sync.Status.Karpenter; {
	case k == nil:
		return ""
	case k.Version == "":
		return k.Management
	default:
		return k.Version
	}
}

// oneLine keeps a message from breaking a table.
func oneLine(message string) string {
	first, _, more := strings.Cut(message, "\n")
	if more {
		first += " …"
	}
	return redact.Visible(first)
}
