package plan_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/plumbline-dev/plumbline/internal/property"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// world is a random cluster, repository and policy.
type world struct {
	set    *render.Set
	live   plan.Live
	policy plan.Policy
}

func names(t *rapid.T, what string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), 0, 5, rapid.ID[string]).Draw(t, what)
}

func newWorld(t *rapid.T, server *applytest.Server) world {
	server.Reset()
	w := world{set: &render.Set{Revision: "main@sha1:new"}}
	for _, name := range names(t, "pools in Git") {
		w.set.Objects = append(w.set.Objects, server.Definition(t, pool(name, "default")))
	}
	// Make never gets an empty Set.
	w.set.Objects = append(w.set.Objects, server.Definition(t, class("default")))
	for _, name := range names(t, "pools in the cluster") {
		w.have(t, server, pool(name, "default"))
	}
	for _, name := range names(t, "classes in the cluster") {
		w.have(t, server, class(name))
	}
	w.live.Objects = plan.NewObjects(server.Objects())
	refs := slices.SortedFunc(maps.Keys(w.live.Objects), func(a, b render.Ref) int { return strings.Compare(a.String(), b.String()) })
	for _, ref := range refs {
		if object := w.live.Objects[ref]; rapid.Bool().Draw(t, "recorded") {
			w.live.Removals = append(w.live.Removals, v1alpha1.Removal{
				Kind: ref.Kind, Name: ref.Name, UID: object.GetUID(),
				Revision: rapid.SampledFrom([]string{"r1", "r2", plan.RevisionDeleted}).Draw(t, "revision"),
				Phase:    rapid.SampledFrom([]v1alpha1.RemovalPhase{v1alpha1.RemovalHeld, v1alpha1.RemovalPacing, v1alpha1.RemovalDraining}).Draw(t, "phase"),
				Reason:   rapid.SampledFrom([]string{"", v1alpha1.ReasonStatusLost}).Draw(t, "reason"),
			})
		}
	}
	limit := rapid.Int32Range(0, 4).Draw(t, "limit")
	w.policy = plan.Policy{
		Owner: owner, OtherSyncs: []plan.OtherSync{otherSync(t)}, NewRevision: true,
		Adopt:      v1alpha1.AdoptIfIdentical,
		Guard:      v1alpha1.Guard{MaxRemovedPools: &limit, AllowLastPool: rapid.Bool().Draw(t, "last pool")},
		StatusLost: rapid.Bool().Draw(t, "status lost"),
		Released:   map[types.UID]bool{},
	}
	return w
}

// otherSync returns the other NodeSync, with known or unknown content.
func otherSync(t *rapid.T) plan.OtherSync {
	o := plan.OtherSync{Owner: other, Known: rapid.Bool().Draw(t, "known"), Awaited: rapid.Bool().Draw(t, "awaited"), Entries: map[render.Ref]bool{}}
	for _, name := range names(t, "pools of the other") {
		o.Entries[poolRef(name)] = true
	}
	return o
}

// have adds an object of a random owner to the cluster.
func (w *world) have(t *rapid.T, server *applytest.Server, text string) {
	object := server.Definition(t, text).Desired
	by := rapid.SampledFrom([]plan.Owner{owner, owner, owner, other, {}}).Draw(t, "owner")
	if label, _ := by.Label(); by != (plan.Owner{}) {
		object.SetLabels(map[string]string{v1alpha1.OwnerLabel: label})
	}
	manager := rapid.SampledFrom([]string{v1alpha1.FieldManager, v1alpha1.FieldManager, "kubectl"}).Draw(t, "manager")
	if err := server.ApplyAs(t.Context(), object, manager, true); err != nil {
		t.Fatal(err)
	}
}

func (w *world) plan(t *rapid.T, server *applytest.Server) *plan.Plan {
	p, err := plan.Make(t.Context(), w.set, w.live, w.policy, server)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNothingGoesBeyondTheGuard: whatever Git and the cluster contain, a removal is of our objects that are not in Git,
// and within the guard's limits.
func TestNothingGoesBeyondTheGuard(t *testing.T) {
	server := applytest.New(t)
	property.Check(t, func(t *rapid.T) {
		w := newWorld(t, server)
		p := w.plan(t, server)
		inGit, poolsInGit := map[render.Ref]bool{}, 0
		for _, object := range w.set.Objects {
			inGit[object.Ref] = true
			if object.Ref.Kind == render.NodePool {
				poolsInGit++
			}
		}
		leaving, started, drained := 0, 0, map[types.UID]bool{}
		for _, r := range w.live.Removals {
			if drained[r.UID] = r.Revision == plan.RevisionDeleted; drained[r.UID] {
				continue // no commit removed it
			}
			back := slices.ContainsFunc(p.Returned, func(b v1alpha1.Removal) bool { return b.UID == r.UID })
			if r.Kind == render.NodePool && r.Phase == v1alpha1.RemovalDraining && !back {
				leaving++
			}
		}
		for _, c := range p.Removals {
			object := w.live.Objects[c.Ref]
			ours := owner.Owns(object) && plan.Applied(object.Unstructured)
			if inGit[c.Ref] || !ours && (!c.Held || c.Reason != plan.ReasonLabelChanged) {
				t.Fatalf("%s is not ours to take", c.Ref)
			}
			if !ours {
				continue
			}
			if o := w.policy.OtherSyncs[0]; o.Known && o.Entries[c.Ref] || !o.Known && o.Awaited {
				t.Fatalf("%s goes though another NodeSync has it, or may have it", c.Ref)
			}
			if c.Held {
				if c.Reason == "" || c.Message == "" {
					t.Fatalf("%s is held without a word", c.Ref)
				}
				continue
			}
			if c.Queued {
				continue
			}
			if w.policy.StatusLost && (!c.Recorded || drained[c.UID]) {
				t.Fatalf("%s goes though the status is lost", c.Ref)
			}
			if c.Ref.Kind == render.NodePool {
				started++
			}
		}
		if started > 0 && leaving+started > int(*w.policy.Guard.MaxRemovedPools) {
			t.Fatalf("%d are leaving, %d more may go, the limit is %d", leaving, started, *w.policy.Guard.MaxRemovedPools)
		}
		if started > 0 && poolsInGit == 0 && !w.policy.Guard.AllowLastPool {
			t.Fatal("the last pool goes")
		}
	})
}

// TestAPlanDoesNotHangOnOrder: the order of the Set and of maps changes nothing, and Changes are in the order of their
// Stages.
func TestAPlanDoesNotHangOnOrder(t *testing.T) {
	server := applytest.New(t)
	property.Check(t, func(t *rapid.T) {
		w := newWorld(t, server)
		first := w.plan(t, server)
		w.set.Objects = rapid.Permutation(w.set.Objects).Draw(t, "objects")
		again := w.plan(t, server)
		if diff := cmp.Diff(script(first), script(again)); diff != "" {
			t.Fatalf("another plan:\n%s", diff)
		}
		if first.Digest != again.Digest {
			t.Fatalf("another digest: %s and %s", first.Digest, again.Digest)
		}
		for i := 1; i < len(first.Changes); i++ {
			if first.Changes[i-1].Ref.Kind == render.NodePool && first.Changes[i].Ref.Kind == render.EC2NodeClass {
				t.Fatalf("%s stands before %s", first.Changes[i-1].Ref, first.Changes[i].Ref)
			}
		}
	})
}

func TestTheDigestNamesWhatWouldBeDone(t *testing.T) {
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
	digests := map[string]string{}
	for name, git := range map[string][]string{
		"nothing":       {class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default")},
		"one goes":      {class("default"), pool("a", "default"), pool("b", "default")},
		"another goes":  {class("default"), pool("a", "default"), pool("c", "default")},
		"two are held":  {class("default"), pool("a", "default")},
		"a limit":       {class("default"), pool("a", "default", "limits: {cpu: 1}"), pool("b", "default"), pool("c", "default")},
		"another limit": {class("default"), pool("a", "default", "limits: {cpu: 2}"), pool("b", "default"), pool("c", "default")},
		"an arrival":    {class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"), pool("d", "default")},
	} {
		digest := c.plan(t, git...).Digest
		if twin, taken := digests[digest]; taken {
			t.Errorf("%q and %q have one digest", name, twin)
		}
		digests[digest] = name
	}
}

// TestTheDigestNamesNodesAndTheirGuard: an approved Digest covers exactly these nodes, this guard and this Karpenter.
func TestTheDigestNamesNodesAndTheirGuard(t *testing.T) {
	three := int32(3)
	git := []string{class("default", "tags: {team: b}"), pool("a", "default")}
	for name, c := range map[string]struct {
		change func(*testing.T, *drawnCluster)
		same   bool
	}{
		"a label by hand": {same: true, change: func(t *testing.T, c *drawnCluster) {
			c.Edit(t, poolRef("a"), "kubectl-label", func(o *unstructured.Unstructured) {
				o.SetAnnotations(map[string]string{"note": "nothing to us"})
			})
		}},
		"a node of nobody's": {same: true, change: func(_ *testing.T, c *drawnCluster) {
			c.live.NodeClaims = append(c.live.NodeClaims, plan.NodeClaim{Name: "o-1", UID: "o-1", Pool: "other", Class: "other"})
		}},
		"other names of the same nodes": {same: true, change: func(_ *testing.T, c *drawnCluster) { slices.Reverse(c.live.NodeClaims) }},
		"one more node of what leaves": {change: func(_ *testing.T, c *drawnCluster) {
			c.live.NodeClaims = append(c.live.NodeClaims, plan.NodeClaim{Name: "b-9", UID: "b-9", Pool: "b", Class: "default"})
		}},
		"another node in place of one": {change: func(_ *testing.T, c *drawnCluster) { c.live.NodeClaims[2].UID = "new" }},
		"one more node of what is changed": {change: func(_ *testing.T, c *drawnCluster) {
			c.live.NodeClaims = append(c.live.NodeClaims, plan.NodeClaim{Name: "a-9", UID: "a-9", Pool: "a", Class: "default"})
		}},
		"the guard":            {change: func(_ *testing.T, c *drawnCluster) { c.policy.Guard.MaxRemovedPools = &three }},
		"what a person let go": {change: func(_ *testing.T, c *drawnCluster) { c.policy.Released = map[types.UID]bool{"x": true} }},
		"Karpenter":            {change: func(_ *testing.T, c *drawnCluster) { c.policy.Karpenter = &render.Karpenter{Version: "1.14.1"} }},
		"values of Karpenter": {change: func(_ *testing.T, c *drawnCluster) {
			c.policy.Karpenter = &render.Karpenter{Values: map[string]any{"replicas": 1}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
			cluster.live.NodeClaims = append(claims("a", 2), claims("b", 2)...)
			before := cluster.plan(t, git...).Digest
			c.change(t, cluster)
			if same := cluster.plan(t, git...).Digest == before; same != c.same {
				t.Errorf("the same digest: %t", same)
			}
		})
	}
}

// TestTheDigestNamesValuesFiles by what they hold: they are no part of plumbline.yaml.
func TestTheDigestNamesValuesFiles(t *testing.T) {
	server := applytest.New(t)
	digest := func(content string, values ...map[string]any) string {
		set := &render.Set{Objects: []render.Object{server.Definition(t, class("default"))}, Inputs: render.Inputs{"prod/values.yaml": content}}
		policy := plan.Policy{Offline: true, Karpenter: &render.Karpenter{}, ConfigFile: "prod/plumbline.yaml", FileValues: values}
		p, err := plan.Make(t.Context(), set, plan.Live{}, policy, server)
		if err != nil {
			t.Fatal(err)
		}
		return p.Digest
	}
	one, two := map[string]any{"a": "1"}, map[string]any{"a": "2"}
	if digest("1") != digest("2") || digest("1", one) != digest("2", one) {
		t.Error("a file that decides nothing is named")
	}
	if digest("1", one) == digest("1", two) || digest("1", one, two) == digest("1", two, one) || digest("1") == digest("1", one) {
		t.Error("other values have the same digest")
	}
}
