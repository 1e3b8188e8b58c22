package teardown

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// diagnosed is how many nodes of a stalled removal are looked into.
const diagnosed = 3

// diagnose says why removals stand still. It only reads; what cannot be read is
// left out, since a removal's progress never hangs on its diagnosis.
func (d *drive) diagnose(ctx context.Context) error {
	var unread []error
	for _, it := range d.open() {
		if it.after.Stalled == nil {
			continue
		}
		var e Evidence
		if it.after.Reason == ReasonNodeClaimsLeaving {
			var err error
			if e, err = gather(ctx, d.Live, it.seen.NodeClaims); err != nil {
				unread = append(unread, fmt.Errorf("find out why %s/%s stands still: %w", it.before.Kind, it.before.Name, err))
			}
		}
		it.after.Message = Diagnose(it.after, it.seen, e)
	}
	return errors.Join(unread...)
}

// gather looks into the nodes that have been leaving for longest.
func gather(ctx context.Context, reader client.Reader, claims []Claim) (Evidence, error) {
	oldest := slices.Clone(claims)
	slices.SortFunc(oldest, func(a, b Claim) int {
		return cmp.Or(a.Deleting.Compare(b.Deleting), cmp.Compare(a.Name, b.Name))
	})
	var e Evidence
	var failures []error
	volumes := &storagev1.VolumeAttachmentList{}
	if err := reader.List(ctx, volumes); err != nil {
		failures = append(failures, err)
	}
	namespaces := map[string]bool{}
	for _, c := range oldest[:min(diagnosed, len(oldest))] {
		n := NodeEvidence{Claim: c}
		for _, v := range volumes.Items {
			if c.Node != "" && v.Spec.NodeName == c.Node {
				n.Volumes = append(n.Volumes, v)
			}
		}
		if err := n.read(ctx, reader); err != nil {
			failures = append(failures, err)
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
