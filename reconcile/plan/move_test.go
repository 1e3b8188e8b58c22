package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// made returns a NodePool with requirements, such as "kubernetes.io/arch In amd64 arm64", and other fields of its
// template's spec and of its spec.
func made(name, class string, requirements []string, template, spec string) string {
	var list []string
	if !strings.Contains(template, "spec:") {
		template += "\nspec:"
	}
	for _, r := range requirements {
		words := strings.Fields(r)
		list = append(list, fmt.Sprintf("{key: %s, operator: %s, values: [%s]}", words[0], words[1], strings.Join(words[2:], ", ")))
	}
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  %s
  template:
    %s
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
      requirements: [%s]
`, name, spec, strings.ReplaceAll(template, "\n", "\n    "), class, strings.Join(list, ", "))
}

const (
	bothArchs = "kubernetes.io/arch In amd64 arm64"
	amd64     = "kubernetes.io/arch In amd64"
	arm64     = "kubernetes.io/arch In arm64"
)

// TestMoves: if similar NodePools are added while one is removed, it moves to those whose labels and taints allow its
// pods.
func TestMoves(t *testing.T) {
	general := made("general", "default", []string{bothArchs}, "", "")
	for name, c := range map[string]struct {
		from []string
		to   []string
		want string
	}{
		"renamed":                 {to: []string{made("general2", "default", []string{bothArchs}, "", "")}, want: "general→general2"},
		"renamed, with its class": {to: []string{class("own"), made("general2", "own", []string{bothArchs}, "", "")}, want: "general→general2"},
		"another is as near":      {to: []string{made("all", "default", []string{bothArchs}, "", "weight: 3"), made("general2", "default", []string{bothArchs}, "", "")}, want: "general→general2"},
		"by the name":             {to: []string{made("all", "default", []string{bothArchs}, "", ""), made("general-b", "default", []string{bothArchs}, "", "")}, want: "general→general-b"},
		"split by its limits":     {to: []string{made("a", "default", []string{bothArchs}, "", "limits: {cpu: 5}"), made("b", "default", []string{bothArchs}, "", "limits: {cpu: 5}")}, want: "general→a,b"},
		"split by the architecture": {
			to:   []string{made("general-amd64", "default", []string{amd64}, "", ""), made("general-arm64", "default", []string{arm64}, "", "")},
			want: "general→general-amd64,general-arm64",
		},
		"split, one half is missing": {to: []string{made("general-amd64", "default", []string{amd64}, "", "")}, want: "general→"},
		"split, by two labels at once": {
			from: []string{made("general", "default", []string{bothArchs, "topology.kubernetes.io/zone In a b"}, "", "")},
			to: []string{
				made("one", "default", []string{amd64, "topology.kubernetes.io/zone In a"}, "", ""),
				made("two", "default", []string{arm64, "topology.kubernetes.io/zone In b"}, "", ""),
			},
			want: "general→",
		},
		"no architecture was asked for": {
			from: []string{made("general", "default", []string{"karpenter.sh/capacity-type In spot"}, "", "")},
			to:   []string{made("one", "default", []string{amd64}, "", ""), made("two", "default", []string{arm64}, "", "")}, want: "general→one,two",
		},
		"merged": {
			from: []string{made("a", "default", []string{amd64}, "", ""), made("b", "default", []string{arm64}, "", "")},
			to:   []string{general}, want: "a→general b→general",
		},
		"a zone less": {
			from: []string{made("general", "default", []string{"topology.kubernetes.io/zone In a b"}, "", "")},
			to:   []string{made("general2", "default", []string{"topology.kubernetes.io/zone In a"}, "", "")}, want: "general→",
		},
		"zones where there were none": {to: []string{made("general2", "default", []string{bothArchs, "topology.kubernetes.io/zone In a"}, "", "")}, want: "general→"},
		"other families": {
			from: []string{made("general", "default", []string{"karpenter.k8s.aws/instance-family In m6i m7i"}, "", "")},
			to:   []string{made("general2", "default", []string{"karpenter.k8s.aws/instance-family In m7i m8i"}, "", "")}, want: "general→general2",
		},
		"no family in common": {
			from: []string{made("general", "default", []string{"karpenter.k8s.aws/instance-family In m6i"}, "", "")},
			to:   []string{made("general2", "default", []string{"karpenter.k8s.aws/instance-family In g6"}, "", "")}, want: "general→",
		},
		"another label of its nodes": {
			from: []string{made("general", "default", []string{bothArchs}, "metadata: {labels: {team: a}}", "")},
			to:   []string{made("general2", "default", []string{bothArchs}, "metadata: {labels: {team: b}}", "")}, want: "general→",
		},
		"a label of its nodes is missing": {
			from: []string{made("general", "default", []string{bothArchs}, "metadata: {labels: {team: a}}", "")},
			to:   []string{made("general2", "default", []string{bothArchs}, "", "")}, want: "general→",
		},
		"a label more": {to: []string{made("general2", "default", []string{bothArchs}, "metadata: {labels: {team: a}}", "")}, want: "general→general2"},
		"a label that was a requirement": {
			from: []string{made("general", "default", []string{"team In a"}, "", "")},
			to:   []string{made("general2", "default", []string{amd64}, "metadata: {labels: {team: a}}", "")}, want: "general→",
		},
		"a taint more":               {to: []string{made("general2", "default", []string{bothArchs}, "spec:\n  taints: [{key: gpu, value: a, effect: NoSchedule}]", "")}, want: "general→"},
		"a taint that pods may pass": {to: []string{made("general2", "default", []string{bothArchs}, "spec:\n  taints: [{key: gpu, effect: PreferNoSchedule}]", "")}, want: "general→general2"},
		"a startup taint more":       {to: []string{made("general2", "default", []string{bothArchs}, "spec:\n  startupTaints: [{key: agent, effect: NoExecute}]", "")}, want: "general→"},
		"another value of its taint": {
			from: []string{made("general", "default", []string{bothArchs}, "spec:\n  taints: [{key: gpu, value: a, effect: NoSchedule}]", "")},
			to:   []string{made("general2", "default", []string{bothArchs}, "spec:\n  taints: [{key: gpu, value: b, effect: NoSchedule}]", "")}, want: "general→",
		},
		"without its taint": {
			from: []string{made("general", "default", []string{bothArchs}, "spec:\n  taints: [{key: gpu, value: a, effect: NoSchedule}]", "")},
			to:   []string{made("general2", "default", []string{bothArchs}, "", "")}, want: "general→general2",
		},
		"it may not grow": {to: []string{made("general2", "default", []string{bothArchs}, "", "limits: {cpu: 0}")}, want: "general→"},
		"it is static":    {to: []string{made("general2", "default", []string{bothArchs}, "", "replicas: 3")}, want: "general→"},
		"nothing arrives": {to: nil, want: "general→"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			if c.from == nil {
				c.from = []string{general}
			}
			cluster.have(t, owner, append([]string{class("default"), pool("stays", "default")}, c.from...)...)
			if got := moves(cluster.plan(t, append([]string{class("default"), pool("stays", "default")}, c.to...)...)); got != c.want {
				t.Errorf("moves %q, want %q", got, c.want)
			}
		})
	}
}

// moves lists the moves of a Plan's removals.
func moves(p *plan.Plan) string {
	var all []string
	for _, c := range p.Removals {
		all = append(all, c.Ref.Name+"→"+strings.Join(c.MovesTo, ","))
	}
	return strings.Join(all, " ")
}

// TestAPoolThatWasThereIsNoTarget: removing one of two similar pools is a removal.
func TestAPoolThatWasThereIsNoTarget(t *testing.T) {
	c := newCluster(t)
	one, two := made("general", "default", []string{amd64}, "", ""), made("general2", "default", []string{amd64}, "", "")
	c.have(t, owner, class("default"), one, two)
	if got := moves(c.plan(t, class("default"), two)); got != "general→" {
		t.Errorf("moves %q", got)
	}
}

// TestAMoveWaitsForOtherNodeSyncs: the replacement of a pool is found when it is added, and counts once the content of
// the other NodeSyncs is known.
func TestAMoveWaitsForOtherNodeSyncs(t *testing.T) {
	c := newCluster(t)
	one, two := made("general", "default", []string{amd64}, "", ""), made("general2", "default", []string{amd64}, "", "")
	c.have(t, owner, class("default"), one)
	known := c.policy.OtherSyncs
	c.policy.OtherSyncs = []plan.OtherSync{{Owner: other, Awaited: true}}
	for _, arrived := range []bool{false, true} {
		p := c.plan(t, class("default"), two)
		if len(p.Removals) != 0 || len(p.Kept) != 1 || !slices.Equal(p.Kept[0].MovesTo, []string{"general2"}) {
			t.Fatalf("general2 has arrived: %t; removed %+v, kept %+v", arrived, p.Removals, p.Kept)
		}
		c.policy.Moves = map[types.UID][]string{p.Kept[0].UID: p.Kept[0].MovesTo}
		if !arrived {
			c.have(t, owner, two)
		}
	}
	c.policy.OtherSyncs = known
	if got := moves(c.plan(t, class("default"), two)); got != "general→general2" {
		t.Errorf("moves %q", got)
	}
	c.policy.Moves = nil
	if got := moves(c.plan(t, class("default"), two)); got != "general→" {
		t.Errorf("without what was found before it moves %q", got)
	}
}

// TestARevertOfAHeldMoveGoesAhead: the pools that a held commit has added are removed again, if they have no node.
func TestARevertOfAHeldMoveGoesAhead(t *testing.T) {
	old, renamed := []string{class("default")}, []string{class("default")}
	for _, name := range []string{"a", "b", "c"} {
		old, renamed = append(old, made(name, "default", []string{amd64}, "", "")), append(renamed, made(name+"2", "default", []string{amd64}, "", ""))
	}
	for name, test := range map[string]struct {
		nodes int
		// recorded reports whether the removals that the revert starts are recorded, and those of the move no longer
		// are.
		recorded bool
		want     string
	}{
		"at first":                    {want: ""},
		"recorded":                    {recorded: true, want: ""},
		"one of them has nodes":       {nodes: 1, want: ""},
		"one of them has many":        {nodes: 4, want: "MaxDisruptedNodes"},
		"a move that no commit undid": {want: "MaxRemovedPools"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.have(t, owner, append(old, renamed[1:]...)...)
			at := time.Date(2026, 11, 28, 8, 0, 0, 0, time.UTC)
			reverts := name != "a move that no commit undid"
			for _, pool := range []string{"a", "b", "c"} {
				for i, ref := range []render.Ref{poolRef(pool), poolRef(pool + "2")} {
					created := at.Add(time.Duration(i) * time.Minute).Format(time.RFC3339)
					c.edit(t, ref, "kube-apiserver", created, "metadata", "creationTimestamp")
				}
				record := poolRef(pool)
				if test.recorded || !reverts {
					record = poolRef(pool + "2")
				}
				c.removal(record, v1alpha1.RemovalHeld, "main@sha1:old")
				moves := []string{pool + "2"}
				if test.recorded {
					moves = []string{pool}
				}
				if reverts {
					c.live.Removals[len(c.live.Removals)-1].MovesTo = moves
				}
			}
			c.live.NodeClaims = claims("a2", test.nodes)
			p := c.plan(t, old...)
			if len(p.Removals) != 3 {
				t.Fatalf("removes %v", script(p))
			}
			for _, r := range p.Removals {
				want := test.want
				if reverts && r.Ref.Name != "a2" {
					want = ""
				}
				if r.Reason != want {
					t.Errorf("%s is held for %q: %s", r.Ref, r.Reason, r.Message)
				}
			}
		})
	}
}

// TestARecordedMoveIsOne: a recorded move stays one after its target was created, as long as Git contains the target
// and the target can run the pods.
func TestARecordedMoveIsOne(t *testing.T) {
	one, two := made("general", "default", []string{amd64}, "", ""), made("general2", "default", []string{amd64}, "", "weight: 4")
	for name, c := range map[string]struct {
		git  []string
		want string
	}{
		"Git has it":                 {git: []string{two}, want: "general→general2"},
		"one more arrives":           {git: []string{two, made("general3", "default", []string{amd64}, "", "")}, want: "general→general2"},
		"Git has it no more":         {git: []string{pool("stays", "default")}, want: "general→ general2→"},
		"it takes the pods no more":  {git: []string{made("general2", "default", []string{arm64}, "", "")}, want: "general→"},
		"another has taken its part": {git: []string{made("general3", "default", []string{amd64}, "", "weight: 4")}, want: "general→general3 general2→general3"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.have(t, owner, class("default"), one, two)
			cluster.removal(poolRef("general"), v1alpha1.RemovalPacing, "main@sha1:old")
			cluster.live.Removals[0].MovesTo = []string{"general2"}
			if got := moves(cluster.plan(t, append([]string{class("default")}, c.git...)...)); got != c.want {
				t.Errorf("moves %q, want %q", got, c.want)
			}
		})
	}
}

// TestAClassMoves if the NodePools that reference it reference another one in Git, or move to others that do.
func TestAClassMoves(t *testing.T) {
	for name, c := range map[string]struct {
		git  []string
		want string
	}{
		"renamed":                        {git: []string{class("own"), pool("a", "own"), pool("b", "own")}, want: "default→own"},
		"its pools name two":             {git: []string{class("own"), class("more"), pool("a", "own"), pool("b", "more")}, want: "default→more,own"},
		"its pool is renamed as well":    {git: []string{class("own"), pool("c", "own"), pool("b", "own")}, want: "a→c default→own"},
		"its pools leave, too":           {git: []string{class("own"), made("c", "own", []string{"karpenter.sh/capacity-type In reserved"}, "", "")}, want: "a→ b→ default→"},
		"a pool of Git names it, it has": {git: []string{class("own"), pool("a", "default"), pool("b", "own")}, want: "default→own"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			cluster.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"))
			if got := moves(cluster.plan(t, c.git...)); got != c.want {
				t.Errorf("moves %q, want %q", got, c.want)
			}
		})
	}
}

// TestAMoveIsWeighedAsARemoval: it counts for guard.maxRemovedPools and guard.maxDisruptedNodes; a move of the last
// pool is no removal of the last pool.
func TestAMoveIsWeighedAsARemoval(t *testing.T) {
	for name, c := range map[string]struct {
		pools int
		nodes int
		want  []string
	}{
		"the only pool":       {pools: 1, nodes: 2, want: []string{"Remove NodePool/pool0"}},
		"two pools at a time": {pools: 2, nodes: 1, want: []string{"Hold NodePool/pool0 MaxRemovedPools", "Hold NodePool/pool1 MaxRemovedPools"}},
		"a large pool":        {pools: 1, nodes: 9, want: []string{"Hold NodePool/pool0 MaxDisruptedNodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(t)
			before, after := []string{class("default")}, []string{class("default")}
			for i := range c.pools {
				before = append(before, pool(fmt.Sprintf("pool%d", i), "default"))
				after = append(after, pool(fmt.Sprintf("pool%d-b", i), "default"))
				cluster.live.NodeClaims = append(cluster.live.NodeClaims, claimsOf(fmt.Sprintf("pool%d", i), c.nodes)...)
			}
			cluster.have(t, owner, before...)
			p := cluster.plan(t, after...)
			var got []string
			for _, r := range p.Removals {
				if len(r.MovesTo) != 1 {
					t.Errorf("%s moves to %q", r.Ref, r.MovesTo)
				}
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s", map[bool]string{true: "Hold", false: "Remove"}[r.Held], r.Ref, r.Reason)))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("removals (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheDigestCoversAMove: an approval includes where the nodes move.
func TestTheDigestCoversAMove(t *testing.T) {
	digest := func(movesTo ...string) string {
		c := newCluster(t)
		one, two := made("general", "default", []string{amd64}, "", ""), made("general2", "default", []string{amd64}, "", "")
		c.have(t, owner, class("default"), one, two)
		c.removal(poolRef("general"), v1alpha1.RemovalPacing, "main@sha1:old")
		c.live.Removals[0].MovesTo = movesTo
		return c.plan(t, class("default"), two).Digest
	}
	if digest() == digest("general2") {
		t.Error("the digest of a move is that of a removal")
	}
}

func claimsOf(pool string, n int) []plan.NodeClaim {
	var all []plan.NodeClaim
	for i := range n {
		name := fmt.Sprintf("%s-%d", pool, i)
		all = append(all, plan.NodeClaim{Name: name, UID: types.UID(name), Pool: pool, Class: "default"})
	}
	return all
}
