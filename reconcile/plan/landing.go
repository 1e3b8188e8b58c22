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

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// ReasonUnschedulablePods is the reason of what would end nodes whose pods find no place elsewhere.
const ReasonUnschedulablePods = "UnschedulablePods"

// Landing is whether the pods of the pools that leave find a place elsewhere. The zero value is that
// nobody has asked: nothing waits for it.
type Landing struct {
	// Known reports whether there is an answer, Asking that it is on its way. Unknown is why there is none.
	Known, Asking bool
	Unknown       string
	// Nowhere are pods that find no place, by the NodePool whose node they run on.
	Nowhere map[string][]Unschedulable
}

// Unschedulable is a pod that finds no place.
type Unschedulable struct {
	// Pod is its namespace and name, Workload the namespace, kind and name of what owns it, Reason Karpenter's.
	Pod, Workload, Reason string
}

// Leaving are the NodePools whose nodes end by a removal: those that may go and that have not begun, and those
// that have, unless Git has them back, with those that leave elsewhere.
func (p *Plan) Leaving(live Live) []render.Ref {
	found := map[render.Ref]bool{}
	for i := range p.Removals {
		if c := &p.Removals[i]; (!c.Held || goesAhead(c)) && !c.Orphan && c.Ref.Kind == render.NodePool {
			found[c.Ref] = true
		}
	}
	for _, r := range live.Removals {
		returned := slices.ContainsFunc(p.Returned, func(b v1alpha1.Removal) bool { return b.UID == r.UID })
		if r.Kind == render.NodePool && r.Begun() && !returned {
			found[RefOf(r)] = true
		}
	}
	for _, ref := range live.LeavingElsewhere {
		found[ref] = true
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b render.Ref) int { return cmp.Compare(a.Name, b.Name) })
}

// Begins names the removals that go ahead if their pods find a place elsewhere, sorted: those with nodes that have not
// begun, and that nothing else holds.
func (p *Plan) Begins() []string { return p.removals(goesAhead) }

// Withheld names the removals that people may approve, for another reason than where their pods find a place, sorted:
// people have to see where they do not, before they approve.
func (p *Plan) Withheld() []string { return p.removals(withheld) }

// Lands names the removals that a Landing is asked for, sorted.
func (p *Plan) Lands() []string { return p.removals(lands) }

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

// Approvals names what people may approve of the Plan, sorted: a Landing is another one where that is other.
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

// WithoutBegins is the Plan without the removals that Begins names.
func (p *Plan) WithoutBegins() *Plan {
	without := *p
	without.Removals = slices.DeleteFunc(slices.Clone(p.Removals), func(c Candidate) bool { return goesAhead(&c) })
	return &without
}

// lands reports whether the pods of an entry that leaves have to find a place elsewhere: unless nobody may approve
// what holds it. Where Git has no pool left that may grow, that they find none is in its own reason.
func lands(c *Candidate) bool {
	held := c.Held && !approvableHolds(c.Holds)
	return c.Ref.Kind == render.NodePool && c.Nodes > 0 && !held && !c.Orphan && !c.Terminating && !c.Last
}

// goesAhead reports whether such an entry goes ahead if they do.
func goesAhead(c *Candidate) bool {
	return lands(c) && !slices.ContainsFunc(c.Holds, func(h HoldReason) bool { return h.Reason != ReasonUnschedulablePods })
}

// withheld reports whether such an entry is held whether they do or not.
func withheld(c *Candidate) bool { return lands(c) && !goesAhead(c) }

// holdUnschedulable holds the removals whose pods find no place elsewhere. One that is held for that stays so until
// there is another answer.
func (m *maker) holdUnschedulable(p *Plan) {
	p.Landing = m.policy.Landing
	if m.policy.Deleting || !m.policy.Guard.UnschedulablePods.Holds() {
		return
	}
	for i := range p.Removals {
		c := &p.Removals[i]
		if !lands(c) {
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

// Simulating is what is reported until it is known where the pods of a removal find a place.
const Simulating = "simulating where its pods can be scheduled"

// recordedHolds are the reasons for which a removal was held, without their messages.
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

// mostWorkloads is how many workloads an approval of pending pods names: a status has a limited size. The others are one.
const mostWorkloads = 100

// byWorkload counts pods by what owns them, sorted.
func byWorkload(pods []Unschedulable) []v1alpha1.PendingPods {
	counts := map[string]int32{}
	for _, pod := range pods {
		counts[cmp.Or(pod.Workload, pod.Pod)]++
	}
	var found []v1alpha1.PendingPods
	for _, workload := range slices.Sorted(maps.Keys(counts)) {
		found = append(found, v1alpha1.PendingPods{Workload: workload, Pods: counts[workload]})
	}
	if len(found) <= mostWorkloads {
		return found
	}
	others := v1alpha1.PendingPods{}
	hash := sha256.New()
	for _, p := range found[mostWorkloads:] {
		_, _ = fmt.Fprintln(hash, p.Workload)
		others.Pods += p.Pods
	}
	others.Workload = fmt.Sprintf("%d more (sha256:%x)", len(found)-mostWorkloads, hash.Sum(nil))
	return append(found[:mostWorkloads:mostWorkloads], others)
}

// pending counts them.
func pending(pods []v1alpha1.PendingPods) (n int) {
	for _, p := range pods {
		n += int(p.Pods)
	}
	return n
}

// nowhere names the pods that find no place, and what to do.
func nowhere(pods []Unschedulable) string {
	var names []string
	for _, pod := range pods {
		names = append(names, fmt.Sprintf("%s (%s)", pod.Pod, strings.TrimSuffix(pod.Reason, ".")))
	}
	return fmt.Sprintf("%s would be pending: add a NodePool that can run them, or set guard.unschedulablePods to Ignore: %s",
		english.Plural(len(pods), "pod of its nodes", "pods of its nodes"), someOf(names))
}

// LeavingElsewhere are the NodePools that leave by other NodeSyncs of the cluster: a place that two of them count on is
// one place. Of removals that have not begun, those of the NodeSync that recorded its first one before the others go
// first, so that of two at once one waits, and not both.
func LeavingElsewhere(all []v1alpha1.NodeSync, sync *v1alpha1.NodeSync) []render.Ref {
	var found []render.Ref
	for i := range all {
		other := &all[i]
		if other.UID == sync.UID {
			continue
		}
		before := goesBefore(other, sync)
		for _, r := range other.Status.Removals {
			if r.Kind == render.NodePool && (r.Begun() || before && r.Phase == v1alpha1.RemovalPacing) {
				found = append(found, RefOf(r))
			}
		}
	}
	slices.SortFunc(found, func(a, b render.Ref) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(found)
}

// goesBefore reports whether a NodeSync has recorded a removal that has not begun before another has.
func goesBefore(a, b *v1alpha1.NodeSync) bool {
	first := func(sync *v1alpha1.NodeSync) (at time.Time, any bool) {
		for _, r := range sync.Status.Removals {
			if r.Kind == render.NodePool && !r.Begun() && r.Phase != v1alpha1.RemovalGone && (!any || r.RecordedAt.Time.Before(at)) {
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
