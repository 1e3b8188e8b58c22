package teardown

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// diagnosed is how many nodes of a removal are looked into.
	diagnosed = 3
	// slowDrain is after how long of draining what keeps a node is looked for.
	slowDrain = time.Minute
	// refusedAfter is how long after the drain a termination that EC2 takes is asked
	// for at the latest: Karpenter does it in the same reconcile.
	refusedAfter = 10 * time.Second
	// diagnoseEvery is the least time between two looks at what keeps nodes.
	diagnoseEvery = 30 * time.Second
)

// diagnose says why removals stand still, and what keeps nodes that drain slowly.
// It only reads; what cannot be read is left out, since a removal's progress
// never hangs on its diagnosis.
func (d *drive) diagnose(ctx context.Context) error {
	due := d.DiagnosedAt.IsZero() || d.Now.Before(d.DiagnosedAt) || !d.Now.Before(d.DiagnosedAt.Add(diagnoseEvery))
	var unread []error
	for _, it := range d.open() {
		slow := it.drainsSlowly(d.Now)
		it.after.BreakGlass = nil
		switch {
		case it.after.Stalled != nil && it.after.Reason != ReasonNodeClaimsLeaving:
			it.after.Message, it.after.BreakGlass = Diagnose(it.after, it.seen, Evidence{})
		case it.after.Stalled == nil && !slow:
		case !due && (it.after.Stalled == nil || it.before.Stalled != nil):
			// What was found last stands until the next look.
			if it.before.Reason == it.after.Reason {
				it.after.Message, it.after.BreakGlass = it.before.Message, it.before.BreakGlass
			}
		default:
			d.result.DiagnosedAt = d.Now
			e, err := d.gather(ctx, it.kept(d.Now))
			if err != nil {
				unread = append(unread, fmt.Errorf("find out what keeps the nodes of %s/%s: %w", it.before.Kind, it.before.Name, err))
			}
			it.after.Message, it.after.BreakGlass = Diagnose(it.after, it.seen, e)
		}
	}
	return errors.Join(unread...)
}

// drainsSlowly says that a NodeClaim of a removal has been ending for a while, or
// that EC2 does not take its termination.
func (it *item) drainsSlowly(now time.Time) bool {
	at := it.slowAt()
	if it.seen.idles(it.after, now) && len(it.seen.untouched()) > 0 {
		at = it.after.LastProgress.Add(idle)
	}
	return it.after.Reason == ReasonNodeClaimsLeaving && !at.IsZero() && !now.Before(at)
}

// slowAt is when what keeps its nodes is looked for; zero where none is ending.
func (it *item) slowAt() time.Time {
	since := it.drainsSince()
	if since.IsZero() {
		return since
	}
	at := since.Add(slowDrain)
	for _, c := range it.seen.NodeClaims {
		if refused := c.Drained.Add(refusedAfter); !c.Drained.IsZero() && refused.Before(at) {
			at = refused
		}
	}
	return at
}

// drainsSince is since when the oldest of its NodeClaims is ending; zero where
// none is.
func (it *item) drainsSince() time.Time {
	var since time.Time
	for _, c := range it.seen.NodeClaims {
		if !c.Deleting.IsZero() && (since.IsZero() || c.Deleting.Before(since)) {
			since = c.Deleting
		}
	}
	return since
}

// wakeForDiagnosis asks for a pass when what keeps a node is to be looked for:
// no watch tells of budgets.
func (d *drive) wakeForDiagnosis(it *item) {
	since := it.drainsSince()
	switch {
	case it.after.Reason != ReasonNodeClaimsLeaving || since.IsZero() && !it.seen.idles(it.after, d.Now):
	case it.drainsSlowly(d.Now):
		d.wakeAt(d.result.DiagnosedAt.Add(diagnoseEvery))
	default:
		d.wakeAt(it.slowAt())
	}
}

// kept are the NodeClaims that do not go: those that end, or where Karpenter could begin to replace
// others, these.
func (it *item) kept(now time.Time) []Claim {
	if it.seen.idles(it.after, now) {
		return it.seen.untouched()
	}
	return slices.DeleteFunc(slices.Clone(it.seen.NodeClaims), func(c Claim) bool { return c.Deleting.IsZero() })
}

// gather looks into the nodes that have been leaving for longest.
func (d *drive) gather(ctx context.Context, oldest []Claim) (Evidence, error) {
	reader := d.Live
	slices.SortFunc(oldest, func(a, b Claim) int {
		return cmp.Or(a.Deleting.Compare(b.Deleting), cmp.Compare(a.Name, b.Name))
	})
	e := Evidence{Now: d.Now, Leader: *d.leads(ctx)}
	var failures []error
	volumes := &storagev1.VolumeAttachmentList{}
	if err := reader.List(ctx, volumes); err != nil {
		failures = append(failures, err)
	}
	namespaces := map[string]bool{}
	for _, c := range oldest[:min(diagnosed, len(oldest))] {
		n := NodeEvidence{Claim: c, Stays: c.Deleting.IsZero()}
		for _, v := range volumes.Items {
			if c.Node != "" && v.Spec.NodeName == c.Node {
				n.Volumes = append(n.Volumes, v)
			}
		}
		if err := n.read(ctx, reader); err != nil {
			failures = append(failures, err)
		}
		n.Protection = d.protection(ctx, c)
		if len(n.Volumes) > 0 {
			e.DaemonSets = d.DaemonSets(ctx)
		}
		for i := range n.Pods {
			namespaces[n.Pods[i].Namespace] = true
		}
		e.Nodes = append(e.Nodes, n)
	}
	for namespace := range namespaces {
		budgets := &policyv1.PodDisruptionBudgetList{}
		if err := reader.List(ctx, budgets, client.InNamespace(namespace)); err != nil {
			failures = append(failures, err)
		}
		e.Budgets = append(e.Budgets, budgets.Items...)
	}
	slices.SortFunc(e.Budgets, func(a, b policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return e, errors.Join(failures...)
}

// read finds the pods of the node, and the events of it and its NodeClaim:
// those of objects without a namespace are in the default one.
func (n *NodeEvidence) read(ctx context.Context, reader client.Reader) error {
	var failures []error
	about := []string{n.Claim.Name}
	if n.Claim.Node != "" {
		about = append(about, n.Claim.Node)
		pods := &corev1.PodList{}
		if err := reader.List(ctx, pods, client.MatchingFields{"spec.nodeName": n.Claim.Node}); err != nil {
			failures = append(failures, err)
		}
		n.Pods = pods.Items
	}
	for _, name := range about {
		events := &corev1.EventList{}
		if err := reader.List(ctx, events, client.InNamespace(corev1.NamespaceDefault), client.MatchingFields{"involvedObject.name": name}); err != nil {
			failures = append(failures, err)
		}
		n.Events = append(n.Events, events.Items...)
	}
	slices.SortFunc(n.Events, func(a, b corev1.Event) int { return a.LastTimestamp.Compare(b.LastTimestamp.Time) })
	return errors.Join(failures...)
}

// protection asks EC2 whether it protects the instance of a node that is drained, and whose
// termination it does not take. One that EC2 does not answer about stays unknown: the right to ask
// is not everywhere.
func (d *drive) protection(ctx context.Context, c Claim) Protection {
	if d.EC2 == nil || c.Drained.IsZero() || d.Now.Before(c.Drained.Add(refusedAfter)) {
		return ""
	}
	protected, err := d.EC2.TerminationProtected(ctx, c.ProviderID)
	switch {
	case err != nil:
		return ""
	case protected:
		return Protected
	}
	return Unprotected
}
