package main

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/fluxcd/pkg/runtime/conditions"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
	"github.com/plumbline-dev/plumbline/reconcile/recorder"
	"github.com/plumbline-dev/plumbline/reconcile/summary"
)

// runs is what is known of a NodeClaim that is not being deleted.
func runs(ctx context.Context, c *cluster, claim *karpv1.NodeClaim) (*whyReport, error) {
	report := stalls(ctx, c, &whyReport{Record: recorder.RecordOf(claim), State: claimRuns})
	leaves := report.Blocked
	if drifted := claim.StatusConditions().Get(karpv1.ConditionTypeDrifted); drifted.IsTrue() {
		report.Outdated, report.OutdatedSince = cmp.Or(drifted.Reason, karpv1.ConditionTypeDrifted), drifted.LastTransitionTime
		if input := inputOf(ctx, c, claim, drifted.Reason); input != nil {
			report.Outdated = input.Words()
		}
	} else if err := report.compare(ctx, c, claim); err != nil {
		return nil, err
	}
	if report.Outdated+report.Unknown == "" {
		return report, nil // nothing wants to end it
	}
	var since time.Time
	if initialized := claim.StatusConditions().Get(karpv1.ConditionTypeInitialized); initialized.IsTrue() {
		since = initialized.LastTransitionTime.Time
	}
	blocked, err := blocker.WhyNotDisrupted(ctx, c, claim.Name, claim.Status.NodeName != "", since, time.Now())
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	report.Blocked = cmp.Or(leaves, blocked)
	return report, nil
}

// stalls adds what keeps a node that leaves with its pool, where a NodeSync says that its removal is stalled or
// names the node, and the commands that would end it all the same. Without the right to read NodeSyncs the rest
// stands by itself.
func stalls(ctx context.Context, c *cluster, report *whyReport) *whyReport {
	report.Blocked = reported(ctx, c, report)
	removals, err := removalsOf(ctx, c, report.Pool)
	if err != nil {
		return report
	}
	for _, removal := range removals {
		of := removal.glassOf(report.Node, report.NodeClaim)
		if removal.Stalled != nil || len(of) > 0 || names(removal.Message, report.Node) || names(removal.Message, "NodeClaim/"+report.NodeClaim) {
			report.Blocked, report.BreakGlass = summary.WaitsFor(removal.Removal, time.Now()), append(report.BreakGlass, of...)
		}
	}
	return terminates(ctx, c, report)
}

// terminates adds what a node that has been terminating for longer than expected waits for, and the command that terminates it
// all the same.
func terminates(ctx context.Context, c *cluster, report *whyReport) *whyReport {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, syncs, client.InNamespace(c.in(ctx))); err != nil {
		return report
	}
	for i := range syncs.Items {
		for _, t := range syncs.Items[i].Status.Terminations {
			if t.Name != report.NodeClaim && (t.Node == "" || t.Node != report.Node) {
				continue
			}
			report.Blocked = summary.OneLine(t.Message)
			if t.BreakGlass != nil {
				report.BreakGlass = append(report.BreakGlass, *t.BreakGlass)
			}
		}
	}
	return report
}

// reported is what keeps a node by the status of a NodeSync, as `plumbline status` shows it: the policy that denies
// Karpenter's controller the removal of its finalizer, or what a rollout waits for if that names the node or its
// NodeClaim. It is empty if no status names a cause, or NodeSyncs cannot be read.
func reported(ctx context.Context, c *cluster, of *whyReport) string {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, syncs, client.InNamespace(c.in(ctx))); err != nil {
		return ""
	}
	for i := range syncs.Items {
		sync := &syncs.Items[i]
		if of.State == claimEnding && conditions.IsTrue(sync, v1alpha1.KarpenterDeniedCondition) {
			return conditions.GetMessage(sync, v1alpha1.KarpenterDeniedCondition)
		}
		if r := sync.Status.Rollout; r != nil && (names(r.Message, of.Node) || names(r.Message, "NodeClaim/"+of.NodeClaim)) {
			return r.Message
		}
	}
	return ""
}

// names says whether a message has a name as a word.
func names(message, name string) bool {
	return name != "" && slices.Contains(strings.FieldsFunc(message, func(r rune) bool { return strings.ContainsRune(" ,;:()", r) }), name)
}

// inputOf is what has outdated a NodeClaim, where its NodeSync says so; nil where it does not, or
// cannot be read: Karpenter's reason stands there by itself.
func inputOf(ctx context.Context, c *cluster, claim *karpv1.NodeClaim, reason string) *v1alpha1.DriftInput {
	syncs := &v1alpha1.NodeSyncList{}
	if err := c.List(ctx, syncs, client.InNamespace(c.in(ctx))); err != nil {
		return nil
	}
	for i := range syncs.Items {
		if input := syncs.Items[i].Status.Rollout.InputOf(claim.Labels[karpv1.NodePoolLabelKey], reason, claim.Status.ImageID); input != nil {
			return input
		}
	}
	return nil
}
