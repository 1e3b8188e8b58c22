package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/plumbline-dev/plumbline/internal/workers"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/render"
)

// Plan is the result of comparing the Set with the live cluster.
type Plan struct {
	// Revision that the Plan is for.
	Revision string
	// NodeSync is the namespace and name of the NodeSync that the Plan is for, Cluster is the name of its cluster, and
	// Nodes is the number of NodeClaims that belong to it; empty if the cluster is unknown.
	NodeSync, Cluster string
	Nodes             int
	// Refused is why nothing of the Plan may be applied: a policy denies it, or cannot be evaluated; nil if it may be
	// applied. The answers to open Questions may change it.
	Refused error
	// Changes are the objects that differ from Git, in the order of their Stages, then by name.
	Changes []Change
	// Removals are the objects that are being removed: recorded ones that have not terminated a node yet, checked
	// again, and those that are not recorded yet.
	Removals []Candidate
	// Returned are recorded removals whose object is in Git again or was handed over. They must not continue. The
	// record is deleted when the object's Change is applied, or at once if there is no Change.
	Returned []v1alpha1.Removal
	// Kept are the objects that were removed from Git but stay because of another NodeSync. Those that are recorded and
	// not Returned keep their record, and their removal does not continue.
	Kept []Kept
	// Used are the objects that a person has released and that Git contains again: the release expires.
	Used []Used
	// UsedReleases are the UIDs whose release no longer counts, including those of Used, sorted.
	UsedReleases []types.UID
	// InUse are the classes that were deleted while NodePools reference them, the oldest first.
	InUse []InUse
	// Extra are the objects with fields that are not in Git and that plumbline keeps, in the order of their Stages,
	// then by name.
	Extra []Extra
	// DaemonSets are those of the cluster that nodes need until their last pod has terminated.
	DaemonSets DaemonSets
	// Warnings are sentences a person should read.
	Warnings []string
	// Landing reports whether the pods of removed pools can be scheduled elsewhere.
	Landing Landing
	// Frozen is why removals, and Changes that terminate or replace nodes, wait.
	Frozen Frozen
	// Reverted are the NodePools that were reverted during this freeze, and those that the Changes revert, by name; nil if
	// there is no freeze. They must be recorded before the Changes are written.
	Reverted []v1alpha1.RevertedPool
	// Approvable is what is held and people may approve; nil if nothing is.
	Approvable *Approvable
	// Digest identifies what would be done: equal Digests mean equal writes.
	Digest string
	// WeighedBy is a digest of the rules that the Plan was checked against: guard, policies and Karpenter's charts.
	WeighedBy string
	// Memo goes into the Live of the next Plan, which then does not compare unchanged objects again.
	Memo Memo
}

// Used is an object whose release has expired.
type Used struct {
	Ref render.Ref
	UID types.UID
}

// Change is what would be done with one object of the Set.
type Change struct {
	Ref    render.Ref
	Action Action
	// Reason is one CamelCase word; Message explains it to a person. Both are stable while nothing changes.
	Reason, Message string
	// WaitsFor names what the Action Wait waits for.
	WaitsFor string
	// WaitsSince is when it started to wait for another NodeSync; zero if that was just now, or if it waits for
	// anything else.
	WaitsSince time.Time
	// Fields are the fields that would change, by path.
	Fields []Field
	// Editors are the field managers, other than ours, that own such a field, and Edited are those fields. If Git has
	// changed, too, and it is known how the object last matched it, Edited are exactly the fields that another client has
	// changed since then: one that it has removed has no manager.
	Editors []string
	Edited  []Field
	// Takeover reports whether plumbline must take ownership of fields of interactive managers before it applies the
	// object, which costs one more write. Taken are the paths of fields that it must take from any manager.
	Takeover bool
	Taken    [][]string
	// Drift reports whether Git has not changed since the object last matched it: another client changed or deleted the
	// object. Deleted reports whether one has deleted it although Git has changed, too.
	Drift, Deleted bool
	// Rescue reports whether the Change comes from the rescue of a deleted class, not from a commit.
	Rescue bool
	// Restores reports whether a TakeBack brings nothing new: the object in Git is the same as when its removal was
	// recorded, or its rollout was stopped.
	Restores bool
	// Reverts are the NodePools in which a change during a freeze reverts one that is being rolled out, and keeps at least
	// as many nodes as it replaces, sorted; nil if there are none.
	Reverts []string
	// RevertsWaves are the NodePools in which a change reverts one that is being rolled out, so that its nodes are not replaced in
	// waves, sorted; nil if there are none.
	RevertsWaves []string
	// BrakesFirst are the other NodePools in which such a change would replace nodes, sorted: it waits until plumbline has
	// stopped replacements there. For a change whose nodes are replaced in waves, they are its NodePools.
	BrakesFirst []string
	// Force reports whether the object is applied over other managers' fields.
	Force  bool
	Effect Effect
	// Nodes is the number of NodeClaims that the Effect applies to. If UpTo, it is an upper limit: it is unknown which
	// of them are affected.
	Nodes int
	UpTo  bool
	// Unavailable is the information that is missing to determine which nodes are affected, and what to do about it;
	// empty if nothing is missing.
	Unavailable string
	// DriftReasons are the reasons for which Karpenter will mark these nodes Drifted; empty if they terminate for
	// another reason than a changed definition.
	DriftReasons []string
	// Warnings are sentences about its consequences for nodes besides the Effect.
	Warnings []string
	// Notes are sentences about its other consequences.
	Notes []string
	// rewritten are the paths of fields that mean the same as before, but whose new spelling makes nodes drift.
	rewritten []string
	// wanted is what Wanted returns; nil if that is the object in Git.
	wanted *unstructured.Unstructured
	// differences are the Fields, as values.
	differences []difference
	// touched are the NodeClaims that the Effect applies to, and unnamed is the number of further ones that cannot be
	// identified.
	touched []types.UID
	// texts are the texts of its Object for digests; nil if nothing was compared with it.
	texts *texts
	// Holds are all reasons to hold it, the most severe first, and intendedAction is its Action without them.
	Holds          []HoldReason
	intendedAction Action
	// policies are the policies that hold it.
	policies []string
	// consolidated are the NodeClaims that Karpenter may consolidate after the Change but not before, except those in
	// touched. loads is the data about nodes needed to determine them; nil if none is needed.
	consolidated []types.UID
	loads        *LoadQuestion
	// scaledDown and mayScaleDown are the results of ScalesDown. Karpenter chooses when the Change is written, so they
	// are no part of the Digest, and count for the guard by their number, in unnamed.
	scaledDown, mayScaleDown []types.UID
	// expiring are NodeClaims that expire within guard.removalPeriod after the Change, regardless of disruption
	// budgets.
	expiring []types.UID
	// uncomparable is the result of Uncomparable.
	uncomparable bool
	unnamed      int
	// question is what to ask AWS for an exact Effect; nil if there is nothing to ask.
	question *Question
	// Object is the object in Git. Braked reports whether it is applied without its disruption budgets.
	Object render.Object
	Braked bool
	// Settles are the disruption budgets that the removal's manager sets on a NodePool that is in Git again, until
	// Karpenter finds that its nodes match; nil if Git's budgets are restored at once.
	Settles []any
	// Live is the object in the cluster; nil if there is none.
	Live *unstructured.Unstructured
	// Err is the typed error if the Action is Refuse or Conflict.
	Err error
}

// Field is one field that would change. An absent value is the empty string.
type Field struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Action is what plumbline does with one object.
type Action string

// The Actions.
const (
	// None: the object matches Git.
	None Action = "None"
	// Create: the object is not in the cluster.
	Create Action = "Create"
	// Update: the object differs from Git.
	Update Action = "Update"
	// Adopt: the object exists without our label, and the policy allows plumbline to take it over.
	Adopt Action = "Adopt"
	// TakeBack: the object was being removed and is in Git again, or its rollout was stopped and no longer is.
	TakeBack Action = "TakeBack"
	// Wait: the object cannot be written yet; WaitsFor names the reason.
	Wait Action = "Wait"
	// Conflict: the object, or one of its fields, belongs to another client.
	Conflict Action = "Conflict"
	// Refuse: the API server would always reject the object.
	Refuse Action = "Refuse"
	// Drifted: the object differs from Git, and the policy is to only report drift.
	Drifted Action = "Drifted"
	// Hold: the guard or a policy holds the Change, so it is not applied.
	Hold Action = "Hold"
)

// Writes reports whether the Action writes the object.
func (a Action) Writes() bool {
	return a == Create || a == Update || a == Adopt || a == TakeBack
}

// Effect is what a Change does to nodes.
type Effect string

// The Effects.
const (
	EffectNone Effect = "None"
	// EffectReplace: Karpenter will replace nodes at the pace of its budgets.
	EffectReplace Effect = "Replace"
	// EffectDrain: the nodes terminate without a replacement in their pool, regardless of its budgets.
	EffectDrain Effect = "Drain"
	// EffectConsolidate: Karpenter may terminate empty or underutilized nodes that it could not terminate before,
	// within its budgets; it may launch fewer or cheaper nodes for their pods.
	EffectConsolidate Effect = "Consolidate"
	// EffectBlocked: nothing is done.
	EffectBlocked Effect = "Blocked"
)

// Disrupts reports whether nodes are terminated or replaced.
func (e Effect) Disrupts() bool {
	return e == EffectReplace || e == EffectDrain || e == EffectConsolidate
}

// Empty reports whether there is nothing to do and nothing to report.
func (p *Plan) Empty() bool {
	return len(p.Changes) == 0 && len(p.Removals) == 0 && len(p.Returned) == 0 && len(p.Kept) == 0
}

// Err joins the errors of the Changes that are refused or in conflict; it is nil if there are none.
func (p *Plan) Err() error {
	errs := make([]error, 0, len(p.Changes))
	for i := range p.Changes {
		errs = append(errs, p.Changes[i].Err)
	}
	return errors.Join(errs...)
}

// RevisionDeleted is the revision of a Plan for a NodeSync that is deleted or drained.
const RevisionDeleted = "deleted"

// errEmpty guards against a Set that would remove everything by mistake.
var errEmpty = errors.New("plan: empty set")

// Make compares a Set with the live cluster. If policy.Deleting, there is no Set. An error means that there is no Plan
// at all; a problem with one object is in the Change of that object.
func Make(ctx context.Context, set *render.Set, live Live, policy Policy, schema Schema) (*Plan, error) {
	m := &maker{
		live: live, policy: policy, schema: schema, claims: sync.OnceValue(live.claims),
		inSet: map[render.Ref]bool{}, kept: map[types.UID]bool{}, changes: map[render.Ref]Change{},
	}
	p := &Plan{Revision: RevisionDeleted, NodeSync: policy.name(), Cluster: policy.cluster(), DaemonSets: policy.DaemonSets}
	if set != nil {
		m.rescued = set.Rescues
	}
	m.terms = m.termsOf(set)
	p.WeighedBy = m.terms
	err := m.compile()
	if err != nil {
		return nil, err
	}
	if p.Frozen, err = m.policy.frozen(); err != nil {
		return nil, err
	}
	if !policy.Deleting {
		if set == nil || len(set.Objects) == 0 {
			return nil, errEmpty
		}
		if err := live.readable(set); err != nil {
			return nil, err
		}
		p.Revision, m.revision = set.Revision, set.Revision
		if err := m.change(ctx, set, p); err != nil {
			return nil, err
		}
		p.InUse = m.inUse()
	}
	if policy.Offline {
		p.Warnings = append(p.Warnings, render.Undefined(m.objects)...)
	} else {
		p.Kept = m.keep()
		m.findMovesOfKept(p.Kept)
		p.Removals = m.candidates(p.Revision)
		p.Returned = m.removalsToEnd()
		p.Used = m.used()
		p.UsedReleases = m.usedReleases(p.Used)
		p.Nodes = m.ourNodes()
		if p.Refused = m.applyPolicies(ctx, p); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		m.noteTargets(p)
		p.Warnings = append(p.Warnings, m.noteOverlays(p)...)
		m.holdIntolerant(p)
		m.checkNodes(p)
		m.holdUnschedulable(p)
		p.Approvable = m.approvable(p, set)
		m.waitForWindow(p)
		m.waitForWaves(p)
	}
	p.Digest = m.digest(p, set)
	return p, nil
}

// maker holds the state while one Plan is made.
type maker struct {
	live   Live
	policy Policy
	schema Schema
	// objects are those of the Set, in the order of their Stages; inSet are their Refs.
	objects []render.Object
	inSet   map[render.Ref]bool
	// kept are the objects that stay because of another NodeSync.
	kept map[types.UID]bool
	// rescued are the deleted classes for which NodePools of the Set reference a copy.
	rescued []render.Rescue
	// revision is the Set's.
	revision string
	// changes are the Changes decided so far.
	changes map[render.Ref]Change
	// claims returns the NodeClaims that reference each object; computed on first use.
	claims func() map[render.Ref][]*NodeClaim
	// memo is for the next Plan.
	memo Memo
	// most is how many nodes of a NodePool may be replaced at one time, for the NodePools that needed it.
	most map[string]atOnce
	// terms is a hash of the rules that the Plan is weighed by, and inForce are the approvals that were given under the
	// same rules and that still cover the Plan.
	terms   string
	inForce []v1alpha1.ApprovedPlan
	// rules are the policies, compiled.
	rules *CompiledPolicies
}

// change decides on each object of the Set. Classes come before the pools that reference them.
func (m *maker) change(ctx context.Context, set *render.Set, p *Plan) error {
	m.objects = inOrder(set.Objects)
	objects := m.objects
	m.inSet = make(map[render.Ref]bool, len(objects))
	m.memo = newMemo(m.policy.Owner, m.schema, len(objects))
	m.memo.rules, m.memo.matches = m.rules, cmp.Or(m.live.Memo.matches, &MatchMemory{})
	for i := range objects {
		m.inSet[objects[i].Ref] = true
	}
	for len(objects) > 0 {
		n := stageLength(objects)
		if err := m.stage(ctx, objects[:n], p); err != nil {
			return err
		}
		objects = objects[n:]
	}
	p.Memo = m.memo
	return nil
}

// stageLength returns how many of the first objects have the same kind.
func stageLength(objects []render.Object) int {
	kind := objects[0].Ref.Kind
	if n := slices.IndexFunc(objects, func(o render.Object) bool { return o.Ref.Kind != kind }); n >= 0 {
		return n
	}
	return len(objects)
}

// stage decides on objects of one kind, which do not depend on each other, in parallel on all processors.
func (m *maker) stage(ctx context.Context, objects []render.Object, p *Plan) error {
	decisions := make([]*decision, len(objects))
	var unknown []int
	for i := range objects {
		known, ok := m.known(&objects[i])
		if !ok {
			unknown = append(unknown, i)
			continue
		}
		m.memo.clean[objects[i].Ref] = known
		if known.extra != nil {
			decisions[i] = &decision{change: unchanged(objects[i], m.live.object(objects[i].Ref).content()), extra: known.extra}
		}
	}
	if err := workers.Each(runtime.GOMAXPROCS(0), len(unknown), func(n int) error {
		i := unknown[n]
		d, err := m.decide(ctx, objects[i])
		if err != nil {
			return fmt.Errorf("plan %s: %w", objects[i].Ref, err)
		}
		decisions[i] = &d
		return nil
	}); err != nil {
		return err
	}
	for _, d := range decisions {
		if d != nil { // else the object matches Git and did so before
			m.addDecision(*d, p)
		}
	}
	return nil
}

// addDecision adds a decision to the Plan.
func (m *maker) addDecision(d decision, p *Plan) {
	m.memo.note(d)
	if d.extra != nil {
		p.Extra = append(p.Extra, *d.extra)
	}
	if d.change.Action != None {
		m.changes[d.change.Ref] = d.change
		p.Changes = append(p.Changes, d.change)
	}
}

// inOrder returns the objects in the order of their Stages, then by name, which is the order of a Set.
func inOrder(objects []render.Object) []render.Object {
	rank := map[string]int{}
	for i, kind := range render.Kinds() {
		rank[kind.GVK.Kind] = i
	}
	compare := func(a, b render.Object) int {
		return cmp.Or(cmp.Compare(rank[a.Ref.Kind], rank[b.Ref.Kind]), cmp.Compare(a.Ref.Name, b.Ref.Name))
	}
	if slices.IsSortedFunc(objects, compare) {
		return objects
	}
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, compare)
	return sorted
}

// removalsToEnd returns the recorded removals that must not continue: the object is in Git again or was handed over, a
// person deleted the record, or it is not a NodePool while only nodes are removed. Removals of terminating objects
// continue: a deletion cannot be reverted.
func (m *maker) removalsToEnd() []v1alpha1.Removal {
	var found []v1alpha1.Removal
	for _, r := range m.live.Removals {
		if r.Phase != v1alpha1.RemovalGone && (m.backInGit(r) || m.handedOver(r) || m.isDisowned(r) || m.noNodes(r)) {
			found = append(found, r)
		}
	}
	return found
}

// noNodes reports whether a removal is of a definition that stays because only nodes are removed.
func (m *maker) noNodes(r v1alpha1.Removal) bool {
	object := m.live.object(RefOf(r))
	return m.policy.Keeps && r.Kind != render.NodePool && object != nil && object.GetUID() == r.UID && !terminating(object)
}

func stageIndex(ref render.Ref) int {
	return slices.IndexFunc(render.Kinds(), func(k render.Kind) bool { return k.GVK.Kind == ref.Kind })
}

// InForce returns the live objects of a NodeSync as a Set, and a Plan that changes nothing, so that what depends only
// on live objects continues if Git's content is unknown or refused. Objects that are being removed are not in the Set,
// and the brake is left out of the disruption budgets.
func InForce(live Live, policy Policy, now time.Time) (*render.Set, *Plan, error) {
	policy.Now = now
	frozen, err := policy.frozen()
	if err != nil {
		return nil, nil, err
	}
	set, p := &render.Set{}, &Plan{Frozen: frozen}
	if frozen.Message != "" {
		p.Reverted = policy.Reverted
	}
	for ref, object := range live.Objects {
		leaves := slices.ContainsFunc(live.Removals, func(r v1alpha1.Removal) bool { return r.Kind == ref.Kind && r.Name == ref.Name && !r.Returned() })
		if leaves || !policy.Owner.Owns(object) {
			continue
		}
		is, err := AsInGit(ref, object)
		if err != nil {
			return nil, nil, err
		}
		set.Objects = append(set.Objects, is)
	}
	slices.SortFunc(set.Objects, func(a, b render.Object) int { return cmp.Compare(a.Ref.String(), b.Ref.String()) })
	return set, p, nil
}

// AsInGit returns a live object as one of a Set: the brake is left out.
func AsInGit(ref render.Ref, live *Object) (render.Object, error) {
	object := live.Unstructured
	entries, err := managed(object)
	if err == nil && brakes(entries) {
		object = object.DeepCopy()
		err = unstructured.SetNestedSlice(object.Object, WithoutBrake(object), budgetsPath...)
	}
	if err != nil {
		return render.Object{}, fmt.Errorf("read %s: %w", ref, err)
	}
	return render.Object{Ref: ref, Desired: object, Defaulted: object}, nil
}

// Document returns the Plan as JSON data, with the nodes that it was made for.
func (p *Plan) Document(live Live) planjson.Plan {
	d := planjson.Plan{
		APIVersion: planjson.APIVersion, Kind: planjson.Kind, NodeSync: p.NodeSync, Cluster: p.Cluster, Revision: p.Revision,
		Changes: []planjson.Change{}, Removals: []planjson.Removal{}, NodePools: nodePools(live), NodeClaims: []planjson.NodeClaim{},
	}
	named := make(map[types.UID]planjson.NodeClaim, len(live.NodeClaims))
	ofPool := map[string][]planjson.NodeClaim{}
	for i := range live.NodeClaims {
		c := nodeClaim(&live.NodeClaims[i])
		named[live.NodeClaims[i].UID] = c
		ofPool[c.Pool] = append(ofPool[c.Pool], c)
		d.NodeClaims = append(d.NodeClaims, c)
	}
	d.NodeClaims = byName(d.NodeClaims)
	for i := range p.Changes {
		d.Changes = append(d.Changes, changeDocument(&p.Changes[i], named))
	}
	for _, c := range p.Removals {
		d.Removals = append(d.Removals, removalDocument(c, live.Objects[c.Ref], ofPool))
	}
	d.Totals = p.totals(live)
	return d
}

func changeDocument(c *Change, named map[types.UID]planjson.NodeClaim) planjson.Change {
	d := planjson.Change{
		Object: c.Ref.String(), Kind: c.Ref.Kind, Name: c.Ref.Name, Action: string(c.Action), Reason: c.Reason, Drift: c.Drift,
		Restores: c.Restores,
		Effect:   string(c.Effect), Nodes: c.Nodes, UpTo: c.UpTo, Unavailable: c.Unavailable, DriftReasons: c.DriftReasons, Warnings: c.Warnings,
		Notes: c.Notes, Message: c.Message,
		Spec: specOf(c.Wanted()), LiveSpec: specOf(c.Live),
	}
	for _, f := range c.Fields {
		d.Fields = append(d.Fields, planjson.Field(f))
	}
	if desired := c.Object.Desired; desired != nil {
		d.Labels, d.Annotations = desired.GetLabels(), desired.GetAnnotations()
	}
	if c.Live != nil {
		d.LiveLabels = c.Live.GetLabels()
	}
	listed := map[types.UID]bool{}
	for _, uid := range slices.Concat(c.touched, c.consolidated, c.scaledDown, c.mayScaleDown) {
		if n, known := named[uid]; known && !listed[uid] {
			listed[uid], d.NodeClaims = true, append(d.NodeClaims, n)
		}
	}
	d.NodeClaims = byName(d.NodeClaims)
	return d
}

func removalDocument(c Candidate, object *Object, ofPool map[string][]planjson.NodeClaim) planjson.Removal {
	d := planjson.Removal{
		Object: c.Ref.String(), Kind: c.Ref.Kind, Name: c.Ref.Name, MovesTo: c.MovesTo, Nodes: c.Nodes, UpTo: c.UpTo && c.Nodes > 0,
		Orphan: c.Orphan, Leaves: c.Leaves,
		Recorded: c.Recorded, Terminating: c.Terminating, Held: c.Held, Queued: c.Queued, Reason: c.Reason, Message: c.Message,
	}
	if object != nil && object.GetUID() == c.UID {
		d.Labels, d.Spec = object.GetLabels(), specOf(object.content())
	}
	if c.Ref.Kind == render.NodePool && !c.Orphan {
		d.NodeClaims = byName(ofPool[c.Ref.Name])
	}
	return d
}

// nodePools returns the live NodePools, by name.
func nodePools(live Live) []planjson.NodePool {
	found := []planjson.NodePool{}
	for ref, object := range live.Objects {
		if ref.Kind == render.NodePool {
			class, _, _ := unstructured.NestedString(object.Object, "spec", "template", "spec", "nodeClassRef", "name")
			found = append(found, planjson.NodePool{Name: ref.Name, Class: class, Labels: object.GetLabels()})
		}
	}
	slices.SortFunc(found, func(a, b planjson.NodePool) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// Totals counts the nodes of the whole Plan, made for live.
func (p *Plan) Totals(live Live) planjson.Totals { return p.totals(live) }

// totals counts over the whole Plan. A node that two parts of the Plan disrupt counts once, if it can be identified.
func (p *Plan) totals(live Live) planjson.Totals {
	t := planjson.Totals{Nodes: p.Nodes, ClusterNodes: len(live.NodeClaims)}
	d := newDisruption(map[types.UID]bool{})
	for i := range p.Changes {
		if c := &p.Changes[i]; c.Action != Hold && c.Effect.Disrupts() {
			d.add(share{ref: c.Ref, claims: c.touched, more: c.unnamed, terminated: c.consolidated})
			t.UpTo = t.UpTo || c.UpTo || len(c.consolidated) > 0
		}
	}
	leaving := map[string]bool{}
	for _, c := range p.Removals {
		if !c.removable() {
			continue
		}
		if c.Ref.Kind == render.NodePool {
			leaving[c.Ref.Name] = true
		}
		if c.UpTo && c.Nodes > 0 {
			d.moreDrained[ofRemovedPools] += c.Nodes
			t.UpTo = true
		}
	}
	t.RemovedPools = len(leaving)
	for i := range live.NodeClaims {
		if leaving[live.NodeClaims[i].Pool] {
			d.drained[live.NodeClaims[i].UID] = true
		}
	}
	t.DisruptedNodes = d.total()
	return t
}

// removable reports whether the object is removed rather than held or orphaned.
func (c *Candidate) removable() bool { return !c.Held && !c.Orphan }

func nodeClaim(c *NodeClaim) planjson.NodeClaim {
	labels := c.Labels.Map()
	return planjson.NodeClaim{
		Name: c.Name, Pool: c.Pool, Class: c.Class, Node: c.Node, Deleting: c.Deleting, Drifted: c.Drifted,
		InstanceType: labels[corev1.LabelInstanceTypeStable], CapacityType: labels[karpv1.CapacityTypeLabelKey],
		Zone: labels[corev1.LabelTopologyZone], TerminationGracePeriod: c.TerminationGracePeriod,
	}
}

func byName(found []planjson.NodeClaim) []planjson.NodeClaim {
	slices.SortFunc(found, func(a, b planjson.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// specOf returns an object's spec, read only; nil if there is none.
func specOf(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return nil
	}
	spec, _ := object.Object["spec"].(map[string]any)
	return spec
}

// mark is what plumbline's own apply wrote on an object.
type mark int

const (
	// unmarked: according to its managedFields, plumbline has not applied it.
	unmarked mark = iota
	// unlabelled: plumbline has applied it, but the ownership label is not from that apply.
	unlabelled
	// labelled: plumbline has applied it with the ownership label.
	labelled
)

// markOf returns the mark for the fields that plumbline has applied, which are nil if there are none.
func markOf(applied *fieldpath.Set) mark {
	switch {
	case applied == nil:
		return unmarked
	case touches(applied, ownerLabelPath()):
		return labelled
	}
	return unlabelled
}

// mark returns the mark of the object. If its managedFields cannot be read, the object is unmarked, so nothing is
// removed.
func (o *Object) mark() mark {
	o.read.Do(func() {
		if entries, err := managed(o.Unstructured); err == nil {
			o.marked = markOf(appliedBy(entries, v1alpha1.FieldManager))
		}
	})
	return o.marked
}

// marks caches the mark for the fields that plumbline has applied, which are nil if there are none.
func (o *Object) marks(applied *fieldpath.Set) {
	o.read.Do(func() { o.marked = markOf(applied) })
}
