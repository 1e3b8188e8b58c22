package plan

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// Load is the data of a node that Karpenter's consolidation uses.
type Load struct {
	// Consolidatable is the condition of its NodeClaim, and PodEvent is when a pod was last added to or removed from
	// it; zero if that is unknown.
	Consolidatable bool
	PodEvent       time.Time
	// Pods is how many of its pods would have to be rescheduled; Counted reports whether they were counted.
	Pods    int
	Counted bool
	// Deprovision is what decides whether Karpenter terminates it if a static NodePool gets fewer replicas; nil if that
	// was not asked for, or could not be read.
	Deprovision *Deprovision
}

// LoadQuestion asks for the data that determines which nodes Karpenter may consolidate after a Change but not before, or
// which nodes of a static NodePool it terminates.
type LoadQuestion struct {
	// Pool is the name of the NodePool, and Claims are its NodeClaims in question.
	Pool   string
	Claims []*NodeClaim
	// Pods reports whether it depends on the pods of these nodes.
	Pods bool
	// Deprovision reports whether it depends on what Karpenter compares to terminate some of them.
	Deprovision bool
}

// ReadLoads reads the Loads that a Plan needs, by the UIDs of NodeClaims. Loads that cannot be read are omitted.
type ReadLoads func(ctx context.Context, questions []LoadQuestion) map[types.UID]Load

// LoadQuestions returns those of a Plan's Changes.
func (p *Plan) LoadQuestions() []LoadQuestion {
	var found []LoadQuestion
	for i := range p.Changes {
		if q := p.Changes[i].loads; q != nil {
			found = append(found, *q)
		}
	}
	return found
}

// consolidation is which nodes of a NodePool Karpenter may consolidate: empty ones, and underutilized ones
// (sigs.k8s.io/karpenter pkg/controllers/disruption/emptiness.go and consolidation.go, ShouldDisrupt, 1.14.1).
type consolidation struct {
	empty, underused bool
	// wait is consolidateAfter.
	wait time.Duration
}

// consolidationOf reads it from a NodePool with this many nodes. A reason for which its budgets never allow a node does
// not count, and nodes of a static pool are never consolidated.
func consolidationOf(pool *karpv1.NodePool, nodes int, now time.Time) consolidation {
	spec := pool.Spec.Disruption
	if pool.Spec.Replicas != nil || spec.ConsolidateAfter.Duration == nil {
		return consolidation{}
	}
	allows := func(reason karpv1.DisruptionReason) bool {
		b, err := readBudgets(pool, nodes, reason)
		return err == nil && b.maxInYear(now) > 0
	}
	return consolidation{
		empty:     allows(karpv1.DisruptionReasonEmpty),
		underused: spec.ConsolidationPolicy != karpv1.ConsolidationPolicyWhenEmpty && allows(karpv1.DisruptionReasonUnderutilized),
		wait:      *spec.ConsolidateAfter.Duration,
	}
}

// any reports whether there are such nodes.
func (c consolidation) any() bool { return c.empty || c.underused }

// may reports whether a node may be consolidated after wait; a node whose pods were not counted may be empty or not.
func (c consolidation) may(load Load) bool {
	return c.empty && (!load.Counted || load.Pods == 0) || c.underused && (!load.Counted || load.Pods > 0)
}

// does reports whether that is certain.
func (c consolidation) does(load Load) bool {
	if !load.Counted {
		return c.empty && c.underused
	}
	return c.may(load)
}

// newlyAllows reports whether a node may be consolidated after a change but not before: for none of its reasons, or not
// yet because consolidateAfter was longer. One that is not idle for consolidateAfter yet soon will be.
func (c consolidation) newlyAllows(before consolidation, load Load, now time.Time) bool {
	switch {
	case !c.may(load):
		return false
	case !before.does(load):
		return true
	case load.Consolidatable || c.wait >= before.wait:
		return false
	}
	return load.PodEvent.IsZero() || now.Sub(load.PodEvent) < before.wait
}

// notTerminating returns the NodeClaims among which Karpenter chooses, to consolidate nodes or to lower the replicas of a
// static NodePool. It consolidates a node once it is initialized, and then by the definition of that time, so one that
// is not initialized yet counts.
func notTerminating(claims []*NodeClaim) []*NodeClaim {
	return slices.DeleteFunc(slices.Clone(claims), func(c *NodeClaim) bool { return c.Deleting })
}

// consolidated returns the NodeClaims that Karpenter may consolidate after the change but not before, without those
// that the change replaces. If wider budgets or requirements let Karpenter consolidate more of the others at one time,
// it adds that many, without those that the budgets let it replace; which ones is unknown, so the first stand for them.
func (e poolEdit) consolidated(claims, replaced, waiting []*NodeClaim, by known) []*NodeClaim {
	before, after := e.consolidations(len(claims), by.now)
	atOnce := e.consolidatedAtOnce(claims, after, by.now)
	if before == after && atOnce == 0 || !after.any() {
		return nil
	}
	var let, others []*NodeClaim
	for _, c := range notTerminating(claims) {
		switch load := by.loads[c.UID]; {
		case slices.Contains(replaced, c) || !after.may(load):
		case before != after && after.newlyAllows(before, load, by.now):
			let = append(let, c)
		case !slices.Contains(waiting, c):
			others = append(others, c)
		}
	}
	return append(let, others[:min(len(others), max(0, atOnce-len(let)))]...)
}

// consolidatedAtOnce returns how many nodes wider budgets or requirements let Karpenter consolidate at one time, for
// one of its reasons; 0 if they are no wider.
func (e poolEdit) consolidatedAtOnce(claims []*NodeClaim, after consolidation, now time.Time) int {
	allowed := 0
	if after.empty {
		allowed = e.extraDisruptions(claims, now, karpv1.DisruptionReasonEmpty)
	}
	if after.underused {
		allowed = max(allowed, e.extraDisruptions(claims, now, karpv1.DisruptionReasonUnderutilized))
	}
	if after.underused && e.requirements && allowsMore(e.before.Spec.Template.Spec.Requirements, e.after.Spec.Template.Spec.Requirements) {
		allowed = max(allowed, allowedAtOnce(e.after, claims, now))
	}
	return allowed
}

// allowsMore reports whether requirements allow something that they did not allow before, so that Karpenter may find a
// cheaper node for the pods of a running one.
func allowsMore(before, after []karpv1.NodeSelectorRequirementWithMinValues) bool {
	was, is := scheduling.NewNodeSelectorRequirementsWithMinValues(before...), scheduling.NewNodeSelectorRequirementsWithMinValues(after...)
	for key := range was {
		both := scheduling.NewRequirements(is.Get(key).Intersection(was.Get(key)))
		if !equality.Semantic.DeepEqual(both.NodeSelectorRequirements(), scheduling.NewRequirements(is.Get(key)).NodeSelectorRequirements()) {
			return true
		}
	}
	return false
}

// allowedAtOnce returns the maximum number of underutilized nodes that the budgets of a pool let Karpenter consolidate
// at one time, without terminating ones.
func allowedAtOnce(pool *karpv1.NodePool, claims []*NodeClaim, now time.Time) int {
	b, err := readBudgets(pool, len(claims), karpv1.DisruptionReasonUnderutilized)
	if err != nil {
		return 0 // consolidationOf finds none
	}
	allowed := b.maxInYear(now)
	for _, c := range claims {
		if c.Deleting {
			allowed--
		}
	}
	return max(0, allowed)
}

func (e poolEdit) consolidations(nodes int, now time.Time) (before, after consolidation) {
	return consolidationOf(e.before, nodes, now), consolidationOf(e.after, nodes, now)
}

// question returns the data needed about nodes; nil if nothing depends on it.
func (e poolEdit) question(claims []*NodeClaim, now time.Time) *LoadQuestion {
	if running := notTerminating(claims); scaledDown(e.before, e.after, claims) > 0 && *e.after.Spec.Replicas > 0 {
		return &LoadQuestion{Pool: e.after.Name, Claims: running, Deprovision: true}
	}
	before, after := e.consolidations(len(claims), now)
	shorter := before.any() && after.wait < before.wait
	emptiness := after.empty != after.underused || before.any() && before.empty != before.underused
	more := e.consolidatedAtOnce(claims, after, now) > 0
	if before == after && !more || !after.any() || !shorter && !emptiness {
		return nil
	}
	if claims = notTerminating(claims); len(claims) == 0 {
		return nil
	}
	return &LoadQuestion{Pool: e.after.Name, Claims: claims, Pods: emptiness}
}

// consolidates records the NodeClaims that Karpenter may consolidate. They are the effect of a Change that has no
// other.
func (c *Change) consolidates(claims []*NodeClaim) {
	if len(claims) == 0 {
		return
	}
	for _, claim := range claims {
		c.consolidated = append(c.consolidated, claim.UID)
	}
	if c.Effect == EffectNone {
		c.Effect, c.Nodes, c.UpTo = EffectConsolidate, len(claims), true
	}
	c.Notes = append(c.Notes, fmt.Sprintf("%s: Karpenter may consolidate up to %s more than before (in total or at a time), if they are empty or their pods fit elsewhere or on a cheaper node",
		c.Ref, english.Plural(len(claims), "node", "")))
}

// Consolidates returns how many nodes Karpenter may consolidate at most after the Change but not before.
func (c *Change) Consolidates() int { return len(c.consolidated) }
