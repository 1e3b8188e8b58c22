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

// Plan is the Set against the live cluster.
type Plan struct {
	// Revision that the Plan is for.
	Revision string
	// NodeSync is the namespace and name of the one that it is made for, Cluster the name of its
	// cluster, and Nodes how many of its NodeClaims are the NodeSync's; empty if nothing is
	// known of a cluster.
	NodeSync, Cluster string
	Nodes             int
	// Refused is why nothing of the Plan may be done: a policy denies it, or cannot be evaluated; nil
	// if it may. Where Questions are open, their answers may change it.
	Refused error
	// Changes are the objects that are not as Git says, in the order of their
	// Stages, then by name. An object that is as Git says is not in it.
	Changes []Change
	// Removals are the entries that leave: those that were recorded and have not
	// ended a node yet, weighed again, and those that nobody has recorded yet.
	Removals []Candidate
	// Returned are recorded removals that Git has an entry for again, and those that
	// are handed over. None of them may be driven on. The record of one ends when its
	// Change is applied, or at once where it has no Change.
	Returned []v1alpha1.Removal
	// Kept are the entries that left and stay because of another NodeSync. Those that
	// are recorded and not Returned keep their record, and are not driven on.
	Kept []Kept
	// Used are the objects that a person has released and that Git has: the release ends.
	Used []Used
	// UsedReleases are the UIDs whose release counts no more, these among them, sorted.
	UsedReleases []types.UID
	// InUse are the classes that were deleted while NodePools name them, the oldest
	// first.
	InUse []InUse
	// Extra are the objects with fields that Git does not write and that stay, in the order
	// of their Stages, then by name.
	Extra []Extra
	// DaemonSets are those of the cluster that nodes need until their last pod has ended.
	DaemonSets DaemonSets
	// Warnings are sentences a person should read.
	Warnings []string
	// Landing is whether the pods of pools that leave find a place elsewhere.
	Landing Landing
	// Frozen is why removals, and Changes that end or replace nodes, wait.
	Frozen Frozen
	// Approvable is what is held and people may approve; nil if nothing is.
	Approvable *Approvable
	// Digest names what would be done: equal Digests, equal writes.
	Digest string
	// WeighedBy is a digest of what it was weighed by: guard, policies and Karpenter's charts.
	WeighedBy string
	// Memo goes into the next Plan's Live, and saves it the comparison of what has
	// not changed since.
	Memo Memo
}

// Used is an object whose release is used up.
type Used struct {
	Ref render.Ref
	UID types.UID
}

// Change is what would be done with one object of the Set.
type Change struct {
	Ref    render.Ref
	Action Action
	// Reason is one CamelCase word; Message says it to a person. Neither changes
	// while nothing changes.
	Reason, Message string
	// WaitsFor names what an Action of Wait waits for.
	WaitsFor string
	// WaitsSince is since when it waits for another NodeSync; zero if that began now, or
	// where it waits for anything else.
	WaitsSince time.Time
	// Fields are the fields that would change, by path.
	Fields []Field
	// Editors are the field managers, other than ours, that own such a field, and Edited are those
	// fields.
	Editors []string
	Edited  []Field
	// Takeover reports whether fields of interactive managers have to become ours
	// before the object is applied, which costs a write more. Taken are the paths of fields
	// that have to, whichever manager has written them.
	Takeover bool
	Taken    [][]string
	// Drift reports whether Git has not changed since the object was as Git says: another client
	// has changed or deleted it.
	Drift bool
	// Rescue reports whether no commit has made it, but the rescue of a class that was deleted.
	Rescue bool
	// Restores says of a TakeBack that it brings nothing new: the entry is what it was as its
	// removal was recorded, or its rollout was stopped.
	Restores bool
	// Reverts are of a change amid a freeze the NodePools in which it takes back one that is being
	// rolled out, sorted; nil if it does so in none.
	Reverts []string
	// Force reports whether the object is applied over other managers' fields.
	Force  bool
	Effect Effect
	// Nodes is the number of NodeClaims that the Effect is on. UpTo reports that it is
	// no more than that: which of them cannot be told.
	Nodes int
	UpTo  bool
	// Unavailable is what plumbline lacks to tell which, and what to do about it; empty if it
	// lacks nothing.
	Unavailable string
	// DriftReasons are those for which Karpenter will find these nodes Drifted; empty if it
	// is not for a change of the definitions that they end.
	DriftReasons []string
	// Warnings are sentences on what it does to nodes beside the Effect.
	Warnings []string
	// Notes are sentences on what it changes beside that.
	Notes []string
	// rewritten are the paths of fields that mean the same as before, and by which Karpenter
	// counts nodes as outdated.
	rewritten []string
	// wanted is what Wanted returns; nil if that is Git's object.
	wanted *unstructured.Unstructured
	// differences are the Fields, as values.
	differences []difference
	// touched are the NodeClaims that the Effect is on, and unnamed is how many more it
	// is on, nobody can say which.
	touched []types.UID
	// texts are what its Object says of itself in digests; nil if nothing was compared with it.
	texts *texts
	// Holds are all reasons for which it is held, the most severe first, and unheld is its Action without them.
	Holds  []HoldReason
	unheld Action
	// policies are those that hold it.
	policies []string
	// consolidated are the NodeClaims that Karpenter may consolidate after it and could not before, without those that it touches
	// in another way. loads is what is read of nodes to tell which these are; nil if nothing is.
	consolidated []types.UID
	loads        *LoadQuestion
	// expiring are as many NodeClaims as expire within guard.removalPeriod after it, whatever disruption budgets say.
	expiring []types.UID
	// blind is what Blind says.
	blind   bool
	unnamed int
	// question is what AWS has to be asked for the Effect to be exact; nil if nothing.
	question *Question
	// Object is what Git says. Braked reports that it is applied without its disruption budgets.
	Object render.Object
	Braked bool
	// Settles are the disruption budgets that the removal's manager gives a pool which Git has again, instead of Git's, until
	// Karpenter finds that its nodes match; nil if Git's come back at once.
	Settles []any
	// Live is what the cluster has; nil if it has nothing.
	Live *unstructured.Unstructured
	// Err is the typed error of an Action that is Refuse or Conflict.
	Err error
}

// Field is one field that would change. An absent value is the empty string.
type Field struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Action is what is done with one object.
type Action string

// The Actions.
const (
	// None: the object is as Git says.
	None Action = "None"
	// Create: the cluster does not have it.
	Create Action = "Create"
	// Update: it differs from Git.
	Update Action = "Update"
	// Adopt: it exists without our label, and the policy lets us take it over.
	Adopt Action = "Adopt"
	// TakeBack: it was leaving, and Git has the entry again, or its rollout was stopped, and is no
	// more.
	TakeBack Action = "TakeBack"
	// Wait: nothing can be written yet; WaitsFor says for what.
	Wait Action = "Wait"
	// Conflict: it is another client's, or one of its fields is.
	Conflict Action = "Conflict"
	// Refuse: the API server would refuse it, whenever it is tried.
	Refuse Action = "Refuse"
	// Drifted: it differs from Git, and the policy is only to report that.
	Drifted Action = "Drifted"
	// Hold: it would disrupt more nodes than the guard allows, and is not written.
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
	// EffectDrain: the nodes end, without a replacement in their pool and past its
	// budgets.
	EffectDrain Effect = "Drain"
	// EffectConsolidate: Karpenter may terminate nodes that are empty or underused, which it could not before, within its
	// budgets; it may launch fewer or cheaper ones for the pods of these.
	EffectConsolidate Effect = "Consolidate"
	// EffectBlocked: nothing is done.
	EffectBlocked Effect = "Blocked"
)

// Disrupts reports whether nodes are terminated or replaced by it.
func (e Effect) Disrupts() bool {
	return e == EffectReplace || e == EffectDrain || e == EffectConsolidate
}

// Empty reports whether there is nothing to do and nothing to say.
func (p *Plan) Empty() bool {
	return len(p.Changes) == 0 && len(p.Removals) == 0 && len(p.Returned) == 0 && len(p.Kept) == 0
}

// Err joins the errors of the Changes that are refused or in conflict; nil
// if none is.
func (p *Plan) Err() error {
	errs := make([]error, 0, len(p.Changes))
	for i := range p.Changes {
		errs = append(errs, p.Changes[i].Err)
	}
	return errors.Join(errs...)
}

// RevisionDeleted stands for a revision where the NodeSync itself is deleted, or drained.
const RevisionDeleted = "deleted"

// errEmpty guards against a Set that would take everything away by mistake.
var errEmpty = errors.New("plan: empty set")

// Make compares a Set with what lives. With policy.Deleting there is no Set.
// An error means that there is no Plan at all; what is wrong with one object is
// in that object's Change.
func Make(ctx context.Context, set *render.Set, live Live, policy Policy, schema Schema) (*Plan, error) {
	m := &maker{
		live: live, policy: policy, schema: schema, claims: sync.OnceValue(live.claims),
		inSet: map[render.Ref]bool{}, kept: map[types.UID]bool{}, changes: map[render.Ref]Change{},
	}
	p := &Plan{Revision: RevisionDeleted, NodeSync: policy.name(), Cluster: policy.cluster(), DaemonSets: policy.DaemonSets}
	if set != nil {
		m.rescued = set.Rescues
	}
	p.WeighedBy = m.terms()
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
		p.Returned = m.returned()
		p.Used = m.used()
		p.UsedReleases = m.usedReleases(p.Used)
		p.Nodes = m.ourNodes()
		if p.Refused = m.judge(ctx, p); ctx.Err() != nil {
			return nil, ctx.Err()
		}
		m.noteTargets(p)
		m.holdIntolerant(p)
		m.weighNodes(p)
		m.holdUnschedulable(p)
		p.Approvable = m.approvable(p, set)
		m.freeze(p)
	}
	p.Digest = m.digest(p, set)
	return p, nil
}

// maker is what the making of one Plan carries along.
type maker struct {
	live   Live
	policy Policy
	schema Schema
	// objects are the Set's, in the order of their Stages; inSet are their Refs.
	objects []render.Object
	inSet   map[render.Ref]bool
	// kept are the objects that another NodeSync keeps from being removed.
	kept map[types.UID]bool
	// rescued are the classes for which NodePools of the Set name a copy.
	rescued []render.Rescue
	// revision is the Set's.
	revision string
	// changes are those that were decided on so far.
	changes map[render.Ref]Change
	// claims are the NodeClaims that hang on each object, sorted when one asks.
	claims func() map[render.Ref][]*NodeClaim
	// memo is for the next Plan.
	memo Memo
	// most is how many nodes of each NodePool may be replaced at one time, for the NodePools for which that was needed.
	most map[string]atOnce
	// inForce are what people have approved of the same terms, and the Plan has not outgrown.
	inForce []v1alpha1.ApprovedPlan
	// rules are the policies, compiled.
	rules *CompiledPolicies
}

// change decides on each object of the Set. Classes come before the pools that
// name them.
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

// stageLength is how many of the first objects are of one kind.
func stageLength(objects []render.Object) int {
	kind := objects[0].Ref.Kind
	if n := slices.IndexFunc(objects, func(o render.Object) bool { return o.Ref.Kind != kind }); n >= 0 {
		return n
	}
	return len(objects)
}

// stage decides on objects of one kind, which do not hang on each other, as many
// at a time as there are processors.
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
		if d != nil { // else it is as Git says, and was
			m.take(*d, p)
		}
	}
	return nil
}

// take puts a decision into the Plan.
func (m *maker) take(d decision, p *Plan) {
	m.memo.note(d)
	if d.extra != nil {
		p.Extra = append(p.Extra, *d.extra)
	}
	if d.change.Action != None {
		m.changes[d.change.Ref] = d.change
		p.Changes = append(p.Changes, d.change)
	}
}

// inOrder returns the objects in the order of their Stages, then by name, which
// is how a Set has them.
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

// returned are the recorded removals that Git has an entry for again, that are handed
// over, that a person has had forgotten or that are not of nodes where only these go, but for those whose object is terminating: what is deleted cannot
// be taken back, and its removal goes on to its end.
func (m *maker) returned() []v1alpha1.Removal {
	var found []v1alpha1.Removal
	for _, r := range m.live.Removals {
		if r.Phase != v1alpha1.RemovalGone && (m.back(r) || m.passedOn(r) || m.forgotten(r) || m.noNodes(r)) {
			found = append(found, r)
		}
	}
	return found
}

// noNodes reports whether a removal is of a definition that stays, as only nodes go.
func (m *maker) noNodes(r v1alpha1.Removal) bool {
	object := m.live.object(RefOf(r))
	return m.policy.Keeps && r.Kind != render.NodePool && object != nil && object.GetUID() == r.UID && !terminating(object)
}

func stageIndex(ref render.Ref) int {
	return slices.IndexFunc(render.Kinds(), func(k render.Kind) bool { return k.GVK.Kind == ref.Kind })
}

// InForce is what a NodeSync has in the cluster, as a Set, and a Plan that changes nothing of it: what
// goes by these goes on if it is unknown what Git wants, or where that is refused. What leaves is not
// in the Set, and the disruption budgets of its NodePools are without the brake.
func InForce(live Live, policy Policy, now time.Time) (*render.Set, *Plan, error) {
	policy.Now = now
	frozen, err := policy.frozen()
	if err != nil {
		return nil, nil, err
	}
	set := &render.Set{}
	for ref, object := range live.Objects {
		leaves := slices.ContainsFunc(live.Removals, func(r v1alpha1.Removal) bool { return r.Kind == ref.Kind && r.Name == ref.Name })
		if leaves || !policy.Owner.Owns(object) {
			continue
		}
		is, err := withoutBrake(object.Unstructured)
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", ref, err)
		}
		set.Objects = append(set.Objects, render.Object{Ref: ref, Desired: is, Defaulted: is})
	}
	slices.SortFunc(set.Objects, func(a, b render.Object) int { return cmp.Compare(a.Ref.String(), b.Ref.String()) })
	return set, &Plan{Frozen: frozen}, nil
}

// withoutBrake is an object as it lives, but for the brake.
func withoutBrake(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	entries, err := managed(live)
	if err != nil || !brakes(entries) {
		return live, err
	}
	object := live.DeepCopy()
	return object, unstructured.SetNestedSlice(object.Object, WithoutBrake(live), budgetsPath...)
}

// Document is the Plan as JSON has it, with the nodes of what it was made against.
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
		Object: c.Ref.String(), Kind: c.Ref.Kind, Name: c.Ref.Name, Action: string(c.Action), Reason: c.Reason, Drift: c.Drift, Restores: c.Restores,
		Effect: string(c.Effect), Nodes: c.Nodes, UpTo: c.UpTo, Unavailable: c.Unavailable, DriftReasons: c.DriftReasons, Warnings: c.Warnings, Notes: c.Notes, Message: c.Message,
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
	for _, uid := range slices.Concat(c.touched, c.consolidated) {
		if n, known := named[uid]; known {
			d.NodeClaims = append(d.NodeClaims, n)
		}
	}
	d.NodeClaims = byName(d.NodeClaims)
	return d
}

func removalDocument(c Candidate, object *Object, ofPool map[string][]planjson.NodeClaim) planjson.Removal {
	d := planjson.Removal{
		Object: c.Ref.String(), Kind: c.Ref.Kind, Name: c.Ref.Name, MovesTo: c.MovesTo, Nodes: c.Nodes, Orphan: c.Orphan, Leaves: c.Leaves,
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

// nodePools are those that live, by name.
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

// totals count over the whole Plan. A node that two of its parts disrupt counts once, as long as it
// can be told.
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
		if c.Ref.Kind == render.NodePool && !c.Held && !c.Orphan {
			leaving[c.Ref.Name] = true
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

func nodeClaim(c *NodeClaim) planjson.NodeClaim {
	labels := c.Labels.Map()
	return planjson.NodeClaim{
		Name: c.Name, Pool: c.Pool, Class: c.Class, Node: c.Node, Deleting: c.Deleting, Drifted: c.Drifted,
		InstanceType: labels[corev1.LabelInstanceTypeStable], CapacityType: labels[karpv1.CapacityTypeLabelKey], Zone: labels[corev1.LabelTopologyZone],
	}
}

func byName(found []planjson.NodeClaim) []planjson.NodeClaim {
	slices.SortFunc(found, func(a, b planjson.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// specOf is an object's spec, which is only read; nil if there is none.
func specOf(object *unstructured.Unstructured) map[string]any {
	if object == nil {
		return nil
	}
	spec, _ := object.Object["spec"].(map[string]any)
	return spec
}

// mark is what plumbline's own apply has written on an object.
type mark int

const (
	// unmarked: by its managedFields, plumbline has not applied it.
	unmarked mark = iota
	// unlabelled: it has, and the ownership label is not from that.
	unlabelled
	// labelled: it has, with the ownership label.
	labelled
)

// markOf reads a mark from what plumbline has applied; nil if that is nothing.
func markOf(applied *fieldpath.Set) mark {
	switch {
	case applied == nil:
		return unmarked
	case touches(applied, ownerLabelPath()):
		return labelled
	}
	return unlabelled
}

// mark is that of the object. Of managedFields that cannot be read nobody can tell, so nothing
// is taken away.
func (o *Object) mark() mark {
	o.read.Do(func() {
		if entries, err := managed(o.Unstructured); err == nil {
			o.marked = markOf(appliedBy(entries, v1alpha1.FieldManager))
		}
	})
	return o.marked
}

// marks spares the object to read again what plumbline has applied; nil if that is nothing.
func (o *Object) marks(applied *fieldpath.Set) {
	o.read.Do(func() { o.marked = markOf(applied) })
}
