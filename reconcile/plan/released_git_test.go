package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestAReleaseEndsInGit: Git contains the object again, so the release of its removal has expired.
func TestAReleaseEndsInGit(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
	here, gone := c.Object(poolRef("a")).GetUID(), c.Object(poolRef("b")).GetUID()
	c.policy.BranchReset, c.policy.Released = true, map[types.UID]bool{here: true, gone: true}
	p := c.plan(t, class("default"), pool("a", "default"))
	if diff := cmp.Diff([]plan.Used{{Ref: poolRef("a"), UID: here}}, p.Used); diff != "" {
		t.Errorf("used (-want +got):\n%s", diff)
	}
	c.policy.Released, c.policy.UsedUp = nil, map[types.UID]bool{gone: true}
	p = c.plan(t, class("default"), pool("a", "default"))
	want := "remove " + string(gone) + " from the annotation plumbline.dev/remove of the NodeSync"
	if len(p.Removals) != 1 || !strings.Contains(p.Removals[0].Message, want) {
		t.Errorf("removals: %+v\nwant %q", p.Removals, want)
	}
}
