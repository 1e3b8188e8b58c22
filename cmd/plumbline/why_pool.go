package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// poolReport is what keeps a NodePool that leaves.
type poolReport struct {
	// NodeSync is the one that removes it.
	NodeSync string `json:"nodeSync"`

	v1alpha1.Removal `json:",inline"`
}

// glassOf are the commands for a node, by its name or its NodeClaim's.
func (r poolReport) glassOf(node, claim string) []v1alpha1.BreakGlass {
	return slices.DeleteFunc(slices.Clone(r.BreakGlass), func(g v1alpha1.BreakGlass) bool {
		return g.Node == "" || g.Node != node && g.Node != claim
	})
}

// removalsOf are the removals of a NodePool.
func removalsOf(ctx context.Context, c *cluster, pool string) ([]poolReport, error) {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, syncs, client.InNamespace(c.in(ctx))); err != nil {
		return nil, explain(err, "list NodeSyncs")
	}
	var found []poolReport
	for i := range syncs.Items {
		for _, removal := range syncs.Items[i].Status.Removals {
			if removal.Kind == render.NodePool && removal.Name == pool {
				found = append(found, poolReport{NodeSync: syncs.Items[i].Name, Removal: removal})
			}
		}
	}
	return found, nil
}

// poolNamed is the NodePool that an argument names as kind/name; false where it names another kind.
func poolNamed(arg string) (name string, is bool) {
	ref, err := refOfArgument(arg)
	return ref.Name, err == nil && ref.Kind == render.NodePool
}

// whyPool prints what keeps a NodePool that leaves.
func whyPool(ctx context.Context, c *cluster, name string, out io.Writer, output *format) error {
	removals, err := removalsOf(ctx, c, name)
	switch {
	case err != nil:
		return err
	case len(removals) == 0:
		kind, _ := render.KindOf(render.NodePool)
		pools, err := definitionsOf(ctx, c, kind)
		if err == nil && !slices.ContainsFunc(pools, func(o unstructured.Unstructured) bool { return o.GetName() == name }) {
			return fmt.Errorf("NodePool/%s not found", name)
		}
		return fmt.Errorf("no NodeSync in %s removes NodePool/%s, or ends its nodes: see plumbline why NODE of one of them", c.in(ctx), name)
	}
	return output.write(out, removals[0], func(out io.Writer) error {
		removals[0].print(&visibleWriter{out}, time.Now())
		return nil
	})
}

// print shows it to people.
func (r poolReport) print(out io.Writer, now time.Time) {
	fmt.Fprintf(out, "%s leaves by nodesync/%s: %s, %s\n\n", plan.Moved("NodePool/"+r.Name, r.MovesTo), r.NodeSync, summary.PhaseWord(r.Removal), english.Plural(int(r.Remaining), "node left", "nodes left"))
	fmt.Fprintf(out, "kept by     %s\n", summary.WaitsFor(r.Removal, now))
	if r.Revision != "" {
		fmt.Fprintf(out, "commit      %s, the first one without the pool\n", render.ShortRevision(r.Revision))
	}
	for _, g := range r.BreakGlass {
		fmt.Fprintf(out, "at your own risk   %s, %s: %s (%s)\n", g.Node, g.Cause, g.Command, g.Risk)
	}
}
