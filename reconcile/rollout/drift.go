package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Replacing returns the pools whose nodes Karpenter replaces because of the changes that were written.
func Replacing(changes []plan.Change, written map[render.Ref]bool, claims []plan.NodeClaim) []string {
	var pools []string
	for _, change := range changes {
		if change.Effect == plan.EffectReplace && written[change.Ref] {
			pools = append(pools, poolsOf(change.Ref, claims)...)
		}
	}
	return pools
}

// poolsOf returns the NodePools whose NodeClaims a definition creates, with repetitions.
func poolsOf(ref render.Ref, claims []plan.NodeClaim) []string {
	if ref.Kind == render.NodePool {
		return []string{ref.Name}
	}
	var pools []string
	for i := range claims {
		if ref.Kind == render.EC2NodeClass && claims[i].Class == ref.Name {
			pools = append(pools, claims[i].Pool)
		}
	}
	return pools
}

// changedPools returns the NodePools that commits among the Changes write, directly or through their EC2NodeClass,
// sorted.
func changedPools(changes []plan.Change, pools []Pool, claims []plan.NodeClaim) []string {
	var all []string
	for i := range changes {
		c := &changes[i]
		if !c.Action.Writes() || c.Drift || c.Rescue {
			continue
		}
		all = append(all, poolsOf(c.Ref, claims)...)
		for _, pool := range pools {
			if c.Ref.Kind == render.EC2NodeClass && pool.Class != nil && pool.Class.GetName() == c.Ref.Name {
				all = append(all, pool.Name)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// UnexpectedDrift finds the nodes that drift after a change of Karpenter that was not expected to replace them; its
// words are empty if there are none. It only reports: the budgets limit how fast nodes are replaced, and a person has
// to decide whether they should be. replacing are the pools whose nodes a commit replaces, and why returns what has
// outdated a NodeClaim.
func UnexpectedDrift(
	k v1alpha1.KarpenterStatus, claims []cluster.Claim, pools []Pool, replacing []string, why func(cluster.Claim) string, now time.Time,
) (v1alpha1.KarpenterStatus, string, finding.Findings) {
	var found finding.Findings
	names := make([]string, 0, len(pools))
	for _, pool := range pools {
		names = append(names, pool.Name)
	}
	k, drifted := Drifted(Expect(k, replacing), claims, names, now)
	if w := k.NodeDrift; w != nil && w.Until != nil && now.Before(w.Until.Time) {
		found.WakeBy(w.Until.Time)
	}
	return k, driftWords(k, drifted, why), found
}

// DriftSeen is the result of SeeDrift.
type DriftSeen struct {
	finding.Findings

	// Karpenter is its status with the recorded state of the watch, and Words those of UnexpectedDrift.
	Karpenter v1alpha1.KarpenterStatus
	Words     string
}

// SeeDrift looks for unexpected drift during a watch; claims reads the NodeClaims, and written are the definitions that
// this reconcile has written.
func SeeDrift(
	ctx context.Context, k v1alpha1.KarpenterStatus, claims func(context.Context) ([]cluster.Claim, error), of *Rollouts,
	written map[render.Ref]bool,
) (seen DriftSeen, err error) {
	seen.Karpenter = k
	all, err := claims(ctx)
	if err != nil {
		return seen, err
	}
	seen.Karpenter, seen.Words, seen.Findings = UnexpectedDrift(k, all, of.Pools, Replacing(of.Changes, written, of.Live.NodeClaims),
		of.why(ctx), of.Now)
	seen.Join(of.Findings)
	return seen, nil
}

// why returns a function that explains why a NodeClaim is outdated: Karpenter's reason, and the inputs that differ.
func (r *Rollouts) why(ctx context.Context) func(cluster.Claim) string {
	claims := map[string]*plan.NodeClaim{}
	return func(claim cluster.Claim) string {
		if len(claims) == 0 {
			r.match(true)
			for i := range r.Live.NodeClaims {
				claims[r.Live.NodeClaims[i].Name] = &r.Live.NodeClaims[i]
			}
		}
		known := claims[claim.NodeClaim]
		if known == nil {
			return claim.Drifted
		}
		o := plan.Outdated{Claim: known, Reason: claim.Drifted}
		r.queryRunning(ctx, instanceIDs([]plan.Outdated{o}))
		return r.inputOf(o).Words()
	}
}

// driftWords names the nodes and what blocks them.
func driftWords(k v1alpha1.KarpenterStatus, drifted []cluster.Claim, why func(cluster.Claim) string) string {
	if len(drifted) == 0 {
		return ""
	}
	names := make([]string, 0, finding.MaxNamed)
	for _, d := range drifted[:min(len(drifted), finding.MaxNamed)] {
		names = append(names, fmt.Sprintf("%s of %s (NodeClaim %s: %s)", d.Node, d.Pool, d.NodeClaim, why(d)))
	}
	more := ""
	if len(drifted) > finding.MaxNamed {
		more = " and more" // the exact number changes all the time
	}
	return fmt.Sprintf("unexpected node drift since %s: %s; Karpenter replaces the nodes (spec.rollout.unexpectedDrift). "+
		"To keep them: kubectl annotate node NAME karpenter.sh/do-not-disrupt=true, or a budget {nodes: \"0\", reasons: [Drifted]} in the NodePool in Git; or git revert the change",
		changeWords(k), strings.Join(names, ", ")+more)
}

// changeWords describes the change of Karpenter that the watch is about.
func changeWords(k v1alpha1.KarpenterStatus) string {
	w := k.NodeDrift
	to := cmp.Or(w.To, k.Version)
	rolledBack := k.Target != nil && (k.Target.Step == v1alpha1.ChartRollingBack || k.Target.Step == v1alpha1.ChartRolledBack)
	switch {
	case w.From == to:
		return fmt.Sprintf("the values of Karpenter %s changed", to)
	case rolledBack:
		return fmt.Sprintf("Karpenter changed from %s to %s and was rolled back", w.From, to)
	case w.From == "":
		return fmt.Sprintf("Karpenter %s was installed", to)
	}
	return fmt.Sprintf("Karpenter changed from %s to %s", w.From, to)
}
