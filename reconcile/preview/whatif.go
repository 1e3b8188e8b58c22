package preview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/capture"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/whatif"
	"github.com/plumbline-dev/plumbline/render"
)

// WhatIf simulates what becomes of pods by a Plan, with what the guard holds of it: that is what a
// person is about to release. live is what the Plan was made of.
func WhatIf(ctx context.Context, made *plan.Plan, live plan.Live, c *capture.Capture, offers whatif.Offers) (*whatif.Outcome, error) {
	commit, notes := CommitOf(made, live, c.Definitions)
	out, err := whatif.Simulate(ctx, c, commit, offers)
	if err != nil {
		return nil, err
	}
	out.Notes = append(out.Notes, notes...)
	return out, nil
}

// CommitOf is what a Plan comes to: the definitions that are there once it is in force, and the
// NodeClaims that it touches. The notes say of which nodes it cannot be told.
func CommitOf(made *plan.Plan, live plan.Live, definitions []map[string]any) (whatif.Commit, []string) {
	commit, notes := whatif.Commit{Touched: map[types.UID]bool{}}, []string(nil)
	written, gone := map[render.Ref]*unstructured.Unstructured{}, map[render.Ref]bool{}
	for i := range made.Changes {
		change := &made.Changes[i]
		if change.Err != nil || change.Action == plan.Drifted || change.Action == plan.None {
			continue
		}
		written[change.Ref] = cmp.Or(change.Wanted(), change.Object.Desired)
		if change.Effect != plan.EffectReplace && change.Effect != plan.EffectDrain {
			continue
		}
		for _, uid := range change.NodeClaims() {
			commit.Touched[uid] = true
		}
		if more := change.Nodes - len(change.NodeClaims()); change.UpTo && more > 0 {
			notes = append(notes, fmt.Sprintf("%s: up to %d more nodes are replaced, nobody can say which; their pods are not moved here", change.Ref, more))
		}
	}
	for _, candidate := range made.Removals {
		gone[candidate.Ref] = true
	}
	for i := range live.NodeClaims {
		claim := &live.NodeClaims[i]
		if gone[render.Ref{Kind: render.NodePool, Name: claim.Pool}] {
			commit.Touched[claim.UID] = true
		}
	}
	commit.Definitions = after(definitions, written, gone)
	return commit, notes
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
	return whatif.WithStatus(desired, status)
}
