package removal

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
)

// LeftInstance is a Node or an EC2 instance that is terminating and has no NodeClaim.
type LeftInstance struct {
	Kind, Name, Pool string
	// Instance is the ID of the instance. Gone is true if EC2 reports it as terminated; if EC2 does not return it, that
	// is no proof. ProviderID is the Node's; empty if it is not an EC2 one.
	Instance, ProviderID string
	Gone                 bool
	// Since is the Node's deletionTimestamp or, for an instance, when plumbline first saw EC2 shut it down.
	Since time.Time
}

// NeedsInstances reports whether a Node without a NodeClaim is terminating and the state of its instance is unknown.
// The next comparison with EC2 should then not wait.
func (m *TerminationMemory) NeedsInstances() bool {
	return slices.ContainsFunc(m.known, func(t v1alpha1.Termination) bool { return t.Kind == Node && t.BreakGlass == nil })
}

// withoutClaim returns the Nodes that may be terminating and have no NodeClaim, by name. Nodes are not in a watch cache: each
// is remembered while its NodeClaim is terminating, or is found by the comparison with EC2.
func (l *TerminationLook) withoutClaim() []LeftInstance {
	m := l.Memory
	if m.nodes == nil {
		m.nodes = map[string]LeftInstance{}
	}
	for _, left := range l.Left {
		if left.Kind == Node {
			m.nodes[left.Name] = left
		}
	}
	claimed := map[string]bool{}
	for i := range l.Claims {
		c := &l.Claims[i]
		claimed[c.Node] = true
		if c.Deleting && c.Node != "" && l.Pools(c.Pool) {
			m.nodes[c.Node] = LeftInstance{Kind: Node, Name: c.Node, Pool: c.Pool, Instance: cloud.InstanceID(c.ProviderID), Since: c.Deleted}
		}
	}
	var found []LeftInstance
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		if !claimed[name] {
			found = append(found, m.nodes[name])
		}
	}
	return found
}

// staying returns the Terminations of the Nodes that have been terminating for too long.
func (l *TerminationLook) staying(ctx context.Context, nodes []LeftInstance) []v1alpha1.Termination {
	var found []v1alpha1.Termination
	for _, n := range nodes {
		live := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		switch err := l.Blockers.Reader.Get(ctx, client.ObjectKey{Name: n.Name}, live); {
		case apierrors.IsNotFound(err), err == nil && live.DeletionTimestamp == nil:
			delete(l.Memory.nodes, n.Name)
		case err != nil: // what was known stays reported
			known := slices.IndexFunc(l.Memory.known, func(t v1alpha1.Termination) bool { return t.Kind == Node && t.Name == n.Name })
			if known >= 0 {
				found = append(found, l.Memory.known[known])
			}
		case l.isOver(live.DeletionTimestamp.Time):
			n.Gone = n.Gone && live.DeletionTimestamp.Time.Equal(n.Since) // another Node may have the name by now
			found = append(found, l.ofNode(n, live))
		}
	}
	return found
}

// ofNode returns the Termination of a Node that has no NodeClaim. It has the command that removes the finalizers only
// if EC2 has terminated the instance; otherwise the instance would keep running without a Node.
func (l *TerminationLook) ofNode(n LeftInstance, live *metav1.PartialObjectMetadata) v1alpha1.Termination {
	t := v1alpha1.Termination{Kind: Node, Name: n.Name, Node: n.Name, Instance: n.Instance, Pool: n.Pool, Since: *live.DeletionTimestamp}
	waits := l.withController("no NodeClaim; waiting for " + blocker.WaitsForFinalizers(live.Finalizers))
	instance := cmp.Or(n.Instance, "its instance")
	if !n.Gone {
		t.Message = waits + "; unknown whether EC2 has terminated " + instance
		return t
	}
	t.Message = waits + "; EC2 has terminated " + instance
	t.BreakGlass = &v1alpha1.BreakGlass{
		Node: n.Name, Cause: v1alpha1.CauseObjectFinalizer, Command: blocker.RemoveFinalizers("node/" + n.Name),
		Risk: "the finalizer's controller does not finish its work for the Node; a pod that is still listed on it is deleted without its grace period",
	}
	return t
}

// instances returns the Terminations of instances that have no NodeClaim.
func (l *TerminationLook) instances() []v1alpha1.Termination {
	found := []v1alpha1.Termination{}
	for _, i := range l.Left {
		if i.Kind != TerminatingInstance || !l.isOver(i.Since) {
			continue
		}
		found = append(found, v1alpha1.Termination{
			Kind: TerminatingInstance, Name: i.Name, Instance: i.Name, Pool: i.Pool, Since: metav1.NewTime(i.Since).Rfc3339Copy(),
			Message: "no NodeClaim; EC2 has accepted its termination and is still shutting it down: wait, or contact AWS support; AWS does not bill an instance that is shutting down",
		})
	}
	return found
}
