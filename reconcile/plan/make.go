package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/internal/workers"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan/rules"
	"github.com/plumbline-dev/plumbline/render"
)

// RevisionDeleted stands for a revision where the NodeSync itself is deleted, or drained.
const RevisionDeleted = "deleted"

// errEmpty guards against a Set that would take everything away by mistake.
var errEmpty = errors.New("plan: the Set has no object; an empty Set is refused before it comes here, nothing was planned")

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
	// most is how many nodes of each NodePool may be replaced at one time, as far as that was needed.
	most map[string]atOnce
	// inForce are what people have approved of the same terms, and the Plan has not outgrown.
	inForce []v1alpha1.ApprovedPlan
	// rules are the policies, compiled.
	rules *rules.Rules
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

// noNodes says whether a removal is of a definition that stays, as only nodes go.
func (m *maker) noNodes(r v1alpha1.Removal) bool {
	object := m.live.object(refOf(r))
	return m.policy.Keeps && r.Kind != render.NodePool && object != nil && object.GetUID() == r.UID && !terminating(object)
}

func stageIndex(ref render.Ref) int {
	return slices.IndexFunc(render.Kinds(), func(k render.Kind) bool { return k.GVK.Kind == ref.Kind })
}
