package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// slowDrain is after how long of draining that is named, too, which each drain waits for for a while:
// a pod that ends, an instance that is shutting down.
const slowDrain = 2 * time.Minute

// hangs says what keeps nodes that drain, once the rollout makes no progress; empty where nothing is
// known to. While such a node is there it stands in the message whatever other nodes do, and it is asked again.
func (r *Rollouts) hangs(ctx context.Context, of v1alpha1.Rollout, ending []*plan.NodeClaim) string {
	m := r.Memory
	if m.hanging != nil && !slices.ContainsFunc(ending, func(c *plan.NodeClaim) bool { return m.hanging[c.UID] }) {
		m.hanging, m.blocked = nil, ""
	}
	if len(ending) == 0 {
		return ""
	}
	return r.blocked(of, m.hanging != nil, func() (words string) {
		words, m.hanging = r.diagnose(ctx, ending)
		return words
	})
}

// diagnose finds out what keeps the nodes that have been draining for longest, and which those are.
func (r *Rollouts) diagnose(ctx context.Context, ending []*plan.NodeClaim) (words string, hanging map[types.UID]bool) {
	slices.SortFunc(ending, func(a, b *plan.NodeClaim) int {
		return cmp.Or(a.Deleted.Compare(b.Deleted), cmp.Compare(a.Name, b.Name))
	})
	oldest := map[string]*plan.NodeClaim{}
	var nodes []blocker.Node
	var failures []error
	for _, c := range ending[:min(blocker.Most, len(ending))] {
		n, err := r.nodeOf(ctx, c)
		if apierrors.IsNotFound(err) {
			continue // it has gone meanwhile
		}
		oldest[c.Name], nodes, failures = c, append(nodes, n), append(failures, err)
	}
	if len(nodes) == 0 {
		return "", nil
	}
	found, err := r.blockerLook().At(ctx, nodes)
	var all []string
	for i := range found.Nodes {
		n := &found.Nodes[i]
		c := oldest[n.Claim]
		if what := keeps(n, found, !r.Now.Before(c.Deleted.Add(slowDrain))); what != "" {
			all = append(all, fmt.Sprintf("%s (node %s, NodeClaim/%s)", what, n.Title(), n.Claim))
			if hanging == nil {
				hanging = map[types.UID]bool{}
			}
			hanging[c.UID] = true
		}
	}
	if len(all) > 0 {
		return blocker.Say(all), hanging
	}
	if err = errors.Join(append(failures, err)...); err != nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return fmt.Sprintf("read what keeps NodeClaim/%s: %s", nodes[0].Claim, first), nil
	}
	return "", nil
}

// keeps says what keeps a node, without what each drain waits for unless it is slow.
func keeps(n *blocker.Node, e blocker.Evidence, slow bool) string {
	var words, passing []string
	for _, c := range n.Causes(e) {
		if c.Passing {
			passing = append(passing, c.Short)
		} else {
			words = append(words, c.Short)
		}
	}
	if len(words) == 0 && slow {
		words = passing
	}
	return finding.Few(words, " and ")
}

// nodeOf is the node of a NodeClaim, with its conditions where they can be read.
func (r *Rollouts) nodeOf(ctx context.Context, c *plan.NodeClaim) (blocker.Node, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Events.Get(ctx, client.ObjectKey{Name: c.Name}, claim); err != nil {
		return blocker.Node{Claim: c.Name, Name: c.Node, ProviderID: c.ProviderID}, err
	}
	return blocker.NodeOf(claim), nil
}

func (r *Rollouts) blockerLook() blocker.Look {
	look := blocker.Look{Reader: r.Events, Now: r.Now, DaemonSets: func(ctx context.Context) plan.DaemonSets {
		if r.DaemonSets == nil {
			return plan.DaemonSets{}
		}
		found, _ := r.DaemonSets(ctx)
		return found
	}}
	if r.EC2 != nil {
		look.Protected = func(ctx context.Context, providerID string) (bool, error) {
			ec2, err := r.EC2(ctx)
			if err != nil {
				return false, err
			}
			return ec2.TerminationProtected(ctx, providerID)
		}
	}
	return look
}
