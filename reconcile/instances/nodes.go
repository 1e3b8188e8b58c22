package instances

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/termination"
)

// nodes finds the Nodes of the NodeSync's pools, or of a pool that does not exist, that no NodeClaim has and whose instance is
// not there either: nothing deletes these. One whose instance runs is among the instances that no NodeClaim has, and one that is
// terminating among what is left.
func (q *question) nodes(ctx context.Context) ([]v1alpha1.DriftedInstance, error) {
	claimed, runs, gone := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range q.fleet.Claims {
		claimed[q.fleet.Claims[i].Node] = true
	}
	for i := range q.fleet.Shown {
		shown := &q.fleet.Shown[i]
		runs[shown.ID], gone[shown.ID] = !ends(shown), shown.Gone()
	}
	var found []v1alpha1.DriftedInstance
	for page := ""; ; {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
		if err := q.cluster.List(ctx, list, client.HasLabels{karpv1.NodePoolLabelKey}, client.Limit(pageSize), client.Continue(page)); err != nil {
			return nil, fmt.Errorf("list Nodes: %w", err)
		}
		for i := range list.Items {
			n := &list.Items[i]
			pool := n.Labels[karpv1.NodePoolLabelKey]
			if claimed[n.Name] || q.fleet.Others[pool] || n.CreationTimestamp.After(q.fleet.Settled) {
				continue
			}
			id, err := q.instanceOf(ctx, n.Name)
			if client.IgnoreNotFound(err) != nil {
				return nil, err
			}
			switch {
			case err != nil:
			case n.DeletionTimestamp != nil:
				q.left = append(q.left, termination.Left{Kind: termination.Node, Name: n.Name, Pool: pool, Instance: id, Gone: gone[id], Since: n.DeletionTimestamp.Time})
			case !runs[id]:
				found = append(found, v1alpha1.DriftedInstance{ID: id, Pool: pool, Message: fmt.Sprintf("Node %s is there, and neither a NodeClaim nor an instance in EC2: kubectl delete node %[1]s", n.Name)})
			}
		}
		if page = list.Continue; page == "" {
			return found, nil
		}
	}
}

// instanceOf is the ID of a Node's instance; its name where it has none of EC2.
func (q *question) instanceOf(ctx context.Context, name string) (string, error) {
	node := &corev1.Node{}
	if err := q.cluster.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return "", fmt.Errorf("read Node %s: %w", name, err)
	}
	if _, id, err := cloud.ParseProviderID(node.Spec.ProviderID); err == nil {
		return id, nil
	}
	return name, nil
}
