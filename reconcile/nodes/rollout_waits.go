package nodes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/workload"
)

// waits says what a rollout waits for: what keeps the nodes that are still to go, and those that
// drain. It is empty where nodes drain as they should, or are about to.
func (r *Rollouts) waits(ctx context.Context, of v1alpha1.Rollout, matched plan.Matched) string {
	staying := map[string]int{}
	var next, ending []*plan.NodeClaim
	for _, o := range matched.Outdated {
		if o.Claim.Deleting {
			ending = append(ending, o.Claim)
			continue
		}
		staying[o.Claim.Pool]++
		next = append(next, o.Claim)
	}
	hangs := r.hangs(ctx, of, ending)
	if len(staying) == 0 {
		return cmp.Or(blocker.Beside(r.launchesNone(of), hangs), r.unanswered(of, matched))
	}
	if words := r.closed(staying, hangs != ""); words != "" {
		return blocker.Beside(words, hangs)
	}
	for _, l := range r.Launchless {
		if staying[l.Pool] > 0 {
			return blocker.Beside(fmt.Sprintf("no replacement comes in NodePool/%s: %s", l.Pool, l.Why), hangs)
		}
	}
	if len(ending) > 0 {
		return hangs
	}
	return r.undisrupted(ctx, of, next)
}

// undisrupted returns why Karpenter does not begin to replace nodes: its event on the first of them, once the rollout makes no
// progress. A cause that does not pass by itself is reported as soon as Karpenter does.
func (r *Rollouts) undisrupted(ctx context.Context, of v1alpha1.Rollout, claims []*plan.NodeClaim) string {
	early := r.early(of, func() string {
		words, lasts := r.reported(ctx, of, claims)
		if !lasts {
			return ""
		}
		return words
	})
	return cmp.Or(early, r.blocked(of, false, func() string {
		words, _ := r.reported(ctx, of, claims)
		return words
	}))
}

// early asks what keeps the nodes of a rollout that has made progress less than quiet ago.
func (r *Rollouts) early(of v1alpha1.Rollout, ask func() string) string {
	m, from := r.Memory, of.LastProgress.Add(earlyEvery)
	switch {
	case !r.Now.Before(of.LastProgress.Add(quiet)):
		m.early = ""
		return ""
	case r.Now.Before(from):
		m.early = ""
		r.WakeBy(from)
		return ""
	case finding.Due(r.Now, m.askedEarly, earlyEvery):
		m.askedEarly, m.early = r.Now, ask()
	}
	r.WakeBy(m.askedEarly.Add(earlyEvery))
	return m.early
}

// reported reads Karpenter's event on the first of some NodeClaims, and whether what it reports does not pass by itself. If that names a
// PodDisruptionBudget, all that block these nodes are named instead.
func (r *Rollouts) reported(ctx context.Context, of v1alpha1.Rollout, claims []*plan.NodeClaim) (words string, lasts bool) {
	first := claims[0]
	words, err := blocker.WhyNotDisrupted(ctx, r.Events, first.Name, first.Node != "", of.Since.Add(-clocksDiffer), r.Now)
	if err != nil {
		return err.Error(), false
	}
	if !blocker.NamesBudget(words) {
		return words, strings.Contains(words, karpv1.DoNotDisruptAnnotationKey)
	}
	if all, err := r.budgets(ctx, claims); err == nil && all != "" {
		return all, true
	}
	return words, true
}

// mostBlocked is of how many nodes the pods are read, to find the PodDisruptionBudgets that block them.
const mostBlocked = 25

// budgets names the PodDisruptionBudgets that block nodes, and counts these; empty if none does.
func (r *Rollouts) budgets(ctx context.Context, claims []*plan.NodeClaim) (string, error) {
	names, namespaces := map[string]bool{}, map[string]bool{}
	var pods []corev1.Pod
	for _, c := range claims[:min(mostBlocked, len(claims))] {
		if c.Node == "" {
			continue
		}
		list := &corev1.PodList{}
		if err := r.Events.List(ctx, list, client.MatchingFields{"spec.nodeName": c.Node}); err != nil {
			return "", fmt.Errorf("list pods of node %s: %w", c.Node, err)
		}
		names[c.Node], pods = true, append(pods, list.Items...)
		for i := range list.Items {
			namespaces[list.Items[i].Namespace] = true
		}
	}
	var budgets []policyv1.PodDisruptionBudget
	for namespace := range namespaces {
		list := &policyv1.PodDisruptionBudgetList{}
		if err := r.Events.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", fmt.Errorf("list PodDisruptionBudgets of namespace %s: %w", namespace, err)
		}
		budgets = append(budgets, list.Items...)
	}
	words := workload.Of(names, pods, budgets, r.Now).Blocks()
	if more := len(claims) - mostBlocked; words != "" && more > 0 {
		words = fmt.Sprintf("%s; %s not examined", words, english.Plural(more, "more node was", "more nodes were"))
	}
	return words, nil
}

// clocksDiffer is by how much Karpenter's clock may differ from ours.
const clocksDiffer = time.Minute

// blocked is the answer to what keeps nodes, asked once the rollout makes no progress, or goes on being asked,
// and then again from time to time: no watch tells of budgets.
func (r *Rollouts) blocked(of v1alpha1.Rollout, goesOn bool, ask func() string) string {
	m := r.Memory
	if asks := of.LastProgress.Add(quiet); !goesOn && r.Now.Before(asks) {
		r.WakeBy(asks)
		m.blocked = ""
		return ""
	}
	if finding.Due(r.Now, m.asked, askEvery) {
		m.asked = r.Now
		m.blocked = ask()
	}
	r.WakeBy(m.asked.Add(askEvery))
	return m.blocked
}

// unanswered says what a rollout waits for where no node is known to wait.
func (r *Rollouts) unanswered(of v1alpha1.Rollout, matched plan.Matched) string {
	if len(matched.Unresolved) > 0 {
		return fmt.Sprintf("Karpenter looks for the AMIs of %s", finding.Few(matched.Unresolved, ", "))
	}
	if len(matched.Unknown) > 0 && of.Revision != "" {
		return fmt.Sprintf("whether NodeClaim %s matches is unknown, as it lacks the hash by which Karpenter compares it: delete it to have it replaced", finding.Few(matched.Unknown, ", "))
	}
	if of.Outdated == 0 && of.SettlesAt != nil {
		return fmt.Sprintf("Karpenter asks AWS whether other nodes are outdated, until %s", plan.ClockTime(of.SettlesAt.Time, r.Now))
	}
	return ""
}

// closed says which pools' budgets keep their outdated nodes, where none may go; empty where one
// may. staying is how many wait in each pool, and beside says that something else stands there as well.
func (r *Rollouts) closed(staying map[string]int, beside bool) string {
	nodes := map[string]int{}
	for i := range r.Live.NodeClaims {
		nodes[r.Live.NodeClaims[i].Pool]++
	}
	var words []string
	for _, pool := range r.Pools {
		if staying[pool.Name] == 0 {
			continue
		}
		allowed := plan.AllowedDisruptions(pool.Live, nodes[pool.Name], r.Now)
		var long, short string
		switch opens := plan.ClockTime(allowed.At, r.Now); {
		case allowed.Unreadable:
			short = fmt.Sprintf("NodePool/%s has a disruption budget that cannot be read", pool.Name)
			long = short + ": Karpenter disrupts no node until it is corrected"
		case allowed.Now > 0:
			return ""
		case allowed.At.IsZero():
			long = fmt.Sprintf("the disruption budgets of NodePool/%s allow none", pool.Name)
			short = fmt.Sprintf("NodePool/%s allows none", pool.Name)
		default:
			long = fmt.Sprintf("the disruption budgets of NodePool/%s allow none until %s", pool.Name, opens)
			short = fmt.Sprintf("next window of NodePool/%s %s", pool.Name, opens)
			r.WakeBy(allowed.At)
		}
		if beside {
			long = short
		}
		words = append(words, long)
	}
	slices.Sort(words)
	return finding.Few(words, "; ")
}
