package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// Commit is what is to be simulated.
type Commit struct {
	// Definitions are all NodePools, EC2NodeClasses and NodeOverlays as they are once the commit is
	// in force, of any owner, with the status that they have today.
	Definitions []map[string]any
	// Touched are the NodeClaims that the commit ends, or has Karpenter replace.
	Touched map[types.UID]bool
}

// CommitOf is what a Plan comes to, with what the guard holds of it: the definitions that are there
// once it is in force, and the NodeClaims that it touches. The notes say of which nodes it cannot be
// told.
func CommitOf(made *plan.Plan, live plan.Live, definitions []map[string]any) (commit Commit, notes []string) {
	gone := map[render.Ref]bool{}
	for i := range made.Removals {
		if c := &made.Removals[i]; !c.Orphan {
			gone[c.Ref] = true
		}
	}
	touches := func(c *plan.Change) bool { return c.Effect == plan.EffectReplace || c.Effect == plan.EffectDrain }
	commit = commitOf(made, live, definitions, gone, touches)
	for i := range made.Changes {
		change := &made.Changes[i]
		if more := change.Nodes - len(change.NodeClaims()); writes(change) && touches(change) && change.UpTo && more > 0 {
			notes = append(notes, fmt.Sprintf("%s: up to %d more nodes are replaced, nobody can say which; their pods are not moved here", change.Ref, more))
		}
	}
	return commit, notes
}

// Ending is a Plan without what is held, of which only removals touch nodes, those that have begun
// included: no other node ends before its own pool has replaced it.
func Ending(made *plan.Plan, live plan.Live, definitions []map[string]any) Commit {
	gone := map[render.Ref]bool{}
	for _, ref := range made.Leaving(live) {
		gone[ref] = true
	}
	unheld := &plan.Plan{Changes: slices.DeleteFunc(slices.Clone(made.Changes), func(c plan.Change) bool { return c.Action == plan.Hold })}
	return commitOf(unheld, live, definitions, gone, func(*plan.Change) bool { return false })
}

// writes says whether a Change is one that a commit makes.
func writes(change *plan.Change) bool {
	return change.Err == nil && change.Action != plan.Drifted && change.Action != plan.None
}

func commitOf(made *plan.Plan, live plan.Live, definitions []map[string]any, gone map[render.Ref]bool, touches func(*plan.Change) bool) Commit {
	commit, written := Commit{Touched: map[types.UID]bool{}}, map[render.Ref]*unstructured.Unstructured{}
	for i := range made.Changes {
		change := &made.Changes[i]
		if !writes(change) {
			continue
		}
		written[change.Ref] = cmp.Or(change.Wanted(), change.Object.Desired)
		if !touches(change) {
			continue
		}
		for _, uid := range change.NodeClaims() {
			commit.Touched[uid] = true
		}
	}
	for i := range live.NodeClaims {
		claim := &live.NodeClaims[i]
		if gone[render.Ref{Kind: render.NodePool, Name: claim.Pool}] {
			commit.Touched[claim.UID] = true
		}
	}
	commit.Definitions = after(definitions, written, gone)
	return commit
}

// after are the definitions once what is written is, and what goes is gone. A definition keeps the
// status that it has.
func after(definitions []map[string]any, written map[render.Ref]*unstructured.Unstructured, gone map[render.Ref]bool) []map[string]any {
	var there []map[string]any
	known := map[render.Ref]bool{}
	for _, definition := range definitions {
		object := unstructured.Unstructured{Object: definition}
		ref := render.Ref{Kind: object.GetKind(), Name: object.GetName()}
		known[ref] = true
		switch desired := written[ref]; {
		case gone[ref]:
		case desired != nil:
			there = append(there, withStatusOf(desired.Object, definition))
		default:
			there = append(there, definition)
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(written), func(a, b render.Ref) int { return cmp.Compare(a.String(), b.String()) }) {
		if !known[ref] {
			there = append(there, withStatusOf(written[ref].Object, nil))
		}
	}
	return there
}

func withStatusOf(desired, live map[string]any) map[string]any {
	status, _ := live["status"].(map[string]any)
	return WithStatus(desired, status)
}
