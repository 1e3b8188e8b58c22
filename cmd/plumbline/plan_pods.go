package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/finding"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
	"github.com/plumbline-dev/plumbline/reconcile/plan/workload"
)

// podsReport is what becomes of the pods on the nodes that a change or a removal touches.
type podsReport struct {
	Object string `json:"object"`
	// UpTo says that not all of these nodes need be touched.
	UpTo bool `json:"upTo,omitempty"`
	workload.Impact
}

// lines say it to people.
func (r podsReport) lines() []string {
	prefix := r.Object + ": "
	if r.UpTo {
		prefix += "up to "
	}
	var lines []string
	for _, words := range r.Words() {
		lines = append(lines, prefix+words)
		prefix = r.Object + ": "
	}
	return lines
}

// seePods reads what runs on the nodes that the Plan touches, with the user's rights; the daemon reads
// no pods for a plan. What may not be read is a warning.
func (p *planned) seePods(ctx context.Context, c client.Reader, now time.Time) {
	document := p.Document(p.live)
	nodes := map[string]map[string]bool{}
	for i := range document.Changes {
		if change := &document.Changes[i]; plan.Effect(change.Effect).Disrupts() {
			nodes[change.Object] = nodesOn(change.NodeClaims)
		}
	}
	for i := range document.Removals {
		nodes[document.Removals[i].Object] = nodesOn(document.Removals[i].NodeClaims)
	}
	if !anyNode(nodes) {
		return
	}
	pods, budgets := &corev1.PodList{}, &policyv1.PodDisruptionBudgetList{}
	err := c.List(ctx, pods)
	if err == nil {
		err = c.List(ctx, budgets)
	}
	if err != nil {
		p.Warnings = append(p.Warnings, "what runs on these nodes is unavailable: "+explain(err, "list pods and PodDisruptionBudgets").Error()+": ask for the right to list both in all namespaces")
		return
	}
	see := func(object string, upTo bool) {
		if impact := workload.Of(nodes[object], pods.Items, budgets.Items, now); impact.Pods > 0 {
			p.pods = append(p.pods, podsReport{Object: object, UpTo: upTo, Impact: impact})
		}
	}
	for i := range document.Changes {
		see(document.Changes[i].Object, document.Changes[i].UpTo)
	}
	for i := range document.Removals {
		see(document.Removals[i].Object, false)
	}
}

// noteLanding says of removals with pods that the daemon simulates where these go before it begins, where this plan does not.
func (p *planned) noteLanding(guard v1alpha1.Guard, simulates bool) {
	if simulates || !guard.UnschedulablePods.Holds() {
		return
	}
	moved := slices.DeleteFunc(p.Lands(), func(pool string) bool {
		return !slices.ContainsFunc(p.pods, func(r podsReport) bool { return r.Object == pool })
	})
	if len(moved) > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("where the pods of %s go is simulated before the removal begins or can be approved, and it is held where one finds no place: --what-if --aws simulates it now", finding.Some(moved)))
	}
}

// nodesOn are the Nodes of NodeClaims, by name.
func nodesOn(claims []planjson.NodeClaim) map[string]bool {
	nodes := map[string]bool{}
	for _, c := range claims {
		if c.Node != "" {
			nodes[c.Node] = true
		}
	}
	return nodes
}

func anyNode(of map[string]map[string]bool) bool {
	for _, nodes := range of {
		if len(nodes) > 0 {
			return true
		}
	}
	return false
}
