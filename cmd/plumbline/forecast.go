package main

import (
	"context"
	"fmt"
	"io"

	"github.com/dustin/go-humanize/english"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/karpenter"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/preview"
	"github.com/plumbline-dev/plumbline/render"
)

// upgradeForecast is what a change of Karpenter's version does to the nodes that
// are there.
type upgradeForecast struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Refused is why it is not made, where the plan does not say so by itself.
	Refused string         `json:"refused,omitempty"`
	Pools   []poolForecast `json:"pools"`
	// Warnings are what could not be looked at.
	Warnings []string `json:"warnings,omitempty"`
}

// poolForecast is one NodePool's, with any owner: its nodes have one controller.
type poolForecast struct {
	karpenter.Effect
	Nodes int    `json:"nodes"`
	Means string `json:"means"`
}

// String is a line of a report.
func (p poolForecast) String() string {
	return fmt.Sprintf("%s (%s): %s", p.Pool, english.Plural(p.Nodes, "node", ""), oneLine(p.Means))
}

// forecast looks at what an upgrade does to nodes, where the version in force is
// another one and ours to change. known are the CRDs of a version whose charts are out of
// reach.
func (p *planned) forecast(ctx context.Context, c client.Client, sync *v1alpha1.NodeSync, seen *preview.Preview, known func(version string) ([]*apiextensionsv1.CustomResourceDefinition, error)) error {
	if !upgrades(sync, seen.Karpenter) {
		return nil
	}
	f := &upgradeForecast{From: sync.Status.Karpenter.Version, To: seen.Karpenter.Version}
	if err := karpenter.CheckHop(f.From, f.To); err != nil && p.stopped == "" && p.chartsRefused == "" {
		f.Refused = err.Error()
	}
	old, err := liveCRDs(ctx, c)
	if err != nil {
		return err
	}
	next, err := known(f.To)
	if seen.Charts != nil {
		next, err = seen.Charts.CRDs(ctx)
	}
	if err != nil {
		f.Warnings = append(f.Warnings, noCRDs(f.To, err))
	}
	f.Pools, err = forecastPools(karpenter.Upgrade{From: f.From, To: f.To, Old: old, New: next}, seen.Live)
	p.upgrade = f
	return err
}

// upgrades says whether Git has another version of Karpenter than the one in force,
// and it is ours to bring.
func upgrades(sync *v1alpha1.NodeSync, git *render.Karpenter) bool {
	inForce := sync.Status.Karpenter
	return git.Management == render.Managed && inForce != nil && inForce.Version != "" && inForce.Version != git.Version
}

// noCRDs says what is not known without the CRDs of a version.
func noCRDs(version string, err error) string {
	return fmt.Sprintf("the CRDs of Karpenter %s are unavailable, so definitions are checked against others, and defaults that differ are not known: %v", version, err)
}

// forecastPools says of each live NodePool what becomes of its nodes, by name.
func forecastPools(u karpenter.Upgrade, live plan.Live) ([]poolForecast, error) {
	u.Classes, u.Pools = live.OfKind(render.EC2NodeClass), live.OfKind(render.NodePool)
	effects, err := karpenter.Effects(u)
	if err != nil {
		return nil, err
	}
	nodes := map[string]int{}
	for i := range live.NodeClaims {
		nodes[live.NodeClaims[i].Pool]++
	}
	pools := []poolForecast{}
	for _, effect := range effects {
		pools = append(pools, poolForecast{Effect: effect, Nodes: nodes[effect.Pool], Means: effect.String()})
	}
	return pools, nil
}

// print shows a line for each pool.
func (f *upgradeForecast) print(out io.Writer) {
	fmt.Fprintf(out, "Karpenter %s → %s\n", f.From, f.To)
	if f.Refused != "" {
		fmt.Fprintln(out, "refused: "+f.Refused)
	}
	if len(f.Pools) > 0 {
		t := newFittedTable(out, "POOL", "NODES", "THE UPGRADE LEAVES THEM")
		for _, pool := range f.Pools {
			t.AppendRow([]any{pool.Pool, pool.Nodes, oneLine(pool.Means)})
		}
		t.Render()
	}
	for _, warning := range f.Warnings {
		fmt.Fprintln(out, "warning: "+oneLine(warning))
	}
}
