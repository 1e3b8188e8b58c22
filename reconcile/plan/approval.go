package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Approvable is what of a Plan is held and people may approve: what goes beyond the limits of the
// guard, and what a policy holds. What is in doubt, and what would end Karpenter's controller, is
// not: no person's word makes it safe.
type Approvable struct {
	// Digest covers the objects with the nodes, what would be written, Karpenter's charts, and what
	// it was weighed by. Outcome is the same without the nodes.
	Digest, Outcome string
	// WeighedBy is a digest of only guard, policies and Karpenter's charts.
	WeighedBy string
	// Drained are the nodes that would end, Replaced those that Karpenter would replace. UpTo says
	// that they are no more than that. Consolidated is the most that Karpenter may consolidate.
	Drained, Replaced int
	UpTo              bool
	Consolidated      int
	// Pods are those that would be pending.
	Pods int
	// Left are the nodes that nobody would manage any more.
	Left int
	// Of are the NodeSync's nodes, and Pools the NodePools that it is about.
	Of, Pools int
	Entries   []v1alpha1.ApprovedEntry
}

// Nodes are all that would be disrupted, or left unmanaged.
func (a *Approvable) Nodes() int { return a.Drained + a.Replaced + a.Consolidated + a.Left }

// Summary says what it does, for a commit status.
func (a *Approvable) Summary() string {
	var does []string
	if a.Drained > 0 {
		does = append(does, fmt.Sprintf("drains %d", a.Drained))
	}
	if a.Replaced > 0 {
		does = append(does, fmt.Sprintf("replaces %d", a.Replaced))
	}
	if a.Consolidated > 0 {
		does = append(does, fmt.Sprintf("lets Karpenter consolidate up to %d", a.Consolidated))
	}
	if a.Left > 0 {
		does = append(does, fmt.Sprintf("leaves %d unmanaged", a.Left))
	}
	if len(does) == 0 {
		return fmt.Sprintf("%s, no node", english.Plural(len(a.Entries), "object", ""))
	}
	upTo := ""
	if a.UpTo {
		upTo = "up to "
	}
	summary := fmt.Sprintf("%s%s of %s in %s", upTo, strings.Join(does, " and "), a.whose(), english.Plural(a.Pools, "pool", ""))
	if a.Pods > 0 {
		summary += fmt.Sprintf(", %s pending", english.Plural(a.Pods, "pod", ""))
	}
	return summary
}

// whose are the nodes of the NodeSync, and those of other pools that are on its EC2NodeClasses, where
// there have to be some.
func (a *Approvable) whose() string {
	own := english.Plural(a.Of, "node", "")
	if a.Nodes() > a.Of {
		return own + " and others on the same EC2NodeClass"
	}
	return own
}

// approvable says whether people may approve what is held for a reason.
func approvable(reason string) bool {
	return slices.Contains([]string{ReasonLastPool, ReasonMaxRemovedPools, ReasonMaxDisruptedNodes, ReasonMaxDisruptedNodesPerPool, ReasonMaxReplacedNodes, ReasonIntolerantDaemonSets, ReasonUnschedulablePods, ReasonPolicy, ReasonOrphan}, reason)
}

// tolerated is how many nodes what was approved of so many may come to: nodes come and go.
func tolerated(nodes int32) int32 { return nodes + max(1, nodes/10) }

// Within reports whether people were shown what is held now by what was held before: the same outcome under the same
// terms, at most a few more nodes, and no other reason, policy or pending pod.
func (a *Approvable) Within(before *v1alpha1.HeldPlan) bool {
	if before.Outcome != a.Outcome || before.WeighedBy != a.WeighedBy || int32(a.Nodes()) > tolerated(before.Nodes) {
		return false
	}
	return !slices.ContainsFunc(a.Entries, func(e v1alpha1.ApprovedEntry) bool {
		return !slices.ContainsFunc(before.Entries, func(b v1alpha1.ApprovedEntry) bool {
			shown := approved{reasons: b.Reasons, pods: b.UnschedulablePods}
			hidden := func(reason string) bool { return !shown.covers(reason) }
			return object(b) == object(e) && !slices.ContainsFunc(e.Reasons, hidden) && (len(e.UnschedulablePods) == 0 || shown.coversPods(e.UnschedulablePods))
		})
	})
}

// entryOf is what an Approval of a removal covers.
func (c *Candidate) entryOf() v1alpha1.ApprovedEntry {
	return v1alpha1.ApprovedEntry{
		Kind: c.Ref.Kind, Name: c.Ref.Name, UID: c.UID, Nodes: int32(c.Nodes + c.Leaves), MovesTo: c.MovesTo, LastPool: c.Last, Orphan: c.Orphan,
		Reasons: reasonsOf(c.Holds), UnschedulablePods: c.pods, Policies: c.policies,
	}
}

// entryOf is what an Approval of a Change covers.
func (c *Change) entryOf() v1alpha1.ApprovedEntry {
	e := v1alpha1.ApprovedEntry{
		Kind: c.Ref.Kind, Name: c.Ref.Name, Definition: c.said().defined(),
		Nodes: int32(len(c.touched) + c.unnamed + len(c.consolidated)), Reasons: reasonsOf(c.Holds), Policies: c.policies,
	}
	if c.Live != nil {
		e.UID = c.Live.GetUID()
	}
	return e
}

// simulates reports whether it is not known yet where the pods of a removal that people may approve find a place: the
// Plan is not complete then.
func (p *Plan) simulates() bool {
	return p.Landing.Asking && slices.ContainsFunc(p.Removals, func(c Candidate) bool { return approvableHolds(c.Holds) && lands(&c) })
}

// approvable finds what of the Plan people may approve; nil where nothing is held, or nothing else
// than what nobody may.
func (m *maker) approvable(p *Plan, set *render.Set) *Approvable {
	a := &Approvable{Of: p.Nodes}
	pools, writes := map[string]bool{}, []write{}
	touch := func(ref render.Ref) {
		if ref.Kind == render.NodePool {
			pools[ref.Name] = true
		}
		for _, claim := range m.claims()[ref] {
			pools[claim.Pool] = true
		}
	}
	for i := range p.Changes {
		c := &p.Changes[i]
		if c.Action != Hold || !approvableHolds(c.Holds) {
			continue
		}
		touched := len(c.touched) + c.unnamed
		if c.Effect == EffectReplace {
			a.Replaced += touched
		} else {
			a.Drained += touched
		}
		a.Consolidated += len(c.consolidated)
		a.UpTo = a.UpTo || c.UpTo && touched > 0
		w := changed(c)
		w.Object, w.Held, w.Reasons = c.said().object(), "", reasonsOf(c.Holds)
		a.Entries, writes = append(a.Entries, c.entryOf()), append(writes, w)
		touch(c.Ref)
	}
	for i := range p.Removals {
		c := &p.Removals[i]
		if !approvableHolds(c.Holds) {
			continue
		}
		a.Drained, a.Left = a.Drained+c.Nodes, a.Left+c.Leaves
		w := m.removed(c)
		w.Held, w.Reasons, w.Pods = "", reasonsOf(c.Holds), c.pods
		a.Pods += pending(c.pods)
		a.Entries, writes = append(a.Entries, c.entryOf()), append(writes, w)
		touch(c.Ref)
	}
	if len(a.Entries) == 0 || p.simulates() {
		return nil
	}
	a.Pools = len(pools)
	slices.SortStableFunc(writes, func(x, y write) int { return cmp.Compare(x.Ref, y.Ref) })
	all := m.weighedBy(set)
	all.NodeSync, all.Writes = m.policy.Owner.String(), writes
	a.Digest, a.WeighedBy = all.digest(), p.WeighedBy
	for i := range all.Writes {
		w := &all.Writes[i]
		w.Nodes, w.Unnamed, w.UpTo, w.Reasons, w.Pods = nil, 0, false, nil, nil
	}
	a.Outcome = all.digest()
	return a
}

// digest hashes it.
func (s sum) digest() string {
	hash := sha256.Sum256([]byte(canonical(s)))
	return "sha256:" + hex.EncodeToString(hash[:])
}

// digests are those of what was approved, sorted.
func (p Policy) digests() []string {
	found := map[string]bool{}
	for _, a := range p.Approved {
		found[a.Digest] = true
	}
	return slices.Sorted(maps.Keys(found))
}
