package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/fluxcd/pkg/runtime/conditions"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// foretell finds the pools whose nodes a change of the version may replace, while
// the CRDs of both versions are at hand.
func (p *pass) foretell(seen *upgrade.Seen, live, next []*apiextensionsv1.CustomResourceDefinition) error {
	effects, err := karpenter.Effects(karpenter.Upgrade{
		From: p.sync.Status.Karpenter.Version, To: p.charts.Version, Old: live, New: next,
		Classes: p.live.OfKind(render.EC2NodeClass), Pools: p.live.OfKind(render.NodePool),
	})
	if err != nil {
		return err
	}
	var words []string
	for _, effect := range effects {
		if effect.MayReplace() {
			seen.Foretold = append(seen.Foretold, effect.Pool)
			words = append(words, fmt.Sprintf("nodes of %s %s", effect.Pool, effect))
		}
	}
	if len(words) == 0 {
		words = []string{"no node is replaced"}
	}
	p.event("UpgradeForecast", fmt.Sprintf("Karpenter %s to %s: %s", p.sync.Status.Karpenter.Version, p.charts.Version, someOf(words)))
	return nil
}

// seeNodeDrift finds the nodes that drift after a change of Karpenter though it was
// not foretold. That is told and stops nothing: how fast they are replaced is in
// their budgets, and a person has to say whether they are to be.
func (p *pass) seeNodeDrift(ctx context.Context) error {
	if p.sync.Status.Karpenter.NodeDrift == nil {
		return nil
	}
	claims, err := p.claims(ctx)
	if err != nil {
		return err
	}
	k := upgrade.Foretell(*p.sync.Status.Karpenter, p.replacing())
	k, found := upgrade.NodeDrift(k, claims, p.poolsOfGit(), p.now)
	p.sync.Status.Karpenter, p.watchedDrift = &k, true
	if w := k.NodeDrift; w != nil && w.Until != nil && p.now.Before(w.Until.Time) {
		p.wakeAt(w.Until.Time)
	}
	p.drifting = p.driftWords(found)
	return nil
}

// claims are the NodeClaims that live; none where their kind is not served.
func (p *pass) claims(ctx context.Context) ([]observe.Claim, error) {
	if established, err := p.crdsEstablished(ctx); err != nil || !established.Ready {
		return nil, err
	}
	return observe.Claims(ctx, p.Client)
}

// watchesDrift says whether what becomes of a NodeClaim is looked at.
func watchesDrift(sync *v1alpha1.NodeSync) bool {
	return sync.Status.Karpenter != nil && sync.Status.Karpenter.NodeDrift != nil
}

func (p *pass) poolsOfGit() []string {
	var names []string
	for _, object := range p.set.Objects {
		if object.Ref.Kind == render.NodePool {
			names = append(names, object.Ref.Name)
		}
	}
	return names
}

// replacing are the pools whose nodes this pass's writes have Karpenter replace.
func (p *pass) replacing() []string {
	written := map[render.Ref]bool{}
	for _, w := range p.applied.Written {
		written[w.Ref] = true
	}
	var pools []string
	for _, change := range p.plan.Changes {
		if change.Effect != plan.EffectReplace || !written[change.Ref] {
			continue
		}
		if change.Ref.Kind == render.NodePool {
			pools = append(pools, change.Ref.Name)
			continue
		}
		for i := range p.live.NodeClaims {
			if claim := &p.live.NodeClaims[i]; claim.Class == change.Ref.Name {
				pools = append(pools, claim.Pool)
			}
		}
	}
	return pools
}

// driftWords name the nodes and what keeps them.
func (p *pass) driftWords(found []observe.Claim) string {
	if len(found) == 0 {
		return ""
	}
	k := p.sync.Status.Karpenter
	names := make([]string, 0, len(found))
	for _, d := range found {
		names = append(names, fmt.Sprintf("%s of %s (NodeClaim %s: %s)", d.Node, d.Pool, d.NodeClaim, d.Drifted))
	}
	return fmt.Sprintf("since %s nodes have drifted though none was to: %s; they are replaced at the pace of their budgets. "+
		"To keep them: kubectl annotate node NAME karpenter.sh/do-not-disrupt=true, or a budget {nodes: \"0\", reasons: [Drifted]} in the NodePool in Git; or git revert the change",
		changeWords(k), strings.Join(names[:min(len(names), maxNamed)], ", ")+moreThan(names))
}

// changeWords say which change of Karpenter nodes are watched for.
func changeWords(k *v1alpha1.KarpenterStatus) string {
	w := k.NodeDrift
	to := cmp.Or(w.To, k.Version)
	rolledBack := k.Target != nil && (k.Target.Step == v1alpha1.ChartRollingBack || k.Target.Step == v1alpha1.ChartRolledBack)
	switch {
	case w.From == to:
		return fmt.Sprintf("Karpenter %s got other values", to)
	case rolledBack:
		return fmt.Sprintf("Karpenter went from %s to %s and back", w.From, to)
	case w.From == "":
		return fmt.Sprintf("Karpenter %s was installed", to)
	}
	return fmt.Sprintf("Karpenter went from %s to %s", w.From, to)
}

// moreThan says that not all are named. How many there are changes all the time.
func moreThan(names []string) string {
	if len(names) > maxNamed {
		return " and more"
	}
	return ""
}

// setNodeDrift tells of nodes that drift unforetold, for as long as they do. A pass
// that has not come so far leaves what was told.
func (p *pass) setNodeDrift() {
	k := p.sync.Status.Karpenter
	switch {
	case p.drifting != "":
		conditions.MarkTrue(p.sync, v1alpha1.NodeDriftCondition, v1alpha1.ReasonNotForetold, "%s", bounded(p.drifting, maxConditionMessage))
	case p.watchedDrift || k == nil || k.NodeDrift == nil:
		conditions.Delete(p.sync, v1alpha1.NodeDriftCondition)
	}
	now, before := conditions.Get(p.sync, v1alpha1.NodeDriftCondition), conditions.Get(p.before, v1alpha1.NodeDriftCondition)
	if now != nil && !sameWords(before, now) {
		p.notes = append(p.notes, note{kind: corev1.EventTypeWarning, reason: now.Reason, message: now.Message})
	}
}
