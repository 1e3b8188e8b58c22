package removal

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

// The kinds of terminating objects.
const (
	NodeClaim           = "NodeClaim"
	Node                = "Node"
	TerminatingInstance = "Instance"
)

const (
	// expectedDuration is how long a termination may take, unless removal.stallAfter is shorter.
	expectedDuration = 5 * time.Minute
	// maxDiagnosed is how many NodeClaims get a diagnosis, which takes several reads each.
	maxDiagnosed = 20
)

// TerminationAfter returns how long an object may be terminating before it is reported.
func TerminationAfter(stallAfter time.Duration) time.Duration {
	return min(expectedDuration, stallAfter)
}

// TerminationLook finds what has been terminating for too long. Its Findings have the time of the next look.
type TerminationLook struct {
	finding.Findings

	// Claims are all NodeClaims of the cluster. Pools reports whether this NodeSync reports the nodes of a NodePool.
	Claims []plan.NodeClaim
	Pools  func(string) bool
	// Left is the result of the last comparison with EC2.
	Left []LeftInstance
	// After is how long a termination may take.
	After time.Duration
	// Controller is the reason why Karpenter's controller does not work; empty if it does.
	Controller string
	// Blockers reads what a node waits for.
	Blockers blocker.Look
	Memory   *TerminationMemory
	Now      time.Time
}

// TerminationMemory is what one TerminationLook passes to the next. If it is lost, the comparison with EC2 finds Nodes
// without a NodeClaim again.
type TerminationMemory struct {
	// read is the time of the last read, and known its result. subjects are what was read, and since is when they last
	// changed.
	read     time.Time
	since    time.Time
	subjects []string
	known    []v1alpha1.Termination
	// nodes are the Nodes of NodeClaims that are or were terminating, by name, until they are gone.
	nodes map[string]LeftInstance
}

// See returns what has been terminating for longer than After, the oldest first; never nil.
func (l *TerminationLook) See(ctx context.Context) []v1alpha1.Termination {
	claims, nodes, m := l.overdue(), l.withoutClaim(), l.Memory
	subjects := make([]string, 0, len(claims)+len(nodes))
	for _, c := range claims {
		subjects = append(subjects, NodeClaim+"/"+c.Name)
	}
	for _, n := range nodes {
		subjects = append(subjects, fmt.Sprintf("%s/%s terminated=%t", Node, n.Name, n.Gone))
	}
	if !slices.Equal(subjects, m.subjects) {
		m.read, m.since = time.Time{}, l.Now
	}
	if finding.Due(l.Now, m.read, blocker.ReadAgain(l.Now.Sub(m.since))) {
		m.read, m.subjects = l.Now, subjects
		m.known = append(l.diagnose(ctx, claims), l.staying(ctx, nodes)...)
	}
	if len(subjects) > 0 {
		l.WakeBy(m.read.Add(blocker.ReadAgain(l.Now.Sub(m.since))))
	}
	found := append(l.instances(), m.known...)
	slices.SortFunc(found, func(a, b v1alpha1.Termination) int {
		return cmp.Or(a.Since.Compare(b.Since.Time), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// overdue returns the NodeClaims that have been terminating for too long, the oldest first.
func (l *TerminationLook) overdue() []*plan.NodeClaim {
	var found []*plan.NodeClaim
	for i := range l.Claims {
		c := &l.Claims[i]
		if c.Deleting && l.Pools(c.Pool) && l.isOver(c.Deleted) {
			found = append(found, c)
		}
	}
	slices.SortFunc(found, func(a, b *plan.NodeClaim) int {
		return cmp.Or(a.Deleted.Compare(b.Deleted), cmp.Compare(a.Name, b.Name))
	})
	return found
}

// isOver reports whether After has passed since a time. If not, the next look is due when it has.
func (l *TerminationLook) isOver(since time.Time) bool {
	at := since.Add(l.After)
	if l.Now.Before(at) {
		l.WakeBy(at)
		return false
	}
	return true
}

// diagnose returns the Terminations of NodeClaims, the first of them with their causes.
func (l *TerminationLook) diagnose(ctx context.Context, claims []*plan.NodeClaim) []v1alpha1.Termination {
	var found []v1alpha1.Termination
	first := claims[:min(maxDiagnosed, len(claims))]
	for some := range slices.Chunk(first, blocker.Most) {
		found = append(found, l.causes(ctx, some)...)
	}
	for _, c := range claims[len(first):] {
		t := terminationOf(c)
		t.Message = "not diagnosed: other NodeClaims have been terminating for longer"
		found = append(found, t)
	}
	return found
}

// causes returns the Terminations of NodeClaims, at most as many as a blocker.Look reads at a time, without those that
// are gone.
func (l *TerminationLook) causes(ctx context.Context, claims []*plan.NodeClaim) []v1alpha1.Termination {
	by := map[string]*plan.NodeClaim{}
	var nodes []blocker.Node
	var failures []error
	for _, c := range claims {
		node := blocker.Node{Claim: c.Name, Name: c.Node, ProviderID: c.ProviderID}
		live := &karpv1.NodeClaim{}
		switch err := l.Blockers.Reader.Get(ctx, client.ObjectKey{Name: c.Name}, live); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			failures = append(failures, err)
		default:
			node = blocker.NodeOf(live)
		}
		nodes, by[c.Name] = append(nodes, node), c
	}
	if len(nodes) == 0 {
		return nil
	}
	evidence, err := l.Blockers.At(ctx, nodes)
	unread := errors.Join(append(failures, err)...)
	var found []v1alpha1.Termination
	for i := range evidence.Nodes {
		n := &evidence.Nodes[i]
		cause, t := n.WaitsFor(evidence), terminationOf(by[n.Claim])
		t.Message = l.withController("waits for " + cause.Words)
		if unread != nil {
			line, _, _ := strings.Cut(unread.Error(), "\n")
			t.Message += "; other causes are possible, because not everything could be read: " + line
		}
		if command, has := blocker.BreakGlass(n, cause); has {
			t.BreakGlass = &command
		}
		found = append(found, t)
	}
	return found
}

func terminationOf(c *plan.NodeClaim) v1alpha1.Termination {
	return v1alpha1.Termination{
		Kind: NodeClaim, Name: c.Name, Node: c.Node, Instance: cloud.InstanceID(c.ProviderID), Pool: c.Pool, Since: metav1.NewTime(c.Deleted),
	}
}

// withController prefixes a message with the state of a controller that does not work.
func (l *TerminationLook) withController(message string) string {
	if l.Controller == "" {
		return message
	}
	return l.Controller + "; " + message
}
