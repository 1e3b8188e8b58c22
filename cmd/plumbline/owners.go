package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// ownedObject is an object and its appliers.
type ownedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// NodeSync is the owner according to its label, as namespace/name; empty if it has none.
	NodeSync string `json:"nodeSync,omitempty"`
	// AppliedBy are the other tools that apply the object. Without any, and without a NodeSync, it is the client that
	// wrote it last.
	AppliedBy []owners.Owner `json:"appliedBy,omitempty"`
}

func newOwnersCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "owners",
		Short: "Show who applies NodePools, EC2NodeClasses, NodeSyncs and Karpenter",
		Long: `Show which NodeSync owns each definition (NodePool, EC2NodeClass, NodeOverlay or
CapacityBuffer) of the cluster, and which other tools apply it: Flux, Argo CD, a Helm release,
Terraform. The same is shown for NodeSyncs and for Karpenter's CRDs and controller. plumbline
recognizes the tools by labels, annotations and metadata.managedFields. The command
only reads.

If a NodeSync and another tool both apply a definition, the command lists the possible
solutions.

Exit codes: 0 no object has two appliers, 1 error, 2 at least one has.`,
		Example:           "  plumbline owners\n  plumbline owners -o json",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	output := addOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := connect(cmd.Context(), kubeconfig)
		if err != nil {
			return err
		}
		found, err := ownersIn(cmd.Context(), c)
		if err != nil {
			return err
		}
		if err := output.write(cmd.OutOrStdout(), found, func(out io.Writer) error {
			printOwners(out, found)
			return nil
		}); err != nil {
			return err
		}
		if slices.ContainsFunc(found, ownedObject.contested) {
			return &exitError{code: exitChanges}
		}
		return nil
	}
	return cmd
}

// ownersIn reads the objects of the cluster.
func ownersIn(ctx context.Context, c client.Reader) ([]ownedObject, error) {
	found := []ownedObject{}
	for _, kind := range render.Kinds() {
		objects, err := definitionsOf(ctx, c, kind)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			found = append(found, ownedOf(kind.GVK.Kind, &objects[i]))
		}
	}
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, syncs); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeSyncs")
	}
	for i := range syncs.Items {
		found = append(found, ownedOf("NodeSync", &syncs.Items[i]))
	}
	crds, err := karpenterCRDs(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range crds {
		found = append(found, ownedOf("CustomResourceDefinition", &crds[i]))
	}
	controllers, err := controllersOf(ctx, c)
	if err != nil {
		return nil, err
	}
	for i := range controllers {
		found = append(found, ownedOf("Deployment", &controllers[i]))
	}
	return found, nil
}

func ownedOf(kind string, object client.Object) ownedObject {
	o := ownedObject{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), AppliedBy: owners.All(object)}
	if owner, ok := plan.OwnerNamed(object); ok {
		o.NodeSync = owner.String()
	}
	if last := owners.Of(object); len(o.AppliedBy) == 0 && o.NodeSync == "" && last != (owners.Owner{}) {
		o.AppliedBy = []owners.Owner{last}
	}
	return o
}

// contested reports whether a NodeSync owns the object and another tool applies it, too.
func (o ownedObject) contested() bool { return o.NodeSync != "" && len(o.AppliedBy) > 0 }

func (o ownedObject) String() string {
	if o.Namespace != "" {
		return o.Kind + "/" + o.Namespace + "/" + o.Name
	}
	return o.Kind + "/" + o.Name
}

// printOwners prints a row for each object, and what to do about those with two appliers.
func printOwners(out io.Writer, found []ownedObject) {
	t := display.NewFittedTable(out, "OBJECT", "NODESYNC", "APPLIED BY")
	for _, o := range found {
		var by []string
		for _, owner := range o.AppliedBy {
			by = append(by, owner.String())
		}
		t.AppendRow([]any{o.String(), o.NodeSync, strings.Join(by, ", ")})
	}
	t.Render()
	for _, o := range found {
		if !o.contested() {
			continue
		}
		for _, owner := range o.AppliedBy {
			fmt.Fprintf(out, "\n%s belongs to NodeSync %s and is applied by %s. Possible solutions:\n", o, o.NodeSync, owner)
			for i, way := range conflictOptions(o.String(), owner) {
				fmt.Fprintf(out, "  %d. %s\n", i+1, way)
			}
		}
	}
	printCharts(out, found)
}

// printCharts prints, for each tool that reconciles objects of Karpenter's charts, how to leave them to it. These
// objects have no label of a NodeSync, so it is unknown here whether plumbline is to install them.
func printCharts(out io.Writer, found []ownedObject) {
	told := map[owners.Owner]bool{}
	for _, o := range found {
		for _, owner := range o.AppliedBy {
			if o.Kind != "CustomResourceDefinition" && o.Kind != "Deployment" || !owner.Reconciles() || told[owner] {
				continue
			}
			told[owner] = true
			fmt.Fprintf(out, "\n%s applies Karpenter's charts: to keep it that way, set management: External in plumbline.yaml\n", owner)
		}
	}
}

// conflictOptions returns the options if a tool applies an object that a NodeSync owns. Each keeps the nodes.
func conflictOptions(object string, of owners.Owner) []string {
	if tool, ok := map[string]string{"Kustomization": "flux", "Application": "argocd"}[of.Kind]; ok {
		return []string{
			fmt.Sprintf("hand it over to plumbline: plumbline adopt --from %s %s", tool, object),
			fmt.Sprintf("leave it to %s: plumbline adopt --from %s --back %s; or all of them: delete the NodeSync with onDelete: Orphan",
				of.Tool, tool, object),
			fmt.Sprintf("if %s installs Karpenter's charts as well, set management: External in plumbline.yaml", of.Tool),
		}
	}
	return []string{
		"hand it over to plumbline: " + released(of) + "; then release its fields (docs/how-to/beside-flux-or-argo-cd.md)",
		"leave it to that tool: delete the NodeSync with onDelete: Orphan, which keeps objects and nodes and removes plumbline's label",
		"if that tool installs Karpenter's charts as well, set management: External in plumbline.yaml",
	}
}

// released returns how to make another tool release an object without deleting it.
func released(of owners.Owner) string {
	mark, ok := of.Mark()
	if !ok {
		return "stop " + of.String() + " from applying it, without deleting it"
	}
	return fmt.Sprintf("annotate it with %s in the chart of %s, wait for the upgrade, and then remove it from the chart", mark, of)
}
