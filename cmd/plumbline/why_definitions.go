package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/cmd/plumbline/display"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
	"github.com/plumbline-dev/plumbline/render"
)

// withoutKind removes the kind from a name as `kubectl get -o name` prints it.
func withoutKind(arg string) string {
	kind, name, typed := strings.Cut(arg, "/")
	if typed && slices.Contains([]string{"node", "nodes", "nodeclaim", "nodeclaims", "nodeclaim.karpenter.sh", "nodeclaims.karpenter.sh"}, strings.ToLower(kind)) {
		return name
	}
	return arg
}

// classNamed returns the class that an argument names as kind/name; false if it names another kind.
func classNamed(arg string) (name string, is bool) {
	ref, err := refOfArgument(arg)
	return ref.Name, err == nil && ref.Kind == render.EC2NodeClass
}

// whyClass prints what blocks the deletion of a class, and the commit that resolves it.
func whyClass(ctx context.Context, c *clusterAccess, name string, out io.Writer, output *format) error {
	report, err := classOf(ctx, c, name)
	if err != nil {
		return err
	}
	return output.write(out, report, func(out io.Writer) error {
		printClass(&display.Visible{Writer: out}, report)
		return nil
	})
}

// classOf reads what references a class that is being deleted.
func classOf(ctx context.Context, c *clusterAccess, name string) (*summary.ClassReport, error) {
	classKind, _ := render.KindOf(render.EC2NodeClass)
	poolKind, _ := render.KindOf(render.NodePool)
	classes, err := definitionsOf(ctx, c, classKind)
	if err != nil {
		return nil, err
	}
	pools, err := definitionsOf(ctx, c, poolKind)
	if err != nil {
		return nil, err
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.List(ctx, claims); err != nil && !apimeta.IsNoMatchError(err) {
		return nil, explain(err, "list NodeClaims")
	}
	return summary.ClassReportOf(name, classes, pools, claims.Items)
}

func printClass(out io.Writer, r *summary.ClassReport) {
	fmt.Fprintf(out, "%s was deleted %s ago, and %s it: Karpenter launches no node from it, and the deletion cannot be undone\n",
		r.Class, age(r.Deleted), english.Plural(r.NodeClaims, "NodeClaim still uses", "NodeClaims still use"))
	if r.Commit == "" {
		fmt.Fprintf(out, "\nno NodePool references it: it waits for %s\n", r.WaitsFor())
		return
	}
	fmt.Fprintf(out, "\n%s\n", "used by   "+strings.Join(r.NodePools, ", "))
	fmt.Fprintf(out, "\n# With spec.removal.rescue: true the NodeSync does this automatically. Otherwise commit a copy of the class,\n# and reference it in these NodePools: Karpenter then replaces their nodes, and the deleted class is removed.\n%s", r.Commit)
}

// poolNamed returns the NodePool that an argument names as kind/name; false if it names another kind.
func poolNamed(arg string) (name string, is bool) {
	ref, err := refOfArgument(arg)
	return ref.Name, err == nil && ref.Kind == render.NodePool
}

// whyPool prints what blocks the removal of a NodePool.
func whyPool(ctx context.Context, c *clusterAccess, name string, out io.Writer, output *format) error {
	syncs, err := nodeSyncs(ctx, c)
	if err != nil {
		return err
	}
	removals := summary.RemovalsOfPool(syncs, name)
	if len(removals) == 0 {
		kind, _ := render.KindOf(render.NodePool)
		pools, err := definitionsOf(ctx, c, kind)
		if err == nil && !slices.ContainsFunc(pools, func(o unstructured.Unstructured) bool { return o.GetName() == name }) {
			return fmt.Errorf("NodePool/%s not found", name)
		}
		return fmt.Errorf("no NodeSync in %s removes NodePool/%s or drains its nodes: run plumbline why NODE for one of its nodes",
			c.namespaceOfNodeSyncs(ctx), name)
	}
	return output.write(out, removals[0], func(out io.Writer) error {
		printPool(&display.Visible{Writer: out}, removals[0], time.Now())
		return nil
	})
}

func printPool(out io.Writer, r summary.PoolRemoval, now time.Time) {
	fmt.Fprintf(out, "%s is being removed by nodesync/%s: %s, %s\n\n", plan.Moved("NodePool/"+r.Name, r.MovesTo), r.NodeSync,
		summary.PhaseWord(r.Removal), english.Plural(int(r.Remaining), "node left", "nodes left"))
	fmt.Fprintf(out, "kept by     %s\n", summary.WaitsFor(r.Removal, r.Grace, now))
	if r.Revision != "" {
		fmt.Fprintf(out, "commit      %s, the first one without the pool\n", render.ShortRevision(r.Revision))
	}
	for _, g := range r.BreakGlass {
		fmt.Fprintf(out, "at your own risk   %s, %s: %s (%s)\n", g.Node, g.Cause, g.Command, g.Risk)
	}
}

// definitionReport is the state of a definition that owns no nodes.
type definitionReport struct {
	Object string `json:"object"`
	// State is Ready, why it is not, or what its removal waits for.
	State string `json:"state"`
	// NodeSync removes it; empty if none does.
	NodeSync string `json:"nodeSync,omitempty"`
}

// whyDefinition prints what the removal of a definition waits for, or why the definition is not Ready.
func whyDefinition(ctx context.Context, c *clusterAccess, ref render.Ref, out io.Writer, output *format) error {
	syncs, err := nodeSyncs(ctx, c)
	if err != nil {
		return err
	}
	report := definitionReport{Object: ref.String()}
	for i := range syncs {
		for _, r := range syncs[i].Status.Removals {
			if plan.RefOf(r) == ref {
				report.NodeSync, report.State = syncs[i].Name, fmt.Sprintf("being removed by nodesync/%s: %s: %s",
					syncs[i].Name, summary.PhaseWord(r), r.Message)
			}
		}
	}
	if report.NodeSync == "" {
		object := ref.Empty()
		if err := c.Get(ctx, ref.Key(), object); err != nil {
			return explain(err, "read "+ref.String())
		}
		report.State = stateOfDefinition(object, nil)
	}
	return output.write(out, report, func(out io.Writer) error {
		fmt.Fprintf(&display.Visible{Writer: out}, "%s: %s\n", report.Object, report.State)
		return nil
	})
}
