package termination

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// The kinds of what is terminating.
const (
	NodeClaim = "NodeClaim"
	Node      = "Node"
	Instance  = "Instance"
)

const (
	// Expected is how long a termination takes at most, unless removal.stallAfter is shorter.
	Expected = 5 * time.Minute
	// askEvery is how often it is read what overdue objects wait for: no watch reports that.
	askEvery = time.Minute
	// most is how many are diagnosed and named.
	most = 20
)

// After is how long something may be terminating before it is reported.
func After(stallAfter time.Duration) time.Duration { return min(Expected, stallAfter) }

// Left is a Node or an EC2 instance that is terminating and that no NodeClaim has.
type Left struct {
	Kind, Name, Pool string
	// Instance is the ID of a Node's instance, and Gone says that EC2 has terminated it, or has none of that ID.
	Instance string
	Gone     bool
	// Since is its deletionTimestamp; of an instance, when plumbline first saw EC2 shut it down.
	Since time.Time
}

// Memory is what one Look leaves to the next. Losing it costs time: the comparison with EC2 finds Nodes again.
type Memory struct {
	asked time.Time
	known []v1alpha1.Termination
	// nodes are the Nodes of NodeClaims that are terminating, by name, until both are gone.
	nodes map[string]Left
}

// Nodes says that a Node may have been left by its NodeClaim: the comparison with EC2 is asked about its instance.
func (m *Memory) Nodes() bool {
	return slices.ContainsFunc(m.known, func(t v1alpha1.Termination) bool { return t.Kind == Node && t.BreakGlass == nil })
}

// Look is one look at what is terminating.
type Look struct {
	finding.Findings

	// Claims are the NodeClaims of the cluster, and Pools says whether a NodePool is this NodeSync's to report.
	Claims []plan.NodeClaim
	Pools  func(string) bool
	// Left is what the last comparison with EC2 has found; its Nodes are read again.
	Left []Left
	// After is how long a termination may take.
	After time.Duration
	// Controller is why Karpenter does nothing; empty if it is at work.
	Controller string
	// Blockers finds out what a node waits for.
	Blockers blocker.Look
	Memory   *Memory
	Now      time.Time
}

// See returns what has been terminating for longer than After, the oldest first; never nil.
func (l *Look) See(ctx context.Context) []v1alpha1.Termination {
	overdue := l.overdue()
	l.follow()
	if len(overdue)+len(l.Memory.nodes) == 0 && len(l.Left) == 0 {
		l.Memory.known = nil
		return []v1alpha1.Termination{}
	}
	if !l.due(overdue) {
		return append([]v1alpha1.Termination{}, l.Memory.known...)
	}
	l.Memory.asked = l.Now
	found := l.claims(ctx, overdue)
	found = append(found, l.left(ctx)...)
	slices.SortFunc(found, func(a, b v1alpha1.Termination) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	if len(found) > 0 {
		l.WakeBy(l.Now.Add(askEvery))
	}
	l.Memory.known = found
	return append([]v1alpha1.Termination{}, found...)
}

// due says whether it is time to read again: once a minute, and at once when something is overdue that was not, or is gone.
func (l *Look) due(overdue []*plan.NodeClaim) bool {
	known := map[string]bool{}
	for _, t := range l.Memory.known {
		if t.Kind == NodeClaim {
			known[t.Name] = true
		}
	}
	for _, c := range overdue {
		if !known[c.Name] {
			return true
		}
		delete(known, c.Name)
	}
	due := l.Memory.asked.Add(askEvery)
	if len(known) > 0 || finding.Due(l.Now, l.Memory.asked, askEvery) {
		return true
	}
	l.WakeBy(due)
	return false
}

// overdue are the NodeClaims that have been terminating for too long, the oldest first. Another look is due when the next
// one is.
func (l *Look) overdue() []*plan.NodeClaim {
	var found []*plan.NodeClaim
	for i := range l.Claims {
		c := &l.Claims[i]
		if !c.Deleting || !l.Pools(c.Pool) {
			continue
		}
		if at := c.Deleted.Add(l.After); l.Now.Before(at) {
			l.WakeBy(at)
			continue
		}
		found = append(found, c)
	}
	slices.SortFunc(found, func(a, b *plan.NodeClaim) int {
		return cmp.Or(a.Deleted.Compare(b.Deleted), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// follow notes the Nodes of NodeClaims that are terminating: a Node may stay behind when its NodeClaim is gone.
func (l *Look) follow() {
	if l.Memory.nodes == nil {
		l.Memory.nodes = map[string]Left{}
	}
	for i := range l.Claims {
		if c := &l.Claims[i]; c.Deleting && c.Node != "" && l.Pools(c.Pool) {
			l.Memory.nodes[c.Node] = Left{Kind: Node, Name: c.Node, Pool: c.Pool, Instance: cloud.InstanceID(c.ProviderID), Since: c.Deleted}
		}
	}
	for _, left := range l.Left {
		if left.Kind == Node {
			l.Memory.nodes[left.Name] = left
		}
	}
}

// claims are the Terminations of NodeClaims.
func (l *Look) claims(ctx context.Context, overdue []*plan.NodeClaim) []v1alpha1.Termination {
	var found []v1alpha1.Termination
	for len(overdue) > 0 {
		some := overdue[:min(blocker.Most, len(overdue))]
		overdue = overdue[len(some):]
		if len(found) >= most {
			for _, c := range some {
				found = append(found, termination(c, "what it waits for is not read: there are others that have been terminating for longer", nil))
			}
			continue
		}
		found = append(found, l.diagnosed(ctx, some)...)
	}
	return found
}

// diagnosed are the Terminations of a few NodeClaims. One that is gone meanwhile is left out.
func (l *Look) diagnosed(ctx context.Context, claims []*plan.NodeClaim) []v1alpha1.Termination {
	by := map[string]*plan.NodeClaim{}
	var nodes []blocker.Node
	var failures []error
	for _, c := range claims {
		live := &karpv1.NodeClaim{}
		switch err := l.Blockers.Reader.Get(ctx, client.ObjectKey{Name: c.Name}, live); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			failures = append(failures, err)
			nodes = append(nodes, blocker.Node{Claim: c.Name, Name: c.Node, ProviderID: c.ProviderID})
		default:
			nodes = append(nodes, blocker.NodeOf(live))
		}
		by[c.Name] = c
	}
	if len(nodes) == 0 {
		return nil
	}
	e, err := l.Blockers.At(ctx, nodes)
	unread := errors.Join(append(failures, err)...)
	var found []v1alpha1.Termination
	for i := range e.Nodes {
		n := &e.Nodes[i]
		cause := n.WaitsFor(e)
		words := "waits for " + cause.Words
		if l.Controller != "" {
			words = l.Controller + "; it " + words
		}
		if unread != nil {
			first, _, _ := strings.Cut(unread.Error(), "\n")
			words += "; not all that it may wait for could be read: " + first
		}
		var command *v1alpha1.BreakGlass
		if g, has := blocker.BreakGlass(n, cause); has {
			command = &g
		}
		found = append(found, termination(by[n.Claim], words, command))
	}
	return found
}

func termination(c *plan.NodeClaim, words string, command *v1alpha1.BreakGlass) v1alpha1.Termination {
	return v1alpha1.Termination{
		Kind: NodeClaim, Name: c.Name, Node: c.Node, Instance: cloud.InstanceID(c.ProviderID), Pool: c.Pool,
		Since: metav1.NewTime(c.Deleted), Message: words, BreakGlass: command,
	}
}

// left are the Terminations of Nodes and instances that no NodeClaim has.
func (l *Look) left(ctx context.Context) []v1alpha1.Termination {
	claimed := map[string]bool{}
	for i := range l.Claims {
		claimed[l.Claims[i].Node] = true
	}
	var found []v1alpha1.Termination
	for name, node := range l.Memory.nodes {
		if claimed[name] {
			continue // its NodeClaim is what is reported
		}
		live := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		err := l.Blockers.Reader.Get(ctx, client.ObjectKey{Name: name}, live)
		switch {
		case apierrors.IsNotFound(err), err == nil && live.DeletionTimestamp == nil:
			delete(l.Memory.nodes, name)
		case err != nil:
			l.WakeBy(l.Now.Add(askEvery))
		case l.Now.Before(live.DeletionTimestamp.Add(l.After)):
			l.WakeBy(live.DeletionTimestamp.Add(l.After))
		default:
			node.Gone = node.Gone || l.terminated(node.Instance)
			found = append(found, node.staying(live, l.Controller))
		}
	}
	for _, i := range l.Left {
		if i.Kind != Instance {
			continue
		}
		if at := i.Since.Add(l.After); l.Now.Before(at) {
			l.WakeBy(at)
			continue
		}
		found = append(found, v1alpha1.Termination{
			Kind: Instance, Name: i.Name, Instance: i.Name, Pool: i.Pool, Since: metav1.NewTime(i.Since).Rfc3339Copy(),
			Message: "EC2 has been shutting it down, and no NodeClaim has it: wait, or ask AWS support; it is not billed while it shuts down",
		})
	}
	return found
}

// terminated says whether the last comparison with EC2 has found that it terminated an instance.
func (l *Look) terminated(id string) bool {
	return slices.ContainsFunc(l.Left, func(i Left) bool { return i.Instance == id && i.Gone })
}

// staying is the Termination of a Node that no NodeClaim has. The command that removes its finalizers is printed only if
// EC2 has terminated the instance: else that would run on without a Node.
func (n Left) staying(live *metav1.PartialObjectMetadata, controller string) v1alpha1.Termination {
	t := v1alpha1.Termination{Kind: Node, Name: n.Name, Node: n.Name, Instance: n.Instance, Pool: n.Pool, Since: *live.DeletionTimestamp}
	t.Message = "it has no NodeClaim, and waits for " + blocker.WaitsForFinalizers(live.Finalizers)
	if controller != "" {
		t.Message = controller + "; " + t.Message
	}
	if !n.Gone {
		t.Message += fmt.Sprintf("; whether EC2 has terminated %s is not known yet", cmp.Or(n.Instance, "its instance"))
		return t
	}
	t.Message += fmt.Sprintf("; EC2 has terminated %s", cmp.Or(n.Instance, "its instance"))
	t.BreakGlass = &v1alpha1.BreakGlass{
		Node: n.Name, Cause: v1alpha1.CauseObjectFinalizer, Command: blocker.RemoveFinalizers("node/" + n.Name),
		Risk: "whatever the finalizer's controller still has to do for the Node is not done; a pod that is still listed on it is deleted without its grace period",
	}
	return t
}
