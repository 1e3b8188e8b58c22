package plan

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// ReasonUnschedulablePods is the reason to hold the removal of nodes whose pods cannot be scheduled elsewhere.
const ReasonUnschedulablePods = "UnschedulablePods"

// Landing reports whether the pods of removed pools can be scheduled elsewhere. The zero value means that this was not
// simulated: nothing waits for it.
type Landing struct {
	// Known reports whether there is a result, and Asking whether it is pending. Unknown is why there is none.
	Known, Asking bool
	Unknown       string
	// Nowhere are the unschedulable pods, by the NodePool whose node they run on.
	Nowhere map[string][]Unschedulable
}

// Unschedulable is a pod that cannot be scheduled.
type Unschedulable struct {
	// Pod is its namespace and name, Workload the namespace, kind and name of its owner, and Reason is Karpenter's.
	Pod, Workload, Reason string
}

// Leaving returns the NodePools whose nodes are terminated by a removal: those that may start, those that have started
// unless Git contains them again, and those that other NodeSyncs remove.
func (p *Plan) Leaving(live Live) []render.Ref {
	found := map[render.Ref]bool{}
	for i := range p.Removals {
		if c := &p.Removals[i]; (!c.Held || startsIfSchedulable(c)) && !c.Orphan && c.Ref.Kind == render.NodePool {
			found[c.Ref] = true
		}
	}
	for _, r := range live.Removals {
		returned := slices.ContainsFunc(p.Returned, func(b v1alpha1.Removal) bool { return b.UID == r.UID })
		if r.Kind == render.NodePool && r.Started() && !returned {
			found[RefOf(r)] = true
		}
	}
	for _, ref := range live.LeavingElsewhere {
		found[ref] = true
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b render.Ref) int { return cmp.Compare(a.Name, b.Name) })
}

// StartIfSchedulable returns the removals that start if their pods can be scheduled elsewhere, sorted: those with nodes
// that have not started, and that nothing else holds.
func (p *Plan) StartIfSchedulable() []string { return p.removals(startsIfSchedulable) }

// Withheld returns the removals that are held for another reason and that people may approve, sorted: people must see
// which pods would be pending before they approve.
func (p *Plan) Withheld() []string { return p.removals(withheld) }

// NeedLanding returns the removals that need a Landing, sorted.
func (p *Plan) NeedLanding() []string { return p.removals(needsLanding) }

func (p *Plan) removals(which func(*Candidate) bool) []string {
	var found []string
	for i := range p.Removals {
		if c := &p.Removals[i]; which(c) {
			found = append(found, c.Ref.String())
		}
	}
	slices.Sort(found)
	return found
}

// Approvals returns what people may approve of the Plan, sorted: if this changes, a new Landing is needed.
func (p *Plan) Approvals() []string {
	found := p.Withheld()
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action == Hold && approvableHolds(c.Holds) {
			found = append(found, c.Ref.String())
		}
	}
	slices.Sort(found)
	return found
}

// WithoutStarting returns the Plan without the removals of StartIfSchedulable.
func (p *Plan) WithoutStarting() *Plan {
	without := *p
	without.Removals = slices.DeleteFunc(slices.Clone(p.Removals), func(c Candidate) bool { return startsIfSchedulable(&c) })
	return &without
}

// needsLanding reports whether the pods of a removed object need to be scheduled elsewhere: unless it is held for a
// reason that nobody may approve. If Git has no pool left that may grow, the reason LastPool covers this.
func needsLanding(c *Candidate) bool {
	held := c.Held && !approvableHolds(c.Holds)
	return c.Ref.Kind == render.NodePool && c.Nodes > 0 && !held && !c.Orphan && !c.Terminating && !c.Last
}

// startsIfSchedulable reports whether such a removal starts if they can.
func startsIfSchedulable(c *Candidate) bool {
	return needsLanding(c) && !slices.ContainsFunc(c.Holds, func(h HoldReason) bool { return h.Reason != ReasonUnschedulablePods })
}

// withheld reports whether such a removal is held whether they can or not.
func withheld(c *Candidate) bool { return needsLanding(c) && !startsIfSchedulable(c) }

// holdUnschedulable holds the removals whose pods cannot be scheduled elsewhere. A removal that is held for that stays
// held until there is another result.
func (m *maker) holdUnschedulable(p *Plan) {
	p.Landing = m.policy.Landing
	if m.policy.Deleting || !m.policy.Guard.UnschedulablePods.Holds() {
		return
	}
	for i := range p.Removals {
		c := &p.Removals[i]
		if !needsLanding(c) {
			continue
		}
		pods := p.Landing.Nowhere[c.Ref.Name]
		before := slices.Contains(c.record.Reasons, ReasonUnschedulablePods) || c.record.Reason == ReasonUnschedulablePods
		switch c.pods = byWorkload(pods); {
		case len(pods) > 0:
			if !c.approved.coversPods(c.pods) {
				c.hold(ReasonUnschedulablePods, nowhere(pods))
			}
		case before && !p.Landing.Known && !c.approved.covers(ReasonUnschedulablePods):
			c.hold(ReasonUnschedulablePods, "the last simulation found pods of its nodes that would be pending")
			if slices.Equal(reasonsOf(c.Holds), reasonsOf(recordedHolds(c.record))) {
				c.Message = c.record.Message
			}
		case p.Landing.Asking && withheld(c):
			c.Message += "; " + Simulating
		}
	}
}

// Simulating is reported until it is known where the pods of a removal can be scheduled.
const Simulating = "simulating where its pods can be scheduled"

// recordedHolds returns the reasons for which a removal was held, without their messages.
func recordedHolds(r v1alpha1.Removal) []HoldReason {
	reasons := r.Reasons
	if len(reasons) == 0 && r.Reason != "" {
		reasons = []string{r.Reason}
	}
	var holds []HoldReason
	for _, reason := range reasons {
		holds = append(holds, HoldReason{Reason: reason})
	}
	return holds
}

// maxWorkloads limits how many workloads an approval of pending pods lists, because the size of a status is limited.
// The others are combined.
const maxWorkloads = 100

// byWorkload counts pods by their owner, sorted.
func byWorkload(pods []Unschedulable) []v1alpha1.PendingPods {
	counts := map[string]int32{}
	for _, pod := range pods {
		counts[cmp.Or(pod.Workload, pod.Pod)]++
	}
	var found []v1alpha1.PendingPods
	for _, workload := range slices.Sorted(maps.Keys(counts)) {
		found = append(found, v1alpha1.PendingPods{Workload: workload, Pods: counts[workload]})
	}
	if len(found) <= maxWorkloads {
		return found
	}
	others := v1alpha1.PendingPods{}
	hash := sha256.New()
	for _, p := range found[maxWorkloads:] {
		_, _ = fmt.Fprintln(hash, p.Workload)
		others.Pods += p.Pods
	}
	others.Workload = fmt.Sprintf("%d more (sha256:%x)", len(found)-maxWorkloads, hash.Sum(nil))
	return append(found[:maxWorkloads:maxWorkloads], others)
}

// pending returns the total number of pods.
func pending(pods []v1alpha1.PendingPods) (n int) {
	for _, p := range pods {
		n += int(p.Pods)
	}
	return n
}

// OlderScheduling returns a sentence that names the version of Karpenter whose scheduling is simulated and the installed
// one, which may schedule in another way; empty if the latter is not older, or unknown.
func OlderScheduling(installed string) string {
	if !karpenter.Newer(schema.EmbeddedVersion, installed) {
		return ""
	}
	return fmt.Sprintf("simulated with the scheduling of Karpenter %s, and %s is installed", schema.EmbeddedVersion, installed)
}

// nowhere returns the message with the unschedulable pods, and what to do.
func nowhere(pods []Unschedulable) string {
	var names []string
	for _, pod := range pods {
		names = append(names, fmt.Sprintf("%s (%s)", pod.Pod, strings.TrimSuffix(pod.Reason, ".")))
	}
	return fmt.Sprintf("%s would be pending: add a NodePool that can run them, or set guard.unschedulablePods to Ignore: %s",
		english.Plural(len(pods), "pod of its nodes", "pods of its nodes"), someOf(names))
}

// LeavingElsewhere returns the NodePools that other NodeSyncs of the cluster remove, because two removals cannot count
// on the same capacity. Of removals that have not started, those of the NodeSync with the earliest record go first, so
// that of two at once only one waits.
func LeavingElsewhere(all []v1alpha1.NodeSync, sync *v1alpha1.NodeSync) []render.Ref {
	var found []render.Ref
	for i := range all {
		other := &all[i]
		if other.UID == sync.UID {
			continue
		}
		before := precedes(other, sync)
		for _, r := range other.Status.Removals {
			if r.Kind == render.NodePool && !r.Returned() && (r.Started() || before && r.Phase == v1alpha1.RemovalPacing) {
				found = append(found, RefOf(r))
			}
		}
	}
	slices.SortFunc(found, func(a, b render.Ref) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(found)
}

// precedes reports whether a has recorded its first removal that has not started before b has.
func precedes(a, b *v1alpha1.NodeSync) bool {
	first := func(sync *v1alpha1.NodeSync) (at time.Time, any bool) {
		for _, r := range sync.Status.Removals {
			pending := r.Kind == render.NodePool && !r.Started() && !r.Returned() && r.Phase != v1alpha1.RemovalGone
			if pending && (!any || r.RecordedAt.Time.Before(at)) {
				at, any = r.RecordedAt.Time, true
			}
		}
		return at, any
	}
	atA, anyA := first(a)
	atB, anyB := first(b)
	switch {
	case !anyA || !anyB:
		return anyA
	case !atA.Equal(atB):
		return atA.Before(atB)
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}
