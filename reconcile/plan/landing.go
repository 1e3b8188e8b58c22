package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// ReasonUnschedulablePods is the reason of what would end nodes whose pods find no place elsewhere.
const ReasonUnschedulablePods = "UnschedulablePods"

// Landing is whether the pods of the pools that leave find a place elsewhere. The zero value is that
// nobody has asked: nothing waits for it.
type Landing struct {
	// Known says that there is an answer, Asking that it is on its way. Unknown is why there is none.
	Known, Asking bool
	Unknown       string
	// Nowhere are pods that find no place, by the NodePool whose node they run on.
	Nowhere map[string][]Unschedulable
}

// Unschedulable is a pod that finds no place.
type Unschedulable struct {
	// Pod is its namespace and name, Reason Karpenter's.
	Pod, Reason string
}

// Leaving are the NodePools whose nodes end by a removal: those that may go and that have not begun, and those
// that have, unless Git has them back, with those that leave elsewhere.
func (p *Plan) Leaving(live Live) []render.Ref {
	found := map[render.Ref]bool{}
	for i := range p.Removals {
		if c := &p.Removals[i]; (!c.Held || lands(c)) && !c.Orphan && c.Ref.Kind == render.NodePool {
			found[c.Ref] = true
		}
	}
	for _, r := range live.Removals {
		returned := slices.ContainsFunc(p.Returned, func(b v1alpha1.Removal) bool { return b.UID == r.UID })
		if r.Kind == render.NodePool && begun(r) && !returned {
			found[refOf(r)] = true
		}
	}
	for _, ref := range live.LeavingElsewhere {
		found[ref] = true
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b render.Ref) int { return cmp.Compare(a.Name, b.Name) })
}

// Begins names the removals that a Landing is asked for, sorted: those that may go, with nodes, and that have not
// begun.
func (p *Plan) Begins() []string {
	var found []string
	for i := range p.Removals {
		if c := &p.Removals[i]; lands(c) {
			found = append(found, c.Ref.String())
		}
	}
	slices.Sort(found)
	return found
}

// WithoutBegins is the Plan without the removals that Begins names.
func (p *Plan) WithoutBegins() *Plan {
	without := *p
	without.Removals = slices.DeleteFunc(slices.Clone(p.Removals), func(c Candidate) bool { return lands(&c) })
	return &without
}

// lands says whether the pods of an entry that leaves have to find a place elsewhere. Where Git has no pool
// left that may grow, that they find none is in its own reason.
func lands(c *Candidate) bool {
	held := c.Held && c.Reason != ReasonUnschedulablePods
	return c.Ref.Kind == render.NodePool && c.Nodes > 0 && !held && !c.Orphan && !c.Terminating && !c.Last && c.Approved == ""
}

// holdUnschedulable holds the removals whose pods find no place elsewhere. One that is held for that stays so until
// there is another answer.
func (m *maker) holdUnschedulable(p *Plan) {
	p.Landing = m.policy.Landing
	if m.policy.Deleting || !m.policy.Guard.UnschedulablePods.Holds() {
		return
	}
	for i := range p.Removals {
		c := &p.Removals[i]
		words := nowhere(p.Landing.Nowhere[c.Ref.Name])
		if c.record.Reason == ReasonUnschedulablePods && !p.Landing.Known {
			words = c.record.Message
		}
		if words != "" && lands(c) {
			c.Held, c.Reason, c.Message = true, ReasonUnschedulablePods, words
		}
	}
}

// nowhere says which pods find no place, and what to do; empty where all do.
func nowhere(pods []Unschedulable) string {
	if len(pods) == 0 {
		return ""
	}
	var names []string
	for _, pod := range pods {
		names = append(names, fmt.Sprintf("%s (%s)", pod.Pod, strings.TrimSuffix(pod.Reason, ".")))
	}
	return fmt.Sprintf("%s would find no place elsewhere: give a NodePool that takes them, or set guard.unschedulablePods to Ignore: %s",
		english.Plural(len(pods), "pod of its nodes", "pods of its nodes"), someOf(names))
}
