package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// RevisionDeleted stands for a revision where the NodeSync itself is deleted.
const RevisionDeleted = "deleted"

// errEmpty guards against a Set that would take everything away by mistake.
var errEmpty = errors.New("plan: the Set has no object; an empty Set is refused before it comes here, nothing was planned")

// Make compares a Set with what lives. With policy.Deleting there is no Set.
// An error means that there is no Plan at all; what is wrong with one object is
// in that object's Change.
func Make(ctx context.Context, set *render.Set, live Live, policy Policy, schema Schema) (*Plan, error) {
	m := &maker{
		live: live, policy: policy, schema: schema, nodes: sync.OnceValue(live.nodes),
		inSet: map[render.Ref]bool{}, changes: map[render.Ref]Change{},
	}
	p := &Plan{Revision: RevisionDeleted}
	if !policy.Deleting {
		if set == nil || len(set.Objects) == 0 {
			return nil, errEmpty
		}
		p.Revision = set.Revision
		if err := m.change(ctx, set, p); err != nil {
			return nil, err
		}
	}
	if !policy.Offline {
		p.Removals = m.candidates(p.Revision)
		p.Returned = m.returned()
	}
	p.Digest = digest(p)
	return p, nil
}

// maker is what the making of one Plan carries along.
type maker struct {
	live   Live
	policy Policy
	schema Schema
	inSet  map[render.Ref]bool
	// changes are those that were decided on so far.
	changes map[render.Ref]Change
	// nodes are the NodeClaims that hang on each object, counted when one asks.
	nodes func() map[render.Ref]int
	// memo is for the next Plan.
	memo Memo
}

// change decides on each object of the Set. Classes come before the pools that
// name them.
func (m *maker) change(ctx context.Context, set *render.Set, p *Plan) error {
	objects := inOrder(set.Objects)
	m.memo = newMemo(m.policy.Owner, m.schema, len(objects))
	for _, object := range objects {
		m.inSet[object.Ref] = true
	}
	for _, object := range objects {
		change, err := m.decide(ctx, object)
		if err != nil {
			return fmt.Errorf("plan %s: %w", object.Ref, err)
		}
		if change.Action != None {
			m.effect(&change)
			m.changes[object.Ref] = change
			p.Changes = append(p.Changes, change)
		}
		if m.policy.Offline {
			p.Warnings = append(p.Warnings, m.offlineWarnings(object)...)
		}
	}
	p.Memo = m.memo
	return nil
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

// returned are the recorded removals that Git has an entry for again, but for
// those whose object is terminating: what is deleted cannot be taken back, and
// its removal goes on to its end.
func (m *maker) returned() []v1alpha1.Removal {
	var found []v1alpha1.Removal
	for _, r := range m.live.Removals {
		if r.Phase != v1alpha1.RemovalGone && m.back(r) {
			found = append(found, r)
		}
	}
	return found
}

func stageIndex(ref render.Ref) int {
	return slices.IndexFunc(render.Kinds(), func(k render.Kind) bool { return k.GVK.Kind == ref.Kind })
}
