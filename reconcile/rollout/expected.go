package rollout

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// expect adds the NodeClaims that AWS reports as outdated and that Karpenter has not checked yet. settled reports that
// all of them are gone, and that there are no others.
func (r *Rollouts) expect(ctx context.Context, changes Outdating, found []plan.Outdated) (all []plan.Outdated, settled bool) {
	r.renew(ctx)
	r.supersede(changes.Reselected)
	if changes.Any() {
		r.Memory.whole = !changes.UpTo && (r.Memory.whole || !r.Reported.Settling(r.Now))
		r.Memory.expected = reasonsOfBoth(changes.Expected, r.Memory.expected)
		r.Memory.answered = r.Memory.answered || len(changes.Expected) > 0
	}
	found, there := r.withExpected(found)
	return found, r.Memory.answered && r.Memory.whole && !there
}

// reasonsOfBoth returns for each NodeClaim the reasons of both, those of last at the end: each keeps it outdated until it is
// superseded.
func reasonsOfBoth(first, last map[types.UID][]string) map[types.UID][]string {
	all := maps.Clone(last)
	if all == nil {
		all = map[types.UID][]string{}
	}
	for uid, reasons := range first {
		others := slices.DeleteFunc(slices.Clone(reasons), func(reason string) bool { return slices.Contains(last[uid], reason) })
		all[uid] = append(others, last[uid]...)
	}
	return all
}

// withExpected adds to outdated NodeClaims those that are expected, and reports whether any of these exists.
func (r *Rollouts) withExpected(found []plan.Outdated) (all []plan.Outdated, there bool) {
	known := map[types.UID]bool{}
	for _, o := range found {
		known[o.Claim.UID] = true
	}
	for i := range r.Live.NodeClaims {
		c := &r.Live.NodeClaims[i]
		reasons := r.Memory.expected[c.UID]
		there = there || len(reasons) > 0
		if len(reasons) > 0 && !known[c.UID] {
			found = append(found, plan.Outdated{Claim: c, Reason: reasons[len(reasons)-1]})
		}
	}
	slices.SortFunc(found, func(a, b plan.Outdated) int { return cmp.Compare(a.Claim.Name, b.Claim.Name) })
	return found, there
}

// supersede drops what was expected from selectors that are written again, for example by a revert: AWS's answer for
// the new ones is in the Changes.
func (r *Rollouts) supersede(reselected map[string][]string) {
	for i := range r.Live.NodeClaims {
		c := &r.Live.NodeClaims[i]
		reasons := slices.DeleteFunc(slices.Clone(r.Memory.expected[c.UID]), func(reason string) bool {
			return slices.Contains(reselected[c.Class], reason)
		})
		if len(reasons) == 0 {
			delete(r.Memory.expected, c.UID)
			continue
		}
		r.Memory.expected[c.UID] = reasons
	}
}

// renew updates the memory with what still applies of what was expected before: nothing once a rollout settles; what
// EC2 still reports after the time that Karpenter needs; and after a restart what EC2 reports.
func (r *Rollouts) renew(ctx context.Context) {
	m := r.Memory
	if r.Before == nil || r.Before.SettlesAt == nil {
		m.expected, m.answered, m.unrecalled, m.compared = nil, false, 0, time.Time{}
		return
	}
	m.unrecalled = r.recall(ctx)
	if r.Now.Before(r.Before.SettlesAt.Time) {
		return
	}
	if m.expected = r.stillExpected(ctx); len(m.expected) == 0 {
		m.answered = false
	}
}

// stillExpected returns the remaining expected NodeClaims after the time that Karpenter needs to find them: those whose
// instances still differ according to EC2. Karpenter may lack the permission to check, and then they are as outdated as
// before.
func (r *Rollouts) stillExpected(ctx context.Context) map[types.UID][]string {
	m := r.Memory
	if !finding.Due(r.Now, m.compared, Settles) || len(m.expected) == 0 {
		return m.expected
	}
	m.compared = r.Now
	claims := r.claims(func(c *plan.NodeClaim) bool { return len(m.expected[c.UID]) > 0 })
	for _, c := range claims {
		delete(m.instances.running, c.ProviderID)
	}
	found, left := r.differing(ctx, claims), map[types.UID][]string{}
	for _, c := range claims {
		reasons, known := found[c.UID]
		if !known {
			reasons = m.expected[c.UID]
		}
		if len(reasons) > 0 {
			left[c.UID] = reasons
			r.WakeBy(m.compared.Add(Settles))
		}
	}
	return left
}

// notMarked names the NodeClaims that Karpenter has not found to be outdated within the time that it needs; empty if it
// has found all, or still has time. pools are their NodePools.
func (r *Rollouts) notMarked(claims []*plan.NodeClaim) (words string, pools []string) {
	if r.Memory.compared.IsZero() {
		return "", nil
	}
	why := map[string]bool{}
	for _, c := range claims {
		if reasons := r.Memory.expected[c.UID]; len(reasons) > 0 && !c.Drifted {
			pools = append(pools, c.Pool)
			for _, reason := range reasons {
				why[reason] = true
			}
		}
	}
	n := len(pools)
	if n == 0 {
		return "", nil
	}
	return fmt.Sprintf("EC2 reports that %s outdated (%s), but Karpenter has not marked %s as drifted: its log says which query of AWS fails",
		english.Plural(n, "node is", "nodes are"), strings.Join(slices.Sorted(maps.Keys(why)), ", "), english.PluralWord(n, "it", "them")), pools
}

// mustRecall reports whether it is unknown, after a restart, which NodeClaims AWS had reported as outdated.
func (r *Rollouts) mustRecall() bool {
	return r.Memory.unrecalled > 0 || !r.Memory.looked && r.Reported != nil && r.Reported.SettlesAt != nil
}

// recall finds, after a restart, the NodeClaims that were expected before, and returns of how many this is still unknown.
// An instance that EC2 no longer has is no reason to wait: Karpenter deletes its NodeClaim.
func (r *Rollouts) recall(ctx context.Context) (unknown int) {
	m := r.Memory
	if !r.mustRecall() || r.EC2 == nil {
		return 0
	}
	claims := r.rolling()
	found, expected := r.differing(ctx, claims), map[types.UID][]string{}
	maps.Copy(expected, m.expected)
	for _, c := range claims {
		switch reasons, known := found[c.UID]; {
		case len(reasons) > 0:
			expected[c.UID] = reasons
		case known || m.instances.gone[c.ProviderID]:
			delete(expected, c.UID)
		default:
			unknown++
		}
	}
	m.expected, m.answered = expected, len(expected) > 0
	return unknown
}

// rolling returns the NodeClaims of the NodePools that the rollout changes. These may be pools of another NodeSync, whose
// EC2NodeClass is in this one, and pools that are no longer in Git.
func (r *Rollouts) rolling() []*plan.NodeClaim {
	return r.claims(func(c *plan.NodeClaim) bool { return r.Before.Changes(c.Pool) })
}

// unresolved returns why instances of the NodePools that the rollout changes cannot be compared with their EC2NodeClasses; empty if they
// can.
func (r *Rollouts) unresolved() string {
	var words []string
	asked := map[string]bool{}
	for _, c := range r.rolling() {
		class := r.Live.Objects[render.Ref{Kind: render.EC2NodeClass, Name: c.Class}]
		if class == nil || asked[c.Class] {
			continue
		}
		asked[c.Class] = true
		if why := plan.UnresolvedNetwork(class); why != "" {
			words = append(words, why)
		}
	}
	slices.Sort(words)
	return finding.Few(words, "; ")
}

// claims returns the NodeClaims with an instance for which wanted is true.
func (r *Rollouts) claims(wanted func(*plan.NodeClaim) bool) []*plan.NodeClaim {
	var found []*plan.NodeClaim
	for i := range r.Live.NodeClaims {
		if c := &r.Live.NodeClaims[i]; c.ProviderID != "" && wanted(c) {
			found = append(found, c)
		}
	}
	return found
}

// differing returns, for each NodeClaim that EC2 has answered for and whose EC2NodeClass Karpenter has resolved,
// Karpenter's reasons for which its instance does not match the class; none if it matches.
func (r *Rollouts) differing(ctx context.Context, claims []*plan.NodeClaim) map[types.UID][]string {
	ids, found := make([]string, 0, len(claims)), map[types.UID][]string{}
	for _, c := range claims {
		ids = append(ids, c.ProviderID)
	}
	r.queryRunning(ctx, ids)
	running, ofClass := r.Memory.instances.running, map[string]func(*plan.NodeClaim) []string{}
	for _, c := range claims {
		reasons, known := ofClass[c.Class]
		if !known {
			reasons = plan.InstanceReasons(r.Live.Objects[render.Ref{Kind: render.EC2NodeClass, Name: c.Class}], running)
			ofClass[c.Class] = reasons
		}
		if _, answered := running[c.ProviderID]; answered && reasons != nil {
			found[c.UID] = reasons(c)
		}
	}
	return found
}
