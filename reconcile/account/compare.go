package account

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/removal"
	"github.com/plumbline-dev/plumbline/render"
)

// Fleet contains EC2's response about a cluster's instances, and what they are compared with.
type Fleet struct {
	// Cluster is the name with which Karpenter tags instances.
	Cluster string
	// Shown are the instances with the cluster's tags, and those of the NodeClaims by ID.
	Shown []cloud.Instance
	// Claims are all NodeClaims of the cluster.
	Claims []plan.NodeClaim
	// Pools are the NodePools of the NodeSync, and Others the other NodePools of the cluster.
	Pools, Others map[string]bool
	// UIDs are the names of those of Pools that exist in the cluster, by UID.
	UIDs map[types.UID]string
	// Classes are the EC2NodeClasses of the cluster.
	Classes map[string]Class
	// Before are the instances that differed by the last answer.
	Before []v1alpha1.DriftedInstance
	// Had are the IDs of instances that NodeClaims of this cluster are known to have had.
	Had map[string]bool
	// Settled is the time before which changes must be known to both EC2 and Karpenter: anything newer is ignored.
	Settled time.Time
}

// Class is what an EC2NodeClass specifies for its instances.
type Class struct {
	// Tags are those in its spec, and Hash is Karpenter's hash of it.
	Tags map[string]string
	Hash plan.Hash
	// Groups are the IDs of the security groups that its selectors resolve to; nil if they are not
	// compared. Unresolved reports that they are unknown now: what differed before stands until it is corrected.
	Groups     []string
	Unresolved bool
}

// Differences returns the instances of the NodeSync's pools that differ from their definitions and NodeClaims, by ID.
func (f *Fleet) Differences() []v1alpha1.DriftedInstance {
	shown, claimed := map[string]*cloud.Instance{}, map[string]bool{}
	for i := range f.Shown {
		shown[f.Shown[i].ProviderID()] = &f.Shown[i]
	}
	var found []v1alpha1.DriftedInstance
	for i := range f.Claims {
		c := &f.Claims[i]
		claimed[c.ProviderID] = true
		pool := cmp.Or(f.UIDs[c.PoolUID], c.Pool)
		if c.ProviderID == "" || c.Deleting || !f.Pools[pool] || c.Created.After(f.Settled) {
			continue
		}
		words, groups := relabelled(c, pool), []string(nil)
		if words == "" {
			words, groups = f.differs(c, shown[c.ProviderID])
		}
		if words == "" {
			continue
		}
		if _, id, err := cloud.ParseProviderID(c.ProviderID); err == nil { // otherwise it is not an EC2 one
			found = append(found, v1alpha1.DriftedInstance{ID: id, NodeClaim: c.Name, Pool: pool, Message: words, SecurityGroups: groups})
		}
	}
	for id, i := range shown {
		if !claimed[id] && f.withoutClaim(i) {
			found = append(found, v1alpha1.DriftedInstance{ID: i.ID, Pool: i.Pool, Message: f.withoutClaimMessage(i)})
		}
	}
	slices.SortFunc(found, func(a, b v1alpha1.DriftedInstance) int { return cmp.Compare(a.ID, b.ID) })
	return found
}

// relabelled returns the message that a NodeClaim of a pool has the label of another pool, or none; empty if it has the
// pool's. Karpenter finds the NodeClaims of a NodePool by this label, and replaces, drains and counts only these.
func relabelled(c *plan.NodeClaim, pool string) string {
	if c.Pool == pool {
		return ""
	}
	label := fmt.Sprintf("its NodeClaim's label %s is %q", karpv1.NodePoolLabelKey, c.Pool)
	if c.Pool == "" {
		label = "its NodeClaim has no label " + karpv1.NodePoolLabelKey
	}
	return fmt.Sprintf("%s, although NodePool/%s owns it: kubectl label nodeclaim %s %s=%s --overwrite",
		label, pool, c.Name, karpv1.NodePoolLabelKey, pool)
}

// withoutClaim reports whether an instance without a NodeClaim runs for one of the NodeSync's pools, or for one that
// does not exist.
func (f *Fleet) withoutClaim(i *cloud.Instance) bool {
	return i.Pool != "" && !f.Others[i.Pool] && !isTerminating(i) && i.Launched.Before(f.Settled)
}

// withoutClaimMessage returns what to do about an instance without a NodeClaim. Its tags contain the cluster's name,
// but so do those of another cluster with the same name.
func (f *Fleet) withoutClaimMessage(i *cloud.Instance) string {
	words := "it has no NodeClaim and is " + i.State
	if f.Had[i.ID] {
		return words + "; this cluster had a NodeClaim for it: if it is not needed, terminate it in EC2"
	}
	return words + "; no NodeClaim of this cluster is recorded for it: find out whether another cluster has the name " + f.Cluster + " before you terminate it"
}

// isTerminating reports whether an instance is terminated or shutting down.
func isTerminating(i *cloud.Instance) bool { return i.Gone() || i.State == "shutting-down" }

// differs returns how an instance differs from its NodeClaim and its definitions; empty if it does not. groups are the security
// groups that it should have, if it has others.
func (f *Fleet) differs(c *plan.NodeClaim, i *cloud.Instance) (message string, groups []string) {
	switch {
	case i == nil:
		return "EC2 has no such instance, but its NodeClaim still exists", nil
	case isTerminating(i), i.State == "stopping", i.State == "stopped":
		message = "it is " + i.State + " in EC2, but its NodeClaim still exists"
		if i.Reason != "" {
			message = fmt.Sprintf("it is %s in EC2 (%s), but its NodeClaim still exists", i.State, i.Reason)
		}
		return message, nil
	}
	class, known := f.Classes[c.Class]
	// Karpenter considers nodes of an older class drifted, and replaces them.
	same := known && !c.Drifted && class.Hash != "" && c.Hashes.Class() == class.Hash
	var words []string
	if same {
		words = tagsDiffer(i.Tags, f.classTags(class.Tags), render.EC2NodeClass+"/"+c.Class)
	}
	words = append(words, tagsDiffer(i.Tags, f.karpenterTags(c), "Karpenter")...)
	if wanted := f.groups(class, i.ID); same && wanted != nil {
		if is, should := sortedGroups(i.SecurityGroups), sortedGroups(wanted); is != should {
			words = append(words, fmt.Sprintf("its security groups are %s, expected %s from %s/%s", is, should, render.EC2NodeClass, c.Class))
			groups = slices.Sorted(slices.Values(wanted))
		}
	}
	return strings.Join(words, "; "), groups
}

// groups returns the IDs of the security groups that an instance of a class should have; nil if they are not compared. While those of
// its class are unresolved, they are those of the last answer for an instance that differed, and unknown for others.
func (f *Fleet) groups(class Class, id string) []string {
	if !class.Unresolved {
		return class.Groups
	}
	for i := range f.Before {
		if f.Before[i].ID == id {
			return f.Before[i].SecurityGroups
		}
	}
	return nil
}

// karpenterTags returns the tags with which Karpenter identifies the instance of a NodeClaim (GetTags in
// karpenter-provider-aws pkg/utils/utils.go, 1.14.1).
func (f *Fleet) karpenterTags(c *plan.NodeClaim) map[string]string {
	return map[string]string{
		"kubernetes.io/cluster/" + f.Cluster: "owned",
		karpv1.NodePoolLabelKey:              c.Pool,
		awsv1.EKSClusterNameTagKey:           f.Cluster,
		awsv1.LabelNodeClass:                 c.Class,
	}
}

// classTags returns the tags of a class that Karpenter does not override with its own.
func (f *Fleet) classTags(tags map[string]string) map[string]string {
	left := maps.Clone(tags)
	for key := range f.karpenterTags(&plan.NodeClaim{}) {
		delete(left, key)
	}
	return left
}

// tagsDiffer returns which tags are missing or wrong. It ignores other tags.
func tagsDiffer(has, wanted map[string]string, by string) []string {
	var words []string
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		switch value, there := has[key]; {
		case !there:
			words = append(words, fmt.Sprintf("tag %s is missing, expected %q from %s", key, wanted[key], by))
		case value != wanted[key]:
			words = append(words, fmt.Sprintf("tag %s is %q, expected %q from %s", key, value, wanted[key], by))
		}
	}
	return words
}

// sortedGroups returns security groups in one line, in the same order each time.
func sortedGroups(groups []string) string {
	return strings.Join(slices.Sorted(slices.Values(groups)), ", ")
}

// nodes finds the Nodes of the NodeSync's pools, or of a pool that does not exist, that have neither a NodeClaim nor an
// instance, and the NodeClaims whose Node was deleted while their instance runs: nothing deletes these. A Node whose
// instance runs is reported with the instances without a NodeClaim, and a terminating one with what is left.
func (q *question) nodes(ctx context.Context) ([]v1alpha1.DriftedInstance, error) {
	claimed, runs, gone, there := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range q.fleet.Claims {
		claimed[q.fleet.Claims[i].Node] = true
	}
	for i := range q.fleet.Shown {
		shown := &q.fleet.Shown[i]
		runs[shown.ID], gone[shown.ID] = !isTerminating(shown), shown.Gone()
	}
	var found []v1alpha1.DriftedInstance
	err := cluster.EachNode(ctx, q.cluster, client.HasLabels{karpv1.NodePoolLabelKey}, func(n *metav1.PartialObjectMetadata) error {
		there[n.Name] = true
		pool := n.Labels[karpv1.NodePoolLabelKey]
		if claimed[n.Name] || q.fleet.Others[pool] || n.CreationTimestamp.After(q.fleet.Settled) {
			return nil
		}
		id, providerID, err := q.instanceOf(ctx, n.Name)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		switch {
		case n.DeletionTimestamp != nil:
			q.left = append(q.left, removal.LeftInstance{
				Kind: removal.Node, Name: n.Name, Pool: pool, Instance: id, ProviderID: providerID, Gone: gone[id], Since: n.DeletionTimestamp.Time,
			})
		case !runs[id]:
			found = append(found, v1alpha1.DriftedInstance{
				ID: id, Pool: pool,
				Message: fmt.Sprintf("Node %s exists, but has neither a NodeClaim nor an EC2 instance: kubectl delete node %[1]s", n.Name),
			})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	lost, err := q.lost(ctx, there, runs)
	return append(found, lost...), err
}

// lost finds the instances of the NodeSync's pools that run for a NodeClaim whose Node was deleted. there are the Nodes
// with the label of a NodePool, and runs the running instances.
func (q *question) lost(ctx context.Context, there, runs map[string]bool) (found []v1alpha1.DriftedInstance, err error) {
	for i := range q.fleet.Claims {
		c := &q.fleet.Claims[i]
		_, id, err := cloud.ParseProviderID(c.ProviderID)
		if err != nil || c.Node == "" || there[c.Node] || c.Deleting || !runs[id] || !q.fleet.Pools[c.Pool] || c.Created.After(q.fleet.Settled) {
			continue
		}
		switch gone, err := cluster.NodeGone(ctx, q.cluster, c.Node); { // its label may have been removed
		case err != nil:
			return nil, err
		case gone:
			found = append(found, v1alpha1.DriftedInstance{
				ID: id, NodeClaim: c.Name, Pool: c.Pool,
				Message: fmt.Sprintf("it runs, and its Node %s was deleted while its NodeClaim remains: kubectl delete nodeclaim %s", c.Node, c.Name),
			})
		}
	}
	return found, nil
}

// instanceOf returns the ID and the providerID of a Node's instance, or the Node's name and an empty string if it has
// no EC2 instance.
func (q *question) instanceOf(ctx context.Context, name string) (id, providerID string, err error) {
	node := &corev1.Node{}
	if err := q.cluster.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return "", "", fmt.Errorf("read Node %s: %w", name, err)
	}
	if _, id, err := cloud.ParseProviderID(node.Spec.ProviderID); err == nil {
		return id, node.Spec.ProviderID, nil
	}
	return name, "", nil
}
