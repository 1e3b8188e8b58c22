package plan_test

import (
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestMadeByFollowsTheClass: what was found of a NodePool counts with the very class that it was found with.
func TestMadeByFollowsTheClass(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, pool("a", "default"), class("default"))
	of := plan.NewObject(c.Object(poolRef("a")))
	ref := render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	with := func(object *plan.Object) string { return plan.MadeBy(of, map[render.Ref]*plan.Object{ref: object}) }
	first := plan.NewObject(c.Object(ref))
	before := with(first)
	if before == "" || with(first) != before {
		t.Errorf("%q, then %q", before, with(first))
	}
	c.have(t, owner, pool("a", "default"), class("default", "userData: hello"))
	if after := with(plan.NewObject(c.Object(ref))); after == before {
		t.Errorf("%q with another class, too", after)
	}
	if without := plan.MadeBy(of, nil); without == before || without == "" {
		t.Errorf("%q without a class", without)
	}
	if again := with(first); again != before {
		t.Errorf("%q with the first class again, want %q", again, before)
	}
}
