package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unique"

	"github.com/dustin/go-humanize/english"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Approvable is the part of a Plan that is held and that people may approve: what exceeds the limits of the guard, and
// what a policy holds. Doubtful removals, and what would terminate Karpenter's controller, are not included: approval
// does not make them safe.
type Approvable struct {
	// Digest covers the objects with their nodes, what would be written, Karpenter's charts, and the rules that apply.
	// Outcome is the same without the nodes.
	Digest, Outcome string
	// WeighedBy is a digest of only guard, policies and Karpenter's charts.
	WeighedBy string
	// Drained is how many nodes would terminate, and Replaced how many Karpenter would replace; if UpTo, these are
	// upper limits. Consolidated is how many Karpenter may consolidate at most.
	Drained, Replaced int
	UpTo              bool
	Consolidated      int
	// Pods is how many would be pending.
	Pods int
	// Left is how many nodes would no longer be managed.
	Left int
	// Of is the number of the NodeSync's nodes, and Pools that of the NodePools concerned.
	Of, Pools int
	Entries   []v1alpha1.ApprovedEntry
}

// Nodes returns how many nodes would be disrupted, or left unmanaged.
func (a *Approvable) Nodes() int { return a.Drained + a.Replaced + a.Consolidated + a.Left }

// Summary returns the effect as text for a commit status.
func (a *Approvable) Summary() string {
	var does []string
	upTo := ""
	if a.UpTo {
		upTo = "up to "
	}
	if a.Drained > 0 {
		does = append(does, fmt.Sprintf("drains %s%d", upTo, a.Drained))
	}
	if a.Replaced > 0 {
		does = append(does, fmt.Sprintf("replaces %s%d", upTo, a.Replaced))
	}
	if a.Consolidated > 0 {
		does = append(does, fmt.Sprintf("lets Karpenter consolidate up to %d", a.Consolidated))
	}
	if a.Left > 0 {
		does = append(does, fmt.Sprintf("leaves %d unmanaged", a.Left))
	}
	if len(does) == 0 {
		return fmt.Sprintf("changes %s and no nodes", english.Plural(len(a.Entries), "object", ""))
	}
	summary := fmt.Sprintf("%s of %s in %s", strings.Join(does, " and "), a.describeNodes(), english.Plural(a.Pools, "pool", ""))
	if a.Pods > 0 {
		summary += fmt.Sprintf(", %s pending", english.Plural(a.Pods, "pod", ""))
	}
	return summary
}

// describeNodes describes the nodes of the NodeSync, and those of other pools on its EC2NodeClasses if the total
// requires some.
func (a *Approvable) describeNodes() string {
	own := english.Plural(a.Of, "node", "")
	if a.Nodes() > a.Of {
		return own + " and others on the same EC2NodeClass"
	}
	return own
}

// approvable reports whether people may approve what is held for a reason.
func approvable(reason string) bool {
	return slices.Contains([]string{
		ReasonLastPool, ReasonMaxRemovedPools, ReasonMaxDisruptedNodes, ReasonMaxDisruptedNodesPerPool, ReasonMaxReplacedNodes,
		ReasonIntolerantDaemonSets, ReasonUnschedulablePods, ReasonPolicy, ReasonOrphan,
	}, reason)
}

// tolerated returns how many nodes an approval that showed this many covers: nodes come and go. If no node was shown,
// none is tolerated.
func tolerated(nodes int32) int32 { return nodes + min(nodes, max(1, nodes/10)) }

// Within reports whether people were shown what is held now when they saw what was held before: the same outcome under
// the same rules, at most a few more nodes, and no other reason, policy or pending pod.
func (a *Approvable) Within(before *v1alpha1.HeldPlan) bool {
	if before.Outcome != a.Outcome || before.WeighedBy != a.WeighedBy || int32(a.Nodes()) > tolerated(before.Nodes) {
		return false
	}
	return !slices.ContainsFunc(a.Entries, func(e v1alpha1.ApprovedEntry) bool {
		return !slices.ContainsFunc(before.Entries, func(b v1alpha1.ApprovedEntry) bool {
			shown := approved{reasons: b.Reasons, pods: b.UnschedulablePods}
			hidden := func(reason string) bool { return !shown.covers(reason) }
			return object(b) == object(e) && !slices.ContainsFunc(e.Reasons, hidden) &&
				(len(e.UnschedulablePods) == 0 || shown.coversPods(e.UnschedulablePods))
		})
	})
}

// Counted returns what is held with the current nodes of each object, but with the reasons and pods that people were
// shown before: these may have decreased, and increase again. Use it only if a is Within before; changed is false if
// each object has as many nodes as before.
func (a *Approvable) Counted(before *v1alpha1.HeldPlan) (now *Approvable, changed bool) {
	counted := *a
	counted.Entries, counted.Pods = slices.Clone(before.Entries), 0
	for i := range counted.Entries {
		e := &counted.Entries[i]
		counted.Pods += pending(e.UnschedulablePods)
		at := slices.IndexFunc(a.Entries, func(n v1alpha1.ApprovedEntry) bool { return object(n) == object(*e) })
		if at >= 0 && a.Entries[at].Nodes != e.Nodes {
			e.Nodes, changed = a.Entries[at].Nodes, true
		}
	}
	return &counted, changed
}

// entryOf returns what an Approval of a removal covers.
func (c *Candidate) entryOf() v1alpha1.ApprovedEntry {
	return v1alpha1.ApprovedEntry{
		Kind: c.Ref.Kind, Name: c.Ref.Name, UID: c.UID, Nodes: int32(c.Nodes + c.Leaves), MovesTo: c.MovesTo, LastPool: c.Last, Orphan: c.Orphan,
		Reasons: reasonsOf(c.Holds), UnschedulablePods: c.pods, Policies: c.policies,
	}
}

// entryOf returns what an Approval of a Change covers.
func (c *Change) entryOf() v1alpha1.ApprovedEntry {
	e := v1alpha1.ApprovedEntry{
		Kind: c.Ref.Kind, Name: c.Ref.Name, Definition: c.objectTexts().defined(),
		Nodes: int32(len(c.touched) + c.unnamed + len(c.consolidated)), Reasons: reasonsOf(c.Holds), Policies: c.policies,
	}
	if c.Live != nil {
		e.UID = c.Live.GetUID()
	}
	return e
}

// simulates reports whether it is still unknown where the pods of a removal that people may approve can be scheduled:
// the Plan is incomplete then.
func (p *Plan) simulates() bool {
	return p.Landing.Asking && slices.ContainsFunc(p.Removals, func(c Candidate) bool { return approvableHolds(c.Holds) && needsLanding(&c) })
}

// approvable returns the part of the Plan that people may approve; nil if nothing is held, or nobody may approve it.
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
		a.addNodesOf(c)
		w := changed(c)
		w.Object, w.Held, w.Reasons = c.objectTexts().object(), "", reasonsOf(c.Holds)
		a.Entries, writes = append(a.Entries, c.entryOf()), append(writes, w)
		touch(c.Ref)
	}
	for i := range p.Removals {
		c := &p.Removals[i]
		if !approvableHolds(c.Holds) {
			continue
		}
		if c.UpTo {
			a.Consolidated += c.Nodes
		} else {
			a.Drained += c.Nodes
		}
		a.Left += c.Leaves
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

// addNodesOf adds the nodes that a held Change would disrupt.
func (a *Approvable) addNodesOf(c *Change) {
	touched := len(c.touched) + c.unnamed
	switch c.Effect {
	case EffectReplace:
		a.Replaced += touched
	case EffectConsolidate:
		a.Consolidated, touched = a.Consolidated+touched, 0
	case EffectNone, EffectDrain, EffectBlocked:
		a.Drained += touched
	}
	a.Consolidated += len(c.consolidated)
	a.UpTo = a.UpTo || c.UpTo && touched > 0
}

func (s sum) digest() string {
	hash := sha256.Sum256([]byte(canonical(s)))
	return "sha256:" + hex.EncodeToString(hash[:])
}

// digests returns the digests of what was approved, sorted.
func (p Policy) digests() []string {
	found := map[string]bool{}
	for _, a := range p.Approved {
		found[a.Digest] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// approval is the stable part of an approved entry: the object, and what happens to it.
type approval struct {
	kind, name string
	uid        types.UID
	definition string
	movesTo    string
	lastPool   bool
	orphan     bool
}

func object(e v1alpha1.ApprovedEntry) approval {
	return approval{
		kind: e.Kind, name: e.Name, uid: e.UID, definition: e.Definition, movesTo: strings.Join(e.MovesTo, ","), lastPool: e.LastPool,
		orphan: e.Orphan,
	}
}

// approve finds the approvals that are in force, and the candidates that they cover.
func (m *maker) approve(candidates []Candidate) {
	if len(m.policy.Approved) == 0 {
		return
	}
	now := map[approval]int32{}
	note := func(e v1alpha1.ApprovedEntry) { now[object(e)] = e.Nodes }
	for ref := range m.changes {
		change := m.changes[ref]
		note(change.entryOf())
	}
	for i := range candidates {
		note(candidates[i].entryOf())
	}
	for _, a := range m.policy.Approved {
		if a.WeighedBy == m.terms && !outgrown(a, now) {
			m.inForce = append(m.inForce, a)
		}
	}
	for i := range candidates {
		candidates[i].approved = m.approvedAs(candidates[i].entryOf())
		candidates[i].Approved = candidates[i].approved.digest
	}
}

// approved are the reasons and pods for which people have approved an object.
type approved struct {
	// digest is that of the first approval; empty if there is none.
	digest  string
	reasons []string
	pods    []v1alpha1.PendingPods
}

// covers reports whether people have approved an object that is held for this reason.
func (a approved) covers(reason string) bool { return slices.Contains(a.reasons, reason) }

// coversPods reports whether people were shown that these pods, or more of the same workloads, would be pending.
func (a approved) coversPods(pods []v1alpha1.PendingPods) bool {
	return a.covers(ReasonUnschedulablePods) && !slices.ContainsFunc(pods, func(p v1alpha1.PendingPods) bool {
		return !slices.ContainsFunc(a.pods, func(shown v1alpha1.PendingPods) bool { return shown.Workload == p.Workload && shown.Pods >= p.Pods })
	})
}

// outgrown reports whether the rest of an approved plan now disrupts more nodes than tolerated in total: a few more in
// each of many pools would be many. Nodes that were added between the digest and its approval use up part of that
// tolerance.
func outgrown(a v1alpha1.ApprovedPlan, now map[approval]int32) bool {
	var approved, current int32
	for _, e := range a.Entries {
		if nodes, pending := now[object(e)]; pending {
			approved, current = approved+e.Nodes, current+nodes
		}
	}
	return current > tolerated(approved) || a.Nodes > 0 && current > tolerated(a.Nodes)
}

// approvedAs returns what people have approved for an object, in all approvals that are in force.
func (m *maker) approvedAs(want v1alpha1.ApprovedEntry) (found approved) {
	for _, a := range m.inForce {
		for _, e := range a.Entries {
			if object(e) == object(want) {
				found.digest = cmp.Or(found.digest, a.Digest)
				found.reasons, found.pods = append(found.reasons, e.Reasons...), append(found.pods, e.UnschedulablePods...)
			}
		}
	}
	return found
}

// approved reports whether people have approved a Change that is held for this reason.
func (m *maker) approved(c *Change, reason string) bool {
	return len(m.inForce) > 0 && m.approvedAs(c.entryOf()).covers(reason)
}

// approvedBefore reports whether a policy may no longer hold an object: people approved the object when the policy held
// it. It may also have been approved for the guard before.
func (m *maker) approvedBefore(policy string, of interface{ entryOf() v1alpha1.ApprovedEntry }) bool {
	if len(m.inForce) == 0 {
		return false
	}
	want := object(of.entryOf())
	return slices.ContainsFunc(m.inForce, func(a v1alpha1.ApprovedPlan) bool {
		return slices.ContainsFunc(a.Entries,
			func(e v1alpha1.ApprovedEntry) bool { return slices.Contains(e.Policies, policy) && object(e) == want })
	})
}

// LeftOf returns the approved entries that the Plan has not applied yet. It omits objects that Git contains again or no
// longer contains, removals that have started (they continue by themselves), removals with other replacements, and
// everything that was approved under other rules: these need a new approval.
func (p *Plan) LeftOf(approved []v1alpha1.ApprovedPlan) []v1alpha1.ApprovedPlan {
	pending := map[approval]bool{}
	note := func(e v1alpha1.ApprovedEntry) { pending[object(e)] = true }
	for i := range p.Changes {
		note(p.Changes[i].entryOf())
	}
	for i := range p.Removals {
		note(p.Removals[i].entryOf())
	}
	waits := func(e v1alpha1.ApprovedEntry) bool { // until the content of another NodeSync is known
		return slices.ContainsFunc(p.Kept, func(k Kept) bool {
			return !k.HandedOver && k.UID == e.UID && k.Ref == render.Ref{Kind: e.Kind, Name: e.Name} && e.Definition == ""
		})
	}
	var left []v1alpha1.ApprovedPlan
	for _, a := range approved {
		a.Entries = slices.DeleteFunc(slices.Clone(a.Entries), func(e v1alpha1.ApprovedEntry) bool {
			return !pending[object(e)] && !waits(e)
		})
		if len(a.Entries) > 0 && a.WeighedBy == p.WeighedBy {
			left = append(left, a)
		}
	}
	return left
}

// PackManagedFields reduces an object's managedFields, in place, to what a Plan reads: who owns which fields of the
// object itself. The fields become one JSON string, which takes far less memory than a tree of empty maps, and which
// objects of the same shape share.
//
// The result is only for a Plan: no API server accepts it.
func PackManagedFields(object *unstructured.Unstructured) error {
	value, _, err := unstructured.NestedFieldNoCopy(object.Object, "metadata", "managedFields")
	if err != nil {
		return fmt.Errorf("read managedFields: %w", err)
	}
	written, _ := value.([]any)
	packed := make([]any, 0, len(written))
	for _, item := range written {
		entry, ok := item.(map[string]any)
		if !ok || entry["subresource"] != nil {
			continue
		}
		fields, err := pack(entry["fieldsV1"])
		if err != nil {
			return fmt.Errorf("pack managedFields of manager %q: %w", entry["manager"], err)
		}
		packed = append(packed, map[string]any{"manager": entry["manager"], "operation": entry["operation"], "fieldsV1": fields})
	}
	if metadata, ok := object.Object["metadata"].(map[string]any); ok && len(written) > 0 {
		metadata["managedFields"] = packed
	}
	return nil
}

func pack(fields any) (string, error) {
	if packed, ok := fields.(string); ok {
		return packed, nil
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	return unique.Make(string(text)).Value(), nil
}

// fieldsOf decodes the fields of one entry, packed or not.
func fieldsOf(written *metav1.FieldsV1) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	if written == nil {
		return set, nil
	}
	text := written.GetRawString()
	if strings.HasPrefix(text, `"`) {
		if err := json.Unmarshal([]byte(text), &text); err != nil {
			return nil, err
		}
	}
	return set, set.FromJSON(strings.NewReader(text))
}
