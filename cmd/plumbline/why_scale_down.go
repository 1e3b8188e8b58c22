package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize/english"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud/offers"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// addScaleDown adds to the report on a running node why Karpenter does not scale it down.
func addScaleDown(
	ctx context.Context, c *clusterAccess, report *summary.NodeReport, claim *karpv1.NodeClaim, claims []karpv1.NodeClaim, aws bool,
) error {
	candidate, err := blocker.ReadCandidate(ctx, c, claim, claims, time.Now())
	if err != nil {
		return explain(err, "read why the node is not scaled down")
	}
	report.ScaleDown = candidate.Keeps()
	if !aws {
		return nil
	}
	out, err := simulateScaleDown(ctx, c, claim)
	if err != nil {
		return explain(err, "simulate the scale-down of the node")
	}
	keep, words := scaleDownOf(out, claim.Status.NodeName)
	if keep != nil {
		report.ScaleDown = append(report.ScaleDown, *keep)
	}
	report.Simulated = words
	return nil
}

// simulateScaleDown simulates the cluster without a node.
func simulateScaleDown(ctx context.Context, c *clusterAccess, claim *karpv1.NodeClaim) (*simulate.Outcome, error) {
	taken, err := simulate.ReadCapture(ctx, c, time.Now())
	if err != nil {
		return nil, err
	}
	if taken.Catalog, err = catalogOf(ctx, taken.Region()); err != nil {
		return nil, err
	}
	offered, err := offers.New(ctx, taken.Catalog, taken.Settings.Settings)
	if err != nil {
		return nil, err
	}
	return simulate.Run(ctx, taken, simulate.Commit{
		Definitions: taken.Definitions, Touched: map[types.UID]bool{claim.UID: true},
	}, offered)
}

// scaleDownOf returns why a simulation without a node shows that Karpenter keeps the node, by the rules of its consolidation
// (computeConsolidation in sigs.k8s.io/karpenter pkg/controllers/disruption/consolidation.go, 1.15.0): all its pods have to
// fit on other nodes, or on these and one new node that is cheaper. If nothing keeps the node, it returns what would happen
// as text.
func scaleDownOf(out *simulate.Outcome, node string) (*blocker.Keep, string) {
	var stranded []string
	for _, s := range out.Nowhere {
		if s.Node == node && node != "" {
			stranded = append(stranded, fmt.Sprintf("%s (%s)", s.Pod, s.Reason))
		}
	}
	launched, needsNew := 0, false
	for _, m := range out.Moves {
		needsNew = needsNew || m.New
	}
	for _, n := range out.New {
		if n.Pods > 0 {
			launched += n.Count
		}
	}
	switch {
	case len(stranded) > 0:
		return &blocker.Keep{
			Reason:  blocker.KeptUnschedulable,
			Message: "in a simulation without the node, these of its pods fit nowhere else: " + finding.Few(stranded, "; "),
			Fix:     "compare their node selectors, affinities, topology spread and requests with the other nodes and NodePools",
		}, ""
	case !needsNew:
		return nil, fmt.Sprintf("in a simulation without the node, %s on other nodes",
			english.Plural(out.Leaving, "pod of it fits", "pods of it fit"))
	case launched > 1:
		return &blocker.Keep{
			Reason:  blocker.KeptUnschedulable,
			Message: fmt.Sprintf("in a simulation without the node, %d new nodes are needed: Karpenter replaces a node with one at most", launched),
			Fix:     "lower the requests of its pods, or allow larger instance types",
		}, ""
	case out.Cost.Lowest >= out.Cost.Before:
		return &blocker.Keep{
			Reason: blocker.KeptPrice,
			Message: fmt.Sprintf("in a simulation without the node, its pods need a new one that is not cheaper (%.3f an hour more at least)",
				out.Cost.Lowest-out.Cost.Before),
			Fix: "lower the requests of its pods, or allow cheaper instance types",
		}, ""
	}
	return nil, fmt.Sprintf("in a simulation without the node, a new one that is up to %.3f an hour cheaper takes pods of it",
		out.Cost.Before-out.Cost.Lowest)
}

// printScaleDown prints why a running node is not scaled down.
func printScaleDown(out io.Writer, r *summary.NodeReport) {
	fmt.Fprintln(out)
	if len(r.ScaleDown) == 0 {
		fmt.Fprintln(out, "nothing known keeps Karpenter from scaling it down, once its pods fit on other nodes or on one cheaper node")
	} else {
		fmt.Fprintln(out, "not scaled down; each of these keeps it:")
	}
	for _, keep := range r.ScaleDown {
		fmt.Fprintf(out, "  %s: %s\n", keep.Reason, keep.Message)
		if keep.Fix != "" {
			fmt.Fprintf(out, "    fix: %s\n", keep.Fix)
		}
	}
	if r.Simulated != "" {
		fmt.Fprintf(out, "  %s\n", r.Simulated)
	}
}
