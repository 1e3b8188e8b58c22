package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// HoldReason is one reason for which a Change or a removal is held, and what releases it.
type HoldReason struct {
	// Reason is one CamelCase word.
	Reason, Message string
}

// severity has the reasons in the order in which they are shown: first those that nobody may approve, then
// those whose approval does the most harm.
var severity = []string{
	ReasonUnpublishedAMI,
	v1alpha1.ReasonStatusLost, v1alpha1.ReasonOlderRevision, v1alpha1.ReasonHistoryUnknown, ReasonLabelChanged, ReasonHostsController,
	ReasonLastPool, ReasonUnschedulablePods, ReasonIntolerantDaemonSets, ReasonMaxRemovedPools,
	ReasonMaxDisruptedNodes, ReasonMaxDisruptedNodesPerPool, ReasonMaxReplacedNodes, ReasonPolicy, ReasonOrphan,
}

// withHold adds a reason, the most severe first. A reason that is there keeps its message; only policies can hold an
// object more than once.
func withHold(holds []HoldReason, reason, message string) []HoldReason {
	holds = slices.Clone(holds)
	if i := slices.IndexFunc(holds, func(h HoldReason) bool { return h.Reason == reason }); i >= 0 {
		if reason == ReasonPolicy {
			holds[i].Message += "; " + message
		}
		return holds
	}
	holds = append(holds, HoldReason{Reason: reason, Message: message})
	slices.SortStableFunc(holds, func(a, b HoldReason) int { return cmp.Compare(Severity(a.Reason), Severity(b.Reason)) })
	return holds
}

// Severity orders reasons: the most severe comes first.
func Severity(reason string) int { return slices.Index(severity, reason) }

// messageOf has all reasons.
func messageOf(holds []HoldReason) string {
	messages := make([]string, 0, len(holds))
	for _, h := range holds {
		messages = append(messages, h.Message)
	}
	return strings.Join(messages, "; also held: ")
}

// reasonsOf are the reasons, sorted by their name.
func reasonsOf(holds []HoldReason) []string {
	var reasons []string
	for _, h := range holds {
		reasons = append(reasons, h.Reason)
	}
	slices.Sort(reasons)
	return reasons
}

// approvableHolds reports whether people may approve all reasons of what is held.
func approvableHolds(holds []HoldReason) bool {
	return len(holds) > 0 && !slices.ContainsFunc(holds, func(h HoldReason) bool { return !approvable(h.Reason) })
}

// holdUnlessApproved adds a reason to hold the removal, unless people have approved it for that reason.
func (c *Candidate) holdUnlessApproved(reason, message string) {
	if !c.approved.covers(reason) {
		c.hold(reason, message)
	}
}

// hold adds a reason to hold the removal.
func (c *Candidate) hold(reason, message string) {
	c.Holds = withHold(c.Holds, reason, message)
	c.Held, c.Queued, c.Reason, c.Message = true, false, c.Holds[0].Reason, messageOf(c.Holds)
}

// hold adds a reason to hold the Change. What another client has changed on the object meanwhile stays as long, and
// is named.
func (c *Change) hold(reason, message string) {
	if c.Action != Hold {
		c.unheld = c.Action
	}
	c.Holds = withHold(c.Holds, reason, message)
	c.Action, c.Reason, c.Message = Hold, c.Holds[0].Reason, messageOf(c.Holds)
	if c.Unavailable != "" {
		c.Message += fmt.Sprintf("; %s counts with all of its nodes, as it is unavailable which it is on: %s", c.Ref, c.Unavailable)
	}
	if len(c.Editors) > 0 {
		c.Message += fmt.Sprintf("; until then what %s changed on %s is not reverted", strings.Join(c.Editors, ", "), c.Ref)
	}
}

// intended is the Action of a Change if nothing held it.
func (c *Change) intended() Action {
	if c.Action == Hold {
		return c.unheld
	}
	return c.Action
}

// holdUnlessApproved adds a reason to hold a Change that people have not approved for that reason.
func (m *maker) holdUnlessApproved(c *Change) func(reason, message string) {
	approved := m.approvedAs(c.entryOf())
	return func(reason, message string) {
		if !approved.covers(reason) {
			c.hold(reason, message)
		}
	}
}

// AsApproved is the Plan if people approved all of it that they may.
func (p *Plan) AsApproved() *Plan {
	approved := *p
	approved.Changes, approved.Removals = slices.Clone(p.Changes), slices.Clone(p.Removals)
	for i := range approved.Changes {
		if c := &approved.Changes[i]; c.Action == Hold && approvableHolds(c.Holds) {
			c.Action, c.Holds = c.unheld, nil
		}
	}
	for i := range approved.Removals {
		if c := &approved.Removals[i]; approvableHolds(c.Holds) {
			c.Held, c.Holds = false, nil
		}
	}
	return &approved
}

// weighHeld adds to what is held for other reasons that it would disrupt too many nodes, if all of what is held were
// approved at once: one digest covers it all. What people have approved is weighed for the reasons that they were not
// shown.
func (m *maker) weighHeld(p *Plan, d disruption) {
	held, approved := m.heldShares(p)
	if len(held) > 0 {
		recent := m.withRecent(d, held)
		m.holdDisrupting(held, recent)
		m.holdReplacing(held, d)
		m.weighPools(held, recent)
	}
	if len(approved) > 0 {
		m.holdReplacing(approved, d)
		m.weighPools(approved, m.withRecent(d, approved))
	}
}

// heldShares are what held objects would do to nodes that people may approve, and what those that were approved to
// disrupt many do, whose nodes are counted already.
func (m *maker) heldShares(p *Plan) (held, approved []share) {
	for i := range p.Removals {
		c := &p.Removals[i]
		claims := m.claims()[c.Ref]
		switch {
		case c.Orphan || c.Terminating || len(claims) == 0:
		case c.Held && approvableHolds(c.Holds):
			held = append(held, share{ref: c.Ref, claims: uids(claims), hold: c.holdUnlessApproved, removal: c})
		case !c.Held && c.approved.covers(ReasonMaxDisruptedNodes):
			approved = append(approved, share{ref: c.Ref, claims: uids(claims), hold: c.holdUnlessApproved})
		}
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		switch hold := m.holdUnlessApproved(c); {
		case !disrupts(c):
		case c.Action == Hold && approvableHolds(c.Holds):
			held = append(held, shareOfChange(c, hold))
		case c.Action != Hold && m.approved(c, ReasonMaxDisruptedNodes):
			s := shareOfChange(c, hold)
			s.more = 0
			approved = append(approved, s)
		}
	}
	return held, approved
}
