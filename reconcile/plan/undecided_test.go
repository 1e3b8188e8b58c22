package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestADrainThatIsOver: pools of which a drain has terminated nodes, and that are not in Git, are checked as if they
// had just been removed: setting drain and reverting it does not bypass the guard. A removal that a commit has started
// continues.
func TestADrainThatIsOver(t *testing.T) {
	definitions := []string{class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default")}
	asItIs := func(*drawnCluster) {}
	for name, test := range map[string]struct {
		git      []string
		revision string
		change   func(*drawnCluster)
		want     []string
	}{
		"Git has all":       {definitions, plan.RevisionDeleted, asItIs, []string{"TakeBack NodePool/a Returned", "TakeBack NodePool/b Returned", "Returned NodePool/a", "Returned NodePool/b"}},
		"Git lacks one":     {without(definitions, 1), plan.RevisionDeleted, asItIs, []string{"TakeBack NodePool/b Returned", "Remove NodePool/a", "Returned NodePool/b"}},
		"Git lacks two":     {without(definitions, 1, 2), plan.RevisionDeleted, asItIs, []string{"Hold NodePool/a MaxRemovedPools", "Hold NodePool/b MaxRemovedPools"}},
		"a commit had":      {without(definitions, 1, 2), "main@sha1:old", asItIs, []string{}},
		"the status lost":   {without(definitions, 1), plan.RevisionDeleted, func(c *drawnCluster) { c.policy.StatusLost = true }, []string{"TakeBack NodePool/b Returned", "Hold NodePool/a StatusLost", "Returned NodePool/b"}},
		"HEAD is older":     {without(definitions, 1), plan.RevisionDeleted, func(c *drawnCluster) { c.policy.BranchReset = true }, []string{"TakeBack NodePool/b Returned", "Hold NodePool/a OlderRevision", "Returned NodePool/b"}},
		"too many nodes":    {without(definitions, 1), plan.RevisionDeleted, func(c *drawnCluster) { c.live.NodeClaims = claims("a", 8) }, []string{"TakeBack NodePool/b Returned", "Hold NodePool/a MaxDisruptedNodes", "Returned NodePool/b"}},
		"another may have":  {without(definitions, 1), plan.RevisionDeleted, func(c *drawnCluster) { c.policy.OtherSyncs[0].Awaited = true }, []string{"TakeBack NodePool/b Returned", "Await NodePool/a by plumbline-system/other", "Returned NodePool/b"}},
		"left to itself":    {without(definitions, 1), plan.RevisionDeleted, func(c *drawnCluster) { c.policy.Orphans = true }, []string{"TakeBack NodePool/b Returned", "Hold NodePool/a Orphan", "Returned NodePool/b"}},
		"deleted with them": {nil, plan.RevisionDeleted, func(c *drawnCluster) { c.policy.Deleting = true }, []string{"Remove NodePool/c", "Remove EC2NodeClass/default"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, definitions...)
			c.removal(poolRef("a"), v1alpha1.RemovalDraining, test.revision)
			c.removal(poolRef("b"), v1alpha1.RemovalVerifyingCloud, test.revision)
			c.live.NodeClaims = claims("a", 2)
			test.change(c)
			p := c.plan(t, test.git...)
			if diff := cmp.Diff(test.want, script(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for i := range p.Changes {
				if want := "is reverted: Karpenter may launch its nodes again"; !strings.HasSuffix(p.Changes[i].Message, want) {
					t.Errorf("%s: %s", p.Changes[i].Ref, p.Changes[i].Message)
				}
			}
			for _, r := range p.Removals {
				if deletes := c.policy.Deleting; (r.Revision == plan.RevisionDeleted) != deletes {
					t.Errorf("%s has left with %s", r.Ref, r.Revision)
				}
			}
		})
	}
}

// without omits some of the definitions.
func without(definitions []string, out ...int) []string {
	var left []string
	for i, d := range definitions {
		if !slices.Contains(out, i) {
			left = append(left, d)
		}
	}
	return left
}

// TestADrainTakesOverWhatIsHeld: the nodes of a held pool terminate, too; afterwards no commit is recorded as its
// cause. A class that was being removed stays, unless it is terminating.
func TestADrainTakesOverWhatIsHeld(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), class("old"), pool("a", "default"), pool("b", "default"))
	c.removal(poolRef("a"), v1alpha1.RemovalHeld, "main@sha1:old")
	c.removal(poolRef("b"), v1alpha1.RemovalPacing, "main@sha1:old")
	c.removal(classRef("old"), v1alpha1.RemovalDraining, "main@sha1:old")
	c.policy.Deleting, c.policy.Keeps = true, true
	p := c.plan(t)
	if diff := cmp.Diff([]string{"Remove NodePool/b", "Remove NodePool/a", "Returned EC2NodeClass/old"}, script(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	revisions := map[types.UID]string{}
	for _, r := range p.Removals {
		revisions[r.UID] = r.Revision
	}
	want := map[types.UID]string{c.Object(poolRef("a")).GetUID(): plan.RevisionDeleted, c.Object(poolRef("b")).GetUID(): "main@sha1:old"}
	if diff := cmp.Diff(want, revisions); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
	c.Terminate(classRef("old"))
	if diff := cmp.Diff([]string{"Remove NodePool/b", "Remove NodePool/a"}, script(c.plan(t))); diff != "" {
		t.Errorf("the class is being deleted (-want +got):\n%s", diff)
	}
}

// TestAPoolThatWasDrainedCanBecomeAnother: an immutable object is recreated once that terminates no node.
func TestAPoolThatWasDrainedCanBecomeAnother(t *testing.T) {
	for name, test := range map[string]struct {
		nodes int
		want  string
	}{
		"no node is left":   {0, "Wait NodePool/a Recreated"},
		"some are, as well": {2, "Refuse NodePool/a Immutable"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, class("default"), pool("a", "default"))
			c.removal(poolRef("a"), v1alpha1.RemovalDraining, plan.RevisionDeleted)
			c.live.NodeClaims = claims("a", test.nodes)
			lines := script(c.plan(t, class("default"), pool("a", "default", "replicas: 1")))
			if !strings.HasPrefix(lines[0], test.want) {
				t.Errorf("want %s, got %v", test.want, lines)
			}
		})
	}
}
