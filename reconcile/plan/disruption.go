package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Reasons to hold what would disrupt, or replace, more nodes than the guard allows.
const (
	ReasonMaxDisruptedNodes = "MaxDisruptedNodes"
	ReasonMaxReplacedNodes  = "MaxReplacedNodes"
)

const (
	// defaultDisrupted is guard.maxDisruptedNodes if it is not set.
	defaultDisrupted = "25%"
	// minDisrupted is the minimum that a percentage allows: of a few nodes it would allow none.
	minDisrupted = 3
)

// checkNodes holds what would disrupt more nodes than guard.maxDisruptedNodes or guard.maxReplacedNodes allows,
// together with those that are terminating and those that earlier commits made drift. The changes of one revision
// proceed, or are held, as a whole; what is held for another reason disrupts nothing. What proceeds is also checked by
// NodePool.
func (m *maker) checkNodes(p *Plan) {
	groups := m.shares(p)
	if m.policy.Deleting {
		return
	}
	d := newDisruption(m.terminatingClaims())
	if len(p.Removals) > 0 || slices.ContainsFunc(p.Changes, func(c Change) bool { return disrupts(&c) }) {
		d.replaced = m.outdatedBefore()
	}
	for _, s := range slices.Concat(groups...) {
		if s.hold == nil {
			d.add(s)
		}
	}
	for _, group := range groups {
		group = slices.DeleteFunc(group, func(s share) bool { return s.hold == nil })
		if len(group) == 0 || m.holdOrQueue(group, d) {
			continue
		}
		for _, s := range m.checkNodesPerPool(m.holdReplacing(group, d), m.withRecent(d, group)) {
			d.add(s)
		}
	}
	m.checkHeld(p, d)
}

// holdOrQueue holds a group that would disrupt more nodes than guard.maxDisruptedNodes allows, together with those of
// NodePools that were removed within guard.removalPeriod. If the group has only removals, and only earlier removals are
// in its way, it is queued.
func (m *maker) holdOrQueue(group []share, already disruption) (held bool) {
	total := m.withRecent(already, group)
	if slices.ContainsFunc(group, func(s share) bool { return s.removal == nil }) {
		return m.holdDisrupting(group, total)
	}
	var behind []string
	within := m.spanOfShares(group)
	for uid, name := range m.openPools() {
		claims := m.claims()[poolRefOf(name)]
		if m.countsWithin(within, uid) || len(claims) == 0 {
			continue
		}
		behind = append(behind, name)
		for _, c := range claims {
			delete(total.drained, c.UID)
		}
	}
	if m.holdDisrupting(group, total) {
		return true
	}
	if limit := atMost(m.policy.disruptedNodes(), m.nodesFor(group).of); m.countAll(already.with(group), limit) > limit {
		for _, s := range group {
			s.removal.queue(behind)
		}
	}
	return false
}

// withRecent adds the nodes that earlier commits of the period have removed or let Karpenter terminate, if the group
// terminates nodes without a replacement: only then they count together. Replacements count at one time.
func (m *maker) withRecent(d disruption, group []share) disruption {
	sum := d.with(nil)
	if !slices.ContainsFunc(group, func(s share) bool { return !s.replaces || len(s.terminated) > 0 }) {
		return sum
	}
	within := m.spanOfShares(group)
	removed := m.removedNodes(within)
	sum.moreDrained[ofRemovedPools] += removed
	sum.recent = removed > 0
	for pool, nodes := range m.recentTerminations(within) {
		sum.moreDrained[pool] += nodes
		sum.recent = true
	}
	return sum
}

// ofRemovedPools stands for deleted NodePools in maps by pool name, and for nodes whose NodePool is unknown.
const ofRemovedPools = ""

// spanOfShares returns the period of removals and Changes of one revision. For a Change that was held before, it has no
// start: everything in status counts, so that the Change does not proceed once the period has passed.
func (m *maker) spanOfShares(group []share) span {
	within := m.spanOf(removalsOf(group))
	if slices.ContainsFunc(group, func(s share) bool { return s.change != nil && m.wasHeld(s.change) }) {
		within.after = time.Time{}
	}
	return within
}

// removalsOf returns the removals among shares.
func removalsOf(group []share) []Candidate {
	var removals []Candidate
	for _, s := range group {
		if s.removal != nil {
			removals = append(removals, *s.removal)
		}
	}
	return removals
}

// holdDisrupting holds a group that would disrupt more nodes than guard.maxDisruptedNodes allows.
func (m *maker) holdDisrupting(group []share, already disruption) (held bool) {
	of := m.nodesFor(group)
	limit := atMost(m.policy.disruptedNodes(), of.of)
	nodes := m.countAll(already.with(group), limit)
	if nodes <= limit {
		return false
	}
	message := fmt.Sprintf("%s would be disrupted, but guard.maxDisruptedNodes allows %d: set it to %d (it is %s%s%s), or change less in one commit: %s",
		english.Plural(nodes, "node", ""), limit, nodes, shareOf(m.policy.disruptedNodes(), of),
		disruptedAlready(m.countAll(already, limit), already.recent), m.inTotal(group, limit), m.namesOf(group, limit))
	for _, s := range group {
		s.hold(ReasonMaxDisruptedNodes, message)
	}
	return true
}

// holdReplacing holds the shares of a group that would replace more nodes in total than guard.maxReplacedNodes allows.
// It returns the others.
func (m *maker) holdReplacing(group []share, already disruption) []share {
	written := m.policy.Guard.MaxReplacedNodes
	if written == nil {
		return group
	}
	var rest, replacing []share
	for _, s := range group {
		if s.replaces {
			replacing = append(replacing, s)
		} else {
			rest = append(rest, s)
		}
	}
	of := m.nodesFor(replacing)
	limit, nodes := atMost(written, of.of), already.with(replacing).replacedInTotal()
	if len(replacing) == 0 || nodes <= limit {
		return group
	}
	var names []string
	for _, s := range replacing {
		names = append(names, fmt.Sprintf("%s (%d)", s.ref, len(s.claims)+s.more))
	}
	message := fmt.Sprintf("%s would be replaced in total, but guard.maxReplacedNodes allows %d: set it to %d (it is %s%s), or change less in one commit: %s",
		english.Plural(nodes, "node", ""), limit, nodes, shareOf(written, of), outdatedAlready(already.replacedInTotal()), someOf(names))
	for _, s := range replacing {
		if s.hold(ReasonMaxReplacedNodes, message); s.change.Action != Hold {
			rest = append(rest, s) // people have approved it
		}
	}
	return rest
}

// namesOf lists the objects of shares, each with the number of nodes that count for it.
func (m *maker) namesOf(group []share, limit int) string {
	names := make([]string, 0, len(group))
	for _, s := range group {
		alone := newDisruption(map[types.UID]bool{})
		alone.add(s)
		names = append(names, fmt.Sprintf("%s (%d)", s.ref, m.countAll(alone, limit)))
	}
	return someOf(names)
}

func disruptedAlready(nodes int, recent bool) string {
	switch {
	case nodes == 0:
		return ""
	case recent:
		return fmt.Sprintf("; %d of these nodes are already terminating or outdated, or count for earlier commits within guard.removalPeriod",
			nodes)
	}
	return fmt.Sprintf("; %d of these nodes are already terminating or outdated", nodes)
}

func outdatedAlready(nodes int) string {
	if nodes == 0 {
		return ""
	}
	return fmt.Sprintf("; %d of these nodes are already outdated", nodes)
}

// holdsByItself reports whether a Change is held for its own reasons, whatever else the Plan does to nodes.
func (m *maker) holdsByItself(change *Change) (reason, message string, held bool) {
	if disrupts(change) {
		if message, hosts := m.hostsController(change); hosts {
			return ReasonHostsController, message, true
		}
	}
	return m.holdsForOlder(change)
}

// hostsController reports whether a Change terminates nodes that run Karpenter's controller or plumbline: it would
// terminate the controllers that carry it out.
func (m *maker) hostsController(change *Change) (message string, hosts bool) {
	pools := map[string]bool{}
	for _, c := range m.claims()[change.Ref] {
		pools[c.Pool] = true
	}
	var names []string
	for _, pool := range slices.Sorted(maps.Keys(pools)) {
		for _, h := range m.policy.HostsOf(pool) {
			names = append(names, fmt.Sprintf("%s (pod %s on node %s of NodePool/%s)", h.Workload, h.Pod, h.Node, pool))
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return fmt.Sprintf("it would disrupt nodes that run %s: move it to nodes that Karpenter does not manage first", someOf(names)), true
}

// holdsForOlder reports whether a Change terminates or replaces nodes for a HEAD that is, or may be, older than the
// applied revision: a mirror that lags behind would cause this back and forth. Once the Git host has answered that it
// cannot tell, only nodes without a replacement count: otherwise nothing of a moved repository could be changed any
// more.
func (m *maker) holdsForOlder(change *Change) (reason, message string, ends bool) {
	replaces := change.Effect == EffectReplace
	switch {
	case change.Nodes == 0 || change.intended() != Update && change.intended() != Adopt || change.Effect != EffectDrain && change.Effect != EffectConsolidate && !replaces:
		return "", "", false
	case m.policy.BranchReset:
		return v1alpha1.ReasonOlderRevision, fmt.Sprintf(headOlder+"%s would disrupt %s: push a newer commit", change.Ref,
			english.Plural(change.Nodes, "node", "")), true
	case change.Drift:
		return "", "", false
	case m.policy.HistoryUnknown && (!replaces || m.policy.Unasked):
		return v1alpha1.ReasonHistoryUnknown, fmt.Sprintf(headMayBeOlder+"%s would disrupt %s: push a newer commit", change.Ref,
			english.Plural(change.Nodes, "node", "")), true
	}
	return "", "", false
}

// proceedsAndCounts reports whether a Change proceeds and counts for the guard.
func proceedsAndCounts(change *Change) bool { return change.Action != Hold && disrupts(change) }

// disrupts reports whether a Change, held or not, counts for the guard. Restoring an object to its state in Git does
// not count, nor does reverting a removal: holding that would let the nodes terminate.
func disrupts(change *Change) bool {
	action := change.intended()
	weighed := action == Update || action == Adopt || action == TakeBack && !change.Restores
	return change.Nodes > 0 && weighed && !change.Drift
}

// terminatingClaims returns the NodeClaims of our pools that are terminating, and those of removals that have started.
func (m *maker) terminatingClaims() map[types.UID]bool {
	found := map[types.UID]bool{}
	for ref, object := range m.live.Objects {
		if ref.Kind != render.NodePool || !m.owns(object) {
			continue
		}
		for _, c := range m.claims()[ref] {
			if c.Deleting {
				found[c.UID] = true
			}
		}
	}
	for _, r := range m.live.Removals {
		if r.Kind == render.NodePool && m.started(r) && !m.backInGit(r) && !m.handedOver(r) {
			for _, c := range m.claims()[RefOf(r)] {
				found[c.UID] = true
			}
		}
	}
	return found
}

// ourNodes returns the number of NodeClaims of our pools, even if another client removed the mark from a pool.
func (m *maker) ourNodes() int {
	n := 0
	for ref, object := range m.live.Objects {
		if ref.Kind == render.NodePool && (m.owns(object) || m.live.recorded(object.Unstructured)) {
			n += len(m.claims()[ref])
		}
	}
	return n
}

// disruptedNodes returns guard.maxDisruptedNodes or its default.
func (p Policy) disruptedNodes() *intstr.IntOrString {
	fallback := intstr.FromString(defaultDisrupted)
	return cmp.Or(p.Guard.MaxDisruptedNodes, &fallback)
}

// atMost returns how many of this many nodes a limit allows to be disrupted at a time.
func atMost(limit *intstr.IntOrString, of int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, of, true)
	if err != nil {
		n = 0 // the CRD's schema rejects such values
	}
	if limit.Type == intstr.String {
		n = max(n, minDisrupted)
	}
	return n
}

// disruption is the set of nodes that this Plan, earlier Plans, or Karpenter disrupt.
type disruption struct {
	// drained are terminating, or are removed with their NodePool or by fewer replicas; replaced are those that
	// Karpenter replaces at the pace of disruption budgets.
	drained, replaced map[types.UID]bool
	// moreDrained and moreReplaced are numbers of nodes that cannot be identified, by the name of their NodePool.
	moreDrained, moreReplaced map[string]int
	// recent reports whether moreDrained includes nodes that count for earlier commits within guard.removalPeriod.
	recent bool
}

func newDisruption(terminating map[types.UID]bool) disruption {
	return disruption{drained: terminating, replaced: map[types.UID]bool{}, moreDrained: map[string]int{}, moreReplaced: map[string]int{}}
}

// add counts the nodes of a share.
func (d disruption) add(s share) {
	claims, more := d.drained, d.moreDrained
	if s.replaces {
		claims, more = d.replaced, d.moreReplaced
	}
	for _, uid := range s.claims {
		claims[uid] = true
	}
	if s.more > 0 {
		more[s.pool()] += s.more
	}
	for _, uid := range s.terminated {
		d.drained[uid] = true
	}
}

// with returns a copy with the nodes of more shares.
func (d disruption) with(group []share) disruption {
	sum := disruption{
		drained: maps.Clone(d.drained), replaced: maps.Clone(d.replaced),
		moreDrained: maps.Clone(d.moreDrained), moreReplaced: maps.Clone(d.moreReplaced), recent: d.recent,
	}
	for _, s := range group {
		sum.add(s)
	}
	return sum
}

// total counts every node once, regardless of budgets.
func (d disruption) total() int {
	n := len(d.drained) + d.replacedInTotal()
	for _, more := range d.moreDrained {
		n += more
	}
	return n
}

// replacedInTotal counts the nodes that are replaced sooner or later, without terminating ones.
func (d disruption) replacedInTotal() int {
	n := 0
	for uid := range d.replaced {
		if !d.drained[uid] {
			n++
		}
	}
	for _, more := range d.moreReplaced {
		n += more
	}
	return n
}

// share is what one object of the Plan does to nodes.
type share struct {
	ref    render.Ref
	claims []types.UID
	more   int
	// terminated are consolidated or expire: Karpenter launches no replacement first.
	terminated []types.UID
	// replaces reports whether Karpenter replaces them at the pace of disruption budgets.
	replaces bool
	// change is the Change, or nil for a removal; removal is the removal, or nil for a Change.
	change  *Change
	removal *Candidate
	// hold holds the object; nil if it was approved.
	hold func(reason, message string)
}

// pool returns the NodePool of the nodes that cannot be identified: that of the object, unless it is a CapacityBuffer,
// which any NodePool may have nodes for.
func (s share) pool() string {
	if s.ref.Kind == render.CapacityBuffer {
		return ofRemovedPools
	}
	return s.ref.Name
}

// shareOfRemoval returns what the removal of a candidate does to nodes; false if nothing.
func (m *maker) shareOfRemoval(c *Candidate) (s share, disrupts bool) {
	s = share{ref: c.Ref, claims: uids(m.claims()[c.Ref]), hold: c.holdUnlessApproved, removal: c}
	if c.Ref.Kind == render.CapacityBuffer {
		s.claims, s.more = nil, c.Nodes
	}
	return s, !c.Terminating && !c.Orphan && len(s.claims)+s.more > 0
}

// shareOfChange returns what a Change does to nodes.
func shareOfChange(c *Change, hold func(reason, message string)) share {
	return share{
		ref: c.Ref, claims: c.touched, more: c.unnamed, terminated: slices.Concat(c.consolidated, c.expiring),
		replaces: c.Effect == EffectReplace, change: c, hold: hold,
	}
}

// shares returns what the Plan does to nodes, by revision: removals that were recorded before in the order of their
// evaluation, then everything new.
func (m *maker) shares(p *Plan) [][]share {
	var groups [][]share
	last := ""
	var fresh []share
	for i := range p.Removals {
		c := &p.Removals[i]
		s, disrupts := m.shareOfRemoval(c)
		if c.Held || c.Ref.Kind == render.EC2NodeClass || !disrupts {
			continue
		}
		if c.approved.covers(ReasonMaxDisruptedNodes) {
			s.hold = nil
		}
		switch {
		case c.Revision == p.Revision:
			fresh = append(fresh, s)
		case len(groups) > 0 && last == c.Revision:
			groups[len(groups)-1] = append(groups[len(groups)-1], s)
		default:
			groups, last = append(groups, []share{s}), c.Revision
		}
	}
	for i := range p.Changes {
		change := &p.Changes[i]
		if reason, message, held := m.holdsByItself(change); held {
			change.hold(reason, message)
		}
		if !proceedsAndCounts(change) {
			continue
		}
		s := shareOfChange(change, m.holdUnlessApproved(change))
		if m.approved(change, ReasonMaxDisruptedNodes) {
			s.hold = nil
		}
		fresh = append(fresh, s)
	}
	if len(fresh) > 0 {
		groups = append(groups, fresh)
	}
	return groups
}

func uids(claims []*NodeClaim) []types.UID {
	found := make([]types.UID, 0, len(claims))
	for _, c := range claims {
		found = append(found, c.UID)
	}
	return found
}

// percentOf is the base of a percentage: NodeClaims, without those that a recent commit may have added to raise the
// limit.
type percentOf struct{ of, added int }

// nodesFor returns the base of percentages for a group. If all NodePools are new, all of their NodeClaims count: a new
// cluster has no others.
func (m *maker) nodesFor(group []share) percentOf {
	var found percentOf
	since, allNew := m.spanOf(removalsOf(group)).after, true
	for ref, object := range m.live.Objects {
		if ref.Kind == render.NodePool && (m.owns(object) || m.live.recorded(object.Unstructured)) {
			added := m.added(ref, object, since)
			found.of += len(m.claims()[ref]) - added
			found.added += added
			allNew = allNew && m.isNew(object.GetCreationTimestamp().Time, since)
		}
	}
	if allNew {
		return percentOf{of: found.of + found.added}
	}
	return found
}

// nodesOfPoolFor returns the base for one NodePool; for a new one, all of its NodeClaims.
func (m *maker) nodesOfPoolFor(pool string, group []share) percentOf {
	ref := poolRefOf(pool)
	object, since := m.live.object(ref), m.spanOf(removalsOf(group)).after
	found := percentOf{of: len(m.claims()[ref])}
	if object == nil || m.isNew(object.GetCreationTimestamp().Time, since) {
		return found
	}
	found.added = m.added(ref, object, since)
	found.of -= found.added
	return found
}

// added returns how many NodeClaims of a NodePool were created since a time and may exist because a commit added the
// NodePool or raised its replicas. Other NodePools launch nodes for pods, or to replace nodes.
func (m *maker) added(ref render.Ref, pool *Object, since time.Time) int {
	if specField(pool.Unstructured, "replicas") == nil && !m.isNew(pool.GetCreationTimestamp().Time, since) {
		return 0
	}
	n := 0
	for _, c := range m.claims()[ref] {
		if m.isNew(c.Created, since) {
			n++
		}
	}
	return n
}

// isNew reports whether an object was created after a time; false if either is unknown.
func (m *maker) isNew(created, since time.Time) bool {
	return !m.policy.Now.IsZero() && !created.IsZero() && created.After(since)
}

// shareOf describes the base of a limit.
func shareOf(limit *intstr.IntOrString, nodes percentOf) string {
	if limit.Type == intstr.Int {
		return limit.String()
	}
	without := ""
	if nodes.added > 0 {
		without = fmt.Sprintf(", not counting %d that earlier commits within guard.removalPeriod may have added", nodes.added)
	}
	return fmt.Sprintf("%s of %s%s, at least %d", limit, english.Plural(nodes.of, "node", ""), without, minDisrupted)
}
