package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/list"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// treeNode is an object and its children.
type treeNode struct {
	Name     string      `json:"name"`
	State    string      `json:"state"`
	Created  metav1.Time `json:"created"`
	Children []*treeNode `json:"children,omitempty"`
}

func newTreeCommand(kubeconfig *genericclioptions.ConfigFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tree NODESYNC",
		Short: "Show a NodeSync's pools with their NodeClaims and Nodes",
		Long: `Show the definitions of a NodeSync (EC2NodeClasses, NodeOverlays, NodePools and
CapacityBuffers), the NodeClaims of each pool, and the Node of each NodeClaim, with
the state of each.

With --watch the command shows only nodes, and keeps running: type, zone, capacity type,
on-demand list price, age, pods, and what each waits for. On a terminal it redraws the
screen each second, in a pipe it prints each change as one line. Prices are those of
us-east-1 in most regions, as of the linked version of Karpenter. You then need permission
to list pods.`,
		Example:           "  plumbline tree prod-eu\n  plumbline tree prod-eu --watch",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodeSyncs(kubeconfig, 1),
	}
	output := addOutput(cmd)
	watches := cmd.Flags().BoolP("watch", "w", false, "show the nodes, and keep running")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, sync, err := nodeSyncOf(cmd.Context(), kubeconfig, args[0])
		if err != nil {
			return err
		}
		if *watches {
			return c.watchTree(cmd, *output, args[0])
		}
		root, err := treeOf(cmd.Context(), c, sync)
		if err != nil {
			return err
		}
		return output.write(cmd.OutOrStdout(), root, func(out io.Writer) error {
			root.print(out)
			return nil
		})
	}
	return cmd
}

// treeOf reads what a NodeSync has in the cluster.
func treeOf(ctx context.Context, c client.Reader, sync *v1alpha1.NodeSync) (*treeNode, error) {
	root := &treeNode{Name: "nodesync/" + sync.Name, State: string(summary.StateOf(sync)), Created: sync.CreationTimestamp}
	claims, err := claimsByPool(ctx, c)
	if err != nil {
		return nil, err
	}
	owner := plan.OwnerOf(sync.Namespace, sync.Name)
	for _, kind := range render.Kinds() {
		objects, err := definitionsOf(ctx, c, kind)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			object := &objects[i]
			if !owner.Owns(object) {
				continue
			}
			node := &treeNode{
				Name: render.RefTo(kind.GVK.Kind, object).String(), State: stateOfDefinition(object, sync.Status.Removals),
				Created: object.GetCreationTimestamp(),
			}
			if kind.GVK.Kind == render.NodePool {
				node.Children = claims[object.GetName()]
			}
			root.Children = append(root.Children, node)
		}
	}
	return root, nil
}

// claimsByPool returns all NodeClaims, by the names of their pools, with their Nodes.
func claimsByPool(ctx context.Context, c client.Reader) (map[string][]*treeNode, error) {
	claims, nodes := &karpv1.NodeClaimList{}, &corev1.NodeList{}
	if err := c.List(ctx, claims); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeClaims")
	}
	if err := c.List(ctx, nodes); err != nil {
		return nil, explain(err, "list Nodes")
	}
	byID := map[string]*corev1.Node{}
	for i := range nodes.Items {
		byID[nodes.Items[i].Spec.ProviderID] = &nodes.Items[i]
	}
	slices.SortFunc(claims.Items, func(a, b karpv1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	pools := map[string][]*treeNode{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		child := &treeNode{Name: "NodeClaim/" + claim.Name, State: stateOfClaim(claim), Created: claim.CreationTimestamp}
		if node := byID[claim.Status.ProviderID]; node != nil && claim.Status.ProviderID != "" {
			child.Children = []*treeNode{{Name: "Node/" + node.Name, State: stateOfNode(node), Created: node.CreationTimestamp}}
		}
		pool := poolOf(claim)
		pools[pool] = append(pools[pool], child)
	}
	return pools, nil
}

// stateOfDefinition returns the state of an object, and whether it is being removed.
func stateOfDefinition(object *unstructured.Unstructured, removals []v1alpha1.Removal) string {
	seen := cluster.Ready(plan.NewObject(object))
	words := "Ready"
	leaves := slices.IndexFunc(removals, func(r v1alpha1.Removal) bool { return r.UID == object.GetUID() })
	switch {
	case leaves >= 0 && removals[leaves].Drained():
		words = "drained"
	case leaves >= 0:
		words = "leaves: " + string(removals[leaves].Phase)
	case object.GetDeletionTimestamp() != nil:
		words = "Terminating"
	case !seen.Ready:
		words = "not Ready: " + seen.Message
	}
	if used := summary.LimitUsed(object); used != "" {
		words += ", " + used
	}
	return words
}

// stateOfClaim returns the stage of a NodeClaim, its instance type, zone and capacity type.
func stateOfClaim(claim *karpv1.NodeClaim) string {
	state := "Ready"
	conditions := claim.StatusConditions()
	switch {
	case claim.DeletionTimestamp != nil:
		state = "Draining"
	case conditions.Get(karpv1.ConditionTypeDrifted).IsTrue():
		state = "Drifted"
	default:
		for _, kind := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
			if found := conditions.Get(kind); !found.IsTrue() {
				if state = "not " + kind; found != nil && found.Reason != "" {
					state += ": " + found.Reason
				}
				break
			}
		}
	}
	for _, label := range []string{corev1.LabelInstanceTypeStable, corev1.LabelTopologyZone, karpv1.CapacityTypeLabelKey} {
		if value := claim.Labels[label]; value != "" {
			state += ", " + value
		}
	}
	return state
}

// stateOfNode returns a Node's state as kubectl prints it.
func stateOfNode(node *corev1.Node) string {
	state := "NotReady"
	if cluster.NodeReady(node) {
		state = "Ready"
	}
	if node.Spec.Unschedulable {
		state += ",SchedulingDisabled"
	}
	return state
}

// indent is what the library prints before the first item, and below it.
var indent = []rune("── ")

// print draws the tree, with a column for the states and one for the ages.
func (n *treeNode) print(out io.Writer) {
	drawn := list.NewWriter()
	drawn.SetStyle(list.StyleConnectedLight)
	var rows []*treeNode
	n.draw(drawn, &rows)
	t := display.NewNarrowedTable(out, 1, []int{2}, "NAME", "STATE", "AGE")
	for i, line := range strings.Split(drawn.Render(), "\n") {
		t.AppendRow([]any{string([]rune(line)[len(indent):]), oneLine(rows[i].State), age(rows[i].Created)})
	}
	t.Render()
}

func (n *treeNode) draw(drawn list.Writer, rows *[]*treeNode) {
	drawn.AppendItem(n.Name)
	*rows = append(*rows, n)
	drawn.Indent()
	for _, child := range n.Children {
		child.draw(drawn, rows)
	}
	drawn.UnIndent()
}
