package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/step"
	"github.com/plumbline-dev/plumbline/render"
)

func removalName(r v1alpha1.Removal) string { return r.Kind + "/" + r.Name }

func stalled(removals []v1alpha1.Removal) []v1alpha1.Removal {
	return filter(removals, func(r v1alpha1.Removal) bool { return r.Stalled != nil })
}

func heldRemovals(removals []v1alpha1.Removal) []v1alpha1.Removal {
	return filter(removals, func(r v1alpha1.Removal) bool { return r.Held() })
}

func filter(removals []v1alpha1.Removal, keep func(v1alpha1.Removal) bool) []v1alpha1.Removal {
	var kept []v1alpha1.Removal
	for _, r := range removals {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// drainedVerdict reports that these NodePools have no node left, and that they are kept.
func drainedVerdict(pools []v1alpha1.Removal) Verdict {
	words := "drained: none of its nodes is left, by EC2 too, and its NodePools make none until spec.drain is false"
	if len(pools) == 0 {
		words = "drained: it has no NodePool, and nothing is applied until spec.drain is false"
	}
	return Verdict{Class: Done, Reason: v1alpha1.ReasonDrained, Message: words}
}

// removal is the word for a NodePool that is removed from Git, or only loses its nodes.
func (s *Step) removal() string {
	if s.Sync.KeepsDefinitions() {
		return "drain"
	}
	return "removal"
}

// stalledVerdict names what makes no progress, and why the first of it does not.
func (s *Step) stalledVerdict(removals []v1alpha1.Removal) Verdict {
	r := removals[0]
	return Verdict{
		Class: Stuck, Reason: v1alpha1.ReasonStalled,
		Message: fmt.Sprintf("%s of %s stalled: %s", s.removal(), namesOf(removals), r.Message),
		Brief:   fault.Brief{What: fmt.Sprintf("%s: removal stalled: %s", firstName(removals), r.Message)},
	}
}

// heldVerdict names what is held and what releases it.
func (s *Step) heldVerdict(removals []v1alpha1.Removal) Verdict {
	var changed, what []string
	changes, held := s.Held, slices.Clone(s.Held)
	for _, r := range mostSevere(removals) {
		held = append(held, Held{Ref: plan.RefOf(r), Message: r.Message})
	}
	for _, c := range changes {
		changed = append(changed, c.Ref.String())
	}
	if len(changed) > 0 {
		what = append(what, "change of "+finding.Some(changed))
	}
	if len(removals) > 0 {
		what = append(what, s.removal()+" of "+namesOf(removals))
	}
	return Verdict{
		Class: Stuck, Reason: v1alpha1.ReasonHeld,
		Message: fmt.Sprintf("held: %s: %s", strings.Join(what, ", "), whyHeld(held)),
		Brief:   fault.Brief{What: "held: " + held[0].Message, Where: firstHeld(changes, removals)},
	}
}

// mostSevere sorts removals by the severity of the reasons for which they are held.
func mostSevere(removals []v1alpha1.Removal) []v1alpha1.Removal {
	sorted := slices.Clone(removals)
	slices.SortStableFunc(sorted, func(a, b v1alpha1.Removal) int {
		return cmp.Compare(plan.Severity(a.Reason), plan.Severity(b.Reason))
	})
	return sorted
}

// whyHeld lists each reason once. If objects are held for different reasons, each object is named.
func whyHeld(held []Held) string {
	var reasons []string
	for _, h := range held {
		if !slices.ContainsFunc(reasons, func(said string) bool { return strings.Contains(said, h.Message) }) {
			reasons = append(reasons, fmt.Sprintf("%s: %s", h.Ref, h.Message))
		}
	}
	if len(reasons) == 1 {
		return held[0].Message
	}
	return finding.Few(reasons, "; ")
}

// heldBrief names the first that is held and counts the rest.
func heldBrief(changes []Held, removals []v1alpha1.Removal) string {
	return "held: " + firstHeld(changes, removals)
}

func firstHeld(changes []Held, removals []v1alpha1.Removal) string {
	if len(changes) == 0 {
		return "removal of " + firstName(removals)
	}
	var names []string
	for _, c := range changes {
		names = append(names, c.Ref.String())
	}
	return "change of " + firstOf(names)
}

// namesOf names the first few removals and counts the rest.
func namesOf(removals []v1alpha1.Removal) string {
	names := make([]string, 0, len(removals))
	for _, r := range removals {
		names = append(names, removalName(r))
	}
	return finding.Some(names)
}

// firstName names the first removal and counts the rest.
func firstName(removals []v1alpha1.Removal) string {
	names := make([]string, 0, len(removals))
	for _, r := range removals {
		names = append(names, removalName(r))
	}
	return firstOf(names)
}

func firstOf(names []string) string { return shortlist.Join(names, 1, ", ") }

// verb is what is done to all removals.
func (s *Step) verb() string {
	if s.Sync.KeepsDefinitions() {
		return "draining "
	}
	return removing(s.Sync.Status.Removals)
}

// removing is the verb for removals: moving, if all of them are moves.
func removing(removals []v1alpha1.Removal) string {
	if slices.ContainsFunc(removals, func(r v1alpha1.Removal) bool { return len(r.MovesTo) == 0 }) {
		return "removing "
	}
	return "moving "
}

// describeRemovals describes how far each of the first few has come.
func (s *Step) describeRemovals() string {
	removals := s.Sync.Status.Removals
	parts := make([]string, 0, len(removals))
	for _, r := range removals {
		parts = append(parts, plan.Moved(removalName(r), r.MovesTo)+": "+progressOf(r))
	}
	return s.verb() + shortlist.Items(parts, finding.MaxNamed, "; ")
}

// describeSuspended names the removals that are paused while the NodeSync is suspended.
func describeSuspended(removals []v1alpha1.Removal) string {
	return "suspended: " + describePaused(removals)
}

// describePaused names the removals that are paused, and how far each of the first few has come.
func describePaused(removals []v1alpha1.Removal) string {
	parts := make([]string, 0, len(removals))
	for _, r := range removals {
		words := phaseWords(r.Phase)
		if left := leftOf(r); left != "" {
			words += ", " + left
		}
		if r.Returned() {
			words = "in Git again"
		}
		parts = append(parts, removalName(r)+" ("+words+")")
	}
	return "no removal continues, but NodeClaims that are already being deleted are terminated: " + finding.Some(parts)
}

// withPaused adds, to the error that ended a reconcile, the removals that it has not reached.
func (s *Step) withPaused(v Verdict) Verdict {
	begun := filter(s.Sync.Status.Removals, func(r v1alpha1.Removal) bool {
		return r.Phase != v1alpha1.RemovalHeld && r.Phase != v1alpha1.RemovalGone && !r.Returned()
	})
	reached := slices.ContainsFunc(s.Durations, func(t step.Timing) bool { return t.Step == step.Remove })
	if v.Class == Working || len(begun) == 0 || reached {
		return v
	}
	if v.Brief == (fault.Brief{}) {
		v.Brief = fault.Brief{What: v.Message}
	}
	v.Message += "; meanwhile " + describePaused(begun)
	return v
}

// briefOfRemovals describes how far the first removal has come that is not held; if all those of the commit are queued,
// what they wait for.
func briefOfRemovals(removals []v1alpha1.Removal, commit string) fault.Brief {
	of := func(r v1alpha1.Removal) bool {
		return render.CommitOf(r.Revision) == commit && r.Kind == render.NodePool
	}
	queued := filter(removals, func(r v1alpha1.Removal) bool { return of(r) && r.Queued() })
	if len(queued) > 0 && len(queued) == len(filter(removals, of)) {
		return fault.Brief{What: queued[0].Message, Where: "removal of " + firstName(queued)}
	}
	open := filter(removals, func(r v1alpha1.Removal) bool { return r.Phase != v1alpha1.RemovalHeld })
	if len(open) == 0 {
		open = removals
	}
	names := make([]string, 0, len(open))
	for _, r := range open {
		names = append(names, plan.Moved(removalName(r), r.MovesTo))
	}
	return fault.Brief{What: removing(open) + firstOf(names), Cause: briefProgress(open[0])}
}

// briefProgress is progressOf for a commit status. For waiting nodes it has what the first one waits for, and for a pod
// that a PodDisruptionBudget blocks only the budget.
func briefProgress(r v1alpha1.Removal) string {
	if node, waits, found := strings.Cut(r.Message, ") waits for "); found && strings.HasPrefix(node, "node ") {
		first, _, _ := strings.Cut(waits, "; ")
		if _, budget, found := strings.Cut(first, ", of which PodDisruptionBudget "); found {
			first = "PodDisruptionBudget " + strings.Replace(budget, " allows", ", which allows", 1)
		}
		r.Message = "waits for " + first
	}
	return progressOf(r)
}

// progressOf describes what a removal waits for, and what remains of it.
func progressOf(r v1alpha1.Removal) string {
	words := r.Message
	if words == "" {
		words = phaseWords(r.Phase)
	}
	if left := leftOf(r); left != "" {
		words += " (" + left + ")"
	}
	return words
}

// phaseWords describes a removal that has no message.
func phaseWords(phase v1alpha1.RemovalPhase) string {
	switch phase {
	case v1alpha1.RemovalHeld:
		return "held"
	case v1alpha1.RemovalPacing:
		return "recorded, waiting to start"
	case v1alpha1.RemovalDraining:
		return "draining"
	case v1alpha1.RemovalVerifyingCloud:
		return "asking EC2 for its instances"
	case v1alpha1.RemovalFinalizing:
		return "being deleted"
	case v1alpha1.RemovalGone:
	}
	return "gone"
}

// leftOf counts what remains of a NodePool.
func leftOf(r v1alpha1.Removal) string {
	if r.Kind != render.NodePool || r.Remaining == 0 || r.Returned() {
		return ""
	}
	what := "node"
	if r.Phase == v1alpha1.RemovalVerifyingCloud {
		what = "instance"
	}
	if r.Remaining > 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s left", r.Remaining, what)
}
