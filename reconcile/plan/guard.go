package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/internal/shortlist"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// A removal is held for one of these reasons, or for one of v1alpha1.Withheld.
const (
	ReasonLastPool        = "LastPool"
	ReasonMaxRemovedPools = "MaxRemovedPools"
	ReasonHostsController = "HostsController"
	ReasonLabelChanged    = "LabelChanged"
)

// checkInput is the input of the guard's checks.
type checkInput struct {
	policy   Policy
	revision string
	// total are the NodePools that count together with the candidate: those that were removed within
	// guard.removalPeriod before it, those that are pending before it, and all of its own revision. now are
	// those that would be leaving at one time. Both map UIDs to names.
	total, now map[types.UID]string
	// sameRevision are the NodePools of the candidate's revision.
	sameRevision []string
}

// leaving returns how many NodePools count for guard.maxRemovedPools.
func (w checkInput) leaving() int { return len(names(w.total)) }

// names returns the names of NodePools, sorted. A pool that was removed, added again and removed again is one NodePool,
// whether or not it was recreated.
func names(pools map[types.UID]string) []string {
	return slices.Compact(slices.Sorted(maps.Values(pools)))
}

// before returns the names of the NodePools of earlier commits that count, sorted.
func (w checkInput) before() []string {
	return slices.DeleteFunc(names(w.total), func(name string) bool { return slices.Contains(w.sameRevision, name) })
}

// check is one reason to hold a candidate.
type check func(Candidate, checkInput) (reason, message string, hold bool)

// guard returns the checks, all of which must pass. A deletion was requested explicitly, so its only check is whether the
// nodes run the workloads that carry it out.
func (p Policy) guard() []check {
	if p.Deleting {
		return []check{hostsController}
	}
	return []check{statusLost, olderRevision, hostsController, lastPool, maxRemovedPools}
}

// statusLost holds an object that may have been in Git all the time: without a status, it is unknown whether it was
// removed from Git or never belonged to this NodeSync.
func statusLost(c Candidate, w checkInput) (reason, message string, hold bool) {
	lost := w.policy.StatusLost && (!c.Recorded || c.undecided) || c.record.Reason == v1alpha1.ReasonStatusLost
	if !lost || w.policy.Released[c.UID] {
		return "", "", false
	}
	return v1alpha1.ReasonStatusLost, fmt.Sprintf(
		"no applied revision is recorded for %s: add it back to Git, or %s",
		c.Ref, w.policy.howToRelease(c.UID)), true
}

// Messages start with one of these if HEAD is, or may be, older than the applied revision.
const (
	headOlder      = "HEAD is older than the applied revision (the branch was reset, or a mirror lags behind), and "
	headMayBeOlder = "HEAD may be older than the applied revision, because the Git host does not serve the history in between, and "
)

// olderRevision holds an object that an older commit does not contain: no commit has removed it, it was added later. It
// is held until a newer commit, or a person, removes it. A commit that may be older counts as older.
func olderRevision(c Candidate, w checkInput) (reason, message string, hold bool) {
	still := c.record.Reason == v1alpha1.ReasonOlderRevision && c.record.Revision == w.revision
	switch {
	case w.policy.Released[c.UID], c.Recorded && !c.undecided && !ofOlderRevision(c.record) && !w.policy.StatusOlder:
		return "", "", false
	case still, w.policy.BranchReset:
		return v1alpha1.ReasonOlderRevision, fmt.Sprintf(
			headOlder+"does not contain %s: push a newer commit, or %s",
			c.Ref, w.policy.howToRelease(c.UID)), true
	case w.policy.HistoryUnknown:
		return v1alpha1.ReasonHistoryUnknown, fmt.Sprintf(
			headMayBeOlder+"does not contain %s: add it back to Git, or %s",
			c.Ref, w.policy.howToRelease(c.UID)), true
	}
	return "", "", false
}

// ofOlderRevision reports whether a removal is held because HEAD was, or may be, older than the applied revision.
func ofOlderRevision(r v1alpha1.Removal) bool {
	return r.Reason == v1alpha1.ReasonOlderRevision || r.Reason == v1alpha1.ReasonHistoryUnknown
}

// requiresApproval reports whether only a person can release a candidate, so that it does not count as being removed.
func requiresApproval(c Candidate, w checkInput) bool {
	_, _, lost := statusLost(c, w)
	_, _, older := olderRevision(c, w)
	return lost || older
}

// doubts reports whether a removal is held because the object may not have been removed from Git.
func doubts(reason string) bool {
	return slices.Contains([]string{v1alpha1.ReasonStatusLost, v1alpha1.ReasonOlderRevision, v1alpha1.ReasonHistoryUnknown}, reason)
}

// hostsController holds the NodePool whose nodes run Karpenter's controller or
// plumbline: its removal would terminate the controllers that carry it out.
func hostsController(c Candidate, w checkInput) (reason, message string, hold bool) {
	if c.Ref.Kind != render.NodePool {
		return "", "", false
	}
	hosted := w.policy.HostsOf(c.Ref.Name)
	if len(hosted) == 0 {
		return "", "", false
	}
	names := make([]string, 0, len(hosted))
	for _, h := range hosted {
		names = append(names, fmt.Sprintf("%s (pod %s on node %s)", h.Workload, h.Pod, h.Node))
	}
	instead := fmt.Sprintf("add %s back to Git", c.Ref)
	switch {
	case w.policy.Keeps:
		instead = "set drain: false to keep the nodes"
	case w.policy.Deleting:
		instead = "set onDelete: Orphan to keep the nodes"
	}
	return ReasonHostsController, fmt.Sprintf("its nodes run %s: move it to nodes that Karpenter does not manage, or %s",
		someOf(names), instead), true
}

// maxNamed is the number of objects that one message names.
const maxNamed = 5

// someOf returns the first few names, and the number of the others.
func someOf(names []string) string { return shortlist.Join(names, maxNamed, ", ") }

// lastPool holds every NodePool while Git has no NodePool left that may grow.
func lastPool(c Candidate, w checkInput) (reason, message string, hold bool) {
	if !c.Last || c.approved.covers(ReasonLastPool) || w.policy.Guard.AllowLastPool {
		return "", "", false
	}
	return ReasonLastPool, "Git has no NodePool left that can launch nodes for pods (not static, no limit of 0): add one back, or set guard.allowLastPool", true
}

// maxRemovedPools holds all NodePools of a revision if they and those of its period exceed the limit. It holds all of
// them because half of an accident is still an accident, and counts a period because an accident may be split into
// commits. A NodePool without nodes that was to replace a NodePool which Git contains again does not count: a revert
// needs no approval.
func maxRemovedPools(c Candidate, w checkInput) (reason, message string, hold bool) {
	limit := w.policy.maxRemovedPools()
	if c.Ref.Kind != render.NodePool || c.revertsMove || w.leaving() <= limit || c.approved.covers(ReasonMaxRemovedPools) {
		return "", "", false
	}
	before := ""
	if names := w.before(); len(names) > 0 {
		before = fmt.Sprintf("; NodePools that earlier commits removed within guard.removalPeriod count too: %s", someOf(names))
	}
	return ReasonMaxRemovedPools, fmt.Sprintf(
		"%d NodePools would be removed, but guard.maxRemovedPools allows %d: set it to %d, or add NodePools back to Git: %s%s",
		w.leaving(), limit, w.leaving(), someOf(w.sameRevision), before), true
}

// checkRemovals holds the candidates that the guard does not release. It checks those of one revision together, after
// those of earlier revisions, whether or not these are held. Otherwise later commits of an accident would pass before
// its first one.
func (m *maker) checkRemovals(candidates []Candidate, revision string) {
	for i := range candidates {
		if c := &candidates[i]; c.taken && !c.Terminating {
			c.hold(ReasonLabelChanged, m.labelChanged(c.Ref))
		}
	}
	if len(candidates) == 0 {
		return
	}
	pending, open := map[types.UID]string{}, m.openPools()
	for start := 0; start < len(candidates); {
		end := start + 1
		for end < len(candidates) && candidates[end].Revision == candidates[start].Revision {
			end++
		}
		m.checkRevision(candidates[start:end], pending, open, revision)
		start = end
	}
}

// labelChanged returns the message for a removal that is held because another client has removed the object's mark, and
// what to do.
func (m *maker) labelChanged(ref render.Ref) string {
	if m.live.object(ref).mark() == unmarked {
		return fmt.Sprintf("another client deleted the managedFields of %s, which show that plumbline applied it: add %s back to Git, then remove it again", ref, ref)
	}
	return fmt.Sprintf("another client changed the label %s of %s, %s", v1alpha1.OwnerLabel, ref, m.policy.Owner.LabelAgain())
}

// checkRevision checks the candidates of one revision, and adds their NodePools to pending. open are the NodePools
// whose nodes are being removed.
func (m *maker) checkRevision(candidates []Candidate, pending, open map[types.UID]string, revision string) {
	w := checkInput{policy: m.policy, revision: revision}
	for _, c := range candidates {
		if c.Ref.Kind == render.NodePool && !c.Orphan && !c.revertsMove && !requiresApproval(c, w) {
			w.sameRevision = append(w.sameRevision, c.Ref.Name)
			pending[c.UID] = c.Ref.Name
		}
	}
	slices.Sort(w.sameRevision)
	w.total, w.now = maps.Clone(pending), maps.Clone(pending)
	maps.Copy(w.total, m.poolsWithin(m.spanOf(candidates), open))
	maps.Copy(w.now, open)
	for i := range candidates {
		// Another client has deleted a terminating object: there is nothing left to hold.
		if candidates[i].Terminating || candidates[i].Held {
			continue
		}
		checks := m.policy.guard()
		if candidates[i].Orphan {
			checks = []check{statusLost, olderRevision, orphans}
		}
		for _, holds := range checks {
			reason, message, hold := holds(candidates[i], w)
			if hold {
				candidates[i].hold(reason, message)
			}
			if doubts(reason) { // other reasons count once a person has released it
				break
			}
		}
		m.queueBehind(&candidates[i], w)
	}
}

// queueBehind queues a NodePool that would exceed the number that may be leaving at one time.
func (m *maker) queueBehind(c *Candidate, w checkInput) {
	exempt := m.policy.Deleting || c.Ref.Kind != render.NodePool || c.Orphan || c.revertsMove || c.approved.covers(ReasonMaxRemovedPools)
	if exempt || len(names(w.now)) <= m.policy.maxRemovedPools() {
		return
	}
	var behind []string
	for uid, name := range w.now {
		if _, counts := w.total[uid]; !counts {
			behind = append(behind, name)
		}
	}
	c.queue(behind)
}

// HoldReason is one reason to hold a Change or a removal, and what releases it.
type HoldReason struct {
	// Reason is one CamelCase word.
	Reason, Message string
}

// severity lists the reasons in the order in which they are shown: first those that nobody may approve, then
// those whose approval does the most harm.
var severity = []string{
	ReasonUnpublishedAMI, ReasonBudgetsFull,
	v1alpha1.ReasonStatusLost, v1alpha1.ReasonOlderRevision, v1alpha1.ReasonHistoryUnknown, ReasonLabelChanged, ReasonHostsController,
	ReasonLastPool, ReasonUnschedulablePods, ReasonIntolerantDaemonSets, ReasonMaxRemovedPools,
	ReasonMaxDisruptedNodes, ReasonMaxDisruptedNodesPerPool, ReasonMaxReplacedNodes, ReasonPolicy, ReasonOrphan,
}

// withHold adds a reason; the most severe comes first. An existing reason keeps its message; only policies can hold an
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

// Severity returns the position of a reason in their order: the most severe comes first.
func Severity(reason string) int { return slices.Index(severity, reason) }

// messageOf joins the messages of all reasons.
func messageOf(holds []HoldReason) string {
	messages := make([]string, 0, len(holds))
	for _, h := range holds {
		messages = append(messages, h.Message)
	}
	return strings.Join(messages, "; also held: ")
}

// reasonsOf returns the reasons, sorted by their name.
func reasonsOf(holds []HoldReason) []string {
	var reasons []string
	for _, h := range holds {
		reasons = append(reasons, h.Reason)
	}
	slices.Sort(reasons)
	return reasons
}

// approvableHolds reports whether people may approve all reasons to hold an object.
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

// hold adds a reason to hold the Change. The edits of other clients to the object remain as long as it is held, and the message
// names these clients.
func (c *Change) hold(reason, message string) {
	if c.Action != Hold {
		c.intendedAction = c.Action
	}
	c.Holds = withHold(c.Holds, reason, message)
	c.Action, c.Reason, c.Message = Hold, c.Holds[0].Reason, messageOf(c.Holds)
	if c.Unavailable != "" {
		c.Message += fmt.Sprintf("; all nodes of %s count, because it is unknown which of them change: %s", c.Ref, c.Unavailable)
	}
	c.Message += c.remainingEdits()
}

// intended returns the Action of a Change if nothing held it.
func (c *Change) intended() Action {
	if c.Action == Hold {
		return c.intendedAction
	}
	return c.Action
}

// holdUnlessApproved returns a function that adds a reason to hold a Change, unless people have approved it for that reason.
func (m *maker) holdUnlessApproved(c *Change) func(reason, message string) {
	approved := m.approvedAs(c.entryOf())
	return func(reason, message string) {
		if !approved.covers(reason) {
			c.hold(reason, message)
		}
	}
}

// AsApproved returns the Plan as if people had approved everything that they may.
func (p *Plan) AsApproved() *Plan {
	approved := *p
	approved.Changes, approved.Removals = slices.Clone(p.Changes), slices.Clone(p.Removals)
	for i := range approved.Changes {
		if c := &approved.Changes[i]; c.Action == Hold && approvableHolds(c.Holds) {
			c.Action, c.Holds = c.intendedAction, nil
		}
	}
	for i := range approved.Removals {
		if c := &approved.Removals[i]; approvableHolds(c.Holds) {
			c.Held, c.Holds = false, nil
		}
	}
	return &approved
}

// checkHeld adds a reason to objects that are held for other reasons if approving all of them at once would disrupt too
// many nodes: one digest covers them all. It checks what people have approved for the reasons that they were not shown.
func (m *maker) checkHeld(p *Plan, d disruption) {
	held, approved := m.heldShares(p)
	if len(held) > 0 {
		recent := m.withRecent(d, held)
		m.holdDisrupting(held, recent)
		m.holdReplacing(held, d)
		m.checkNodesPerPool(held, recent)
	}
	if len(approved) > 0 {
		m.holdReplacing(approved, d)
		m.checkNodesPerPool(approved, m.withRecent(d, approved))
	}
}

// heldShares returns what held objects that people may approve would do to nodes, and what the objects do that were approved to
// disrupt many nodes, which are counted already.
func (m *maker) heldShares(p *Plan) (held, approved []share) {
	for i := range p.Removals {
		c := &p.Removals[i]
		switch s, disrupts := m.shareOfRemoval(c); {
		case !disrupts:
		case c.Held && approvableHolds(c.Holds):
			held = append(held, s)
		case !c.Held && c.approved.covers(ReasonMaxDisruptedNodes):
			s.removal, s.more = nil, 0
			approved = append(approved, s)
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
