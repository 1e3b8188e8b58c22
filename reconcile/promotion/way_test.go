package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/promotion"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWay: a pull request shows which ring takes it when, as far as records show how long rollouts take.
func TestWay(t *testing.T) {
	measured := promotion.Records{}
	for cluster, nodes := range map[string]int{"dev": 3, "qa": 40, "eu": 1000, "us": 200} {
		v := verdict("a", promotion.Succeeded, nodes/3, 10*time.Hour)
		v.Took, v.Effect.Of = int64(nodes), nodes // a third of the nodes, at 3 s for each node
		measured[of(cluster)] = promotion.Standing{Record: &promotion.Record{Cluster: cluster, NodeSync: cluster, At: now, Verdicts: []promotion.Verdict{v}}}
	}
	image := promotion.Effect{Kind: promotion.KindImage, Nodes: 40, Of: 40}
	prod := func(more string) string {
		return strings.Replace(fleetFile, "shortSoak: 2h}", "shortSoak: 2h, "+more+"}", 1)
	}
	for name, c := range map[string]struct {
		file    string
		records promotion.Records
		effect  promotion.Effect
		floor   promotion.Floor
		want    string
	}{
		"nothing is known": {
			fleetFile, nil, image,
			promotion.Floor{},
			"rings: canary at once → staging after 1h → prod after 24h; soaks and windows take 25h, and rollouts come on top",
		},
		"rollouts were measured": {
			fleetFile, measured, image,
			promotion.Floor{},
			"rings: canary at once (3 nodes) → staging after 1h (40 nodes) → prod after 24h (1,200 nodes); over about 26h after a merge now if nothing stops it",
		},
		"no node": {
			fleetFile, measured,
			promotion.Effect{Of: 40},
			promotion.Floor{},
			"rings: canary at once (3 nodes) → staging at once (40 nodes) → prod at once (1,200 nodes); over about 0s after a merge now if nothing stops it",
		},
		"the floor of the NodeSync": {
			fleetFile, nil,
			promotion.Effect{Of: 40},
			promotion.Floor{Ring: "prod", MinSoak: 3 * time.Hour},
			"rings: canary at once → staging at once → prod after 3h; soaks and windows take 3h, and rollouts come on top",
		},
		"a window, one cluster at a time": {
			prod(`maxClusters: 1, windows: [{schedule: "0 10 * * *", duration: 1h}]`), nil,
			promotion.Effect{Of: 40},
			promotion.Floor{},
			"rings: canary at once → staging at once → prod in 2 steps at once; soaks and windows take 22h, and rollouts come on top",
		},
		"a ring that is paused": {
			prod("paused: incident 42"), measured, image,
			promotion.Floor{},
			"rings: canary at once (3 nodes) → staging after 1h (40 nodes) → prod, which is paused: incident 42 (1,200 nodes)",
		},
	} {
		way := promotion.WayOf(parse(t, c.file), c.records, nil, "", c.effect, c.floor, now)
		if got := way.Words(now); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

// TestEffectOf: only a change of an EC2NodeClass's AMI by a commit needs the long soak whatever its nodes.
func TestEffectOf(t *testing.T) {
	change := func(kind, path string, drift bool) plan.Change {
		return plan.Change{Ref: render.Ref{Kind: kind, Name: "x"}, Fields: []plan.Field{{Path: path}}, Drift: drift}
	}
	for name, c := range map[string]struct {
		of   plan.Change
		want bool
	}{
		"an alias":       {change(render.EC2NodeClass, "spec.amiSelectorTerms[0].alias", false), true},
		"the family":     {change(render.EC2NodeClass, "spec.amiFamily", false), true},
		"its correction": {change(render.EC2NodeClass, "spec.amiSelectorTerms[0].alias", true), false},
		"user data":      {change(render.EC2NodeClass, "spec.userData", false), false},
		"a NodePool":     {change(render.NodePool, "spec.amiSelectorTerms", false), false},
	} {
		if got := promotion.EffectOf(&plan.Plan{Changes: []plan.Change{c.of}}, plan.Live{}, nil, nil).Kind == promotion.KindImage; got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	version := func(before, after string) promotion.Effect {
		return promotion.EffectOf(nil, plan.Live{}, &v1alpha1.KarpenterStatus{Version: before}, &render.Karpenter{Version: after})
	}
	for before, after := range map[string]string{"": "1.15.0", "1.15.0": "", "v1.15.0": "1.15.0"} {
		if got := version(before, after); got != (promotion.Effect{}) {
			t.Errorf("from %q to %q: %+v", before, after, got)
		}
	}
	if got := version("1.14.3", "v1.15.0"); got.Kind != promotion.KindKarpenter {
		t.Errorf("an upgrade: %+v", got)
	}
}
