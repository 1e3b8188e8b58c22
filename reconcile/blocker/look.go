package blocker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

const (
	// Most is how many nodes are looked into at a time.
	Most = 3
	// RefusedAfter is how long after the drain a termination that EC2 takes is asked
	// for at the latest: Karpenter does it in the same reconcile.
	RefusedAfter = 10 * time.Second
)

// Look finds out what hangs on nodes.
type Look struct {
	// Reader reads past the watch cache.
	Reader client.Reader
	// DaemonSets are those of CSI drivers and CNI plugins. They are asked for only where a volume
	// keeps a node.
	DaemonSets func(context.Context) plan.DaemonSets
	// Protected says whether EC2 protects an instance from termination; nil where EC2 cannot be asked.
	Protected func(ctx context.Context, providerID string) (bool, error)
	// Log is the end of the log of Karpenter's controller, empty where it cannot be read; nil where nobody
	// reads it. It is asked for only where EC2 does not take a termination.
	Log func(context.Context) string
	Now time.Time
}

// At finds out what hangs on the first few of some nodes. The Evidence is good also where there is an
// error: it lacks what could not be read.
func (l Look) At(ctx context.Context, nodes []Node) (Evidence, error) {
	e := Evidence{Now: l.Now}
	var failures []error
	volumes := &storagev1.VolumeAttachmentList{}
	if err := l.Reader.List(ctx, volumes); err != nil {
		failures = append(failures, err)
	}
	namespaces := map[string]bool{}
	for _, n := range nodes[:min(Most, len(nodes))] {
		for _, v := range volumes.Items {
			if n.Name != "" && v.Spec.NodeName == n.Name {
				n.Volumes = append(n.Volumes, v)
			}
		}
		if err := n.read(ctx, l.Reader); err != nil {
			failures = append(failures, err)
		}
		if l.Log != nil && l.refuses(n) {
			n.Logged = lastError(l.Log(ctx), n.Drained, n.Claim, n.Name)
		}
		n.Protection = l.protection(ctx, n)
		if len(n.Volumes) > 0 {
			e.DaemonSets = l.DaemonSets(ctx)
		}
		for i := range n.Pods {
			namespaces[n.Pods[i].Namespace] = true
		}
		e.Nodes = append(e.Nodes, n)
	}
	for namespace := range namespaces {
		budgets := &policyv1.PodDisruptionBudgetList{}
		if err := l.Reader.List(ctx, budgets, client.InNamespace(namespace)); err != nil {
			failures = append(failures, err)
		}
		e.Budgets = append(e.Budgets, budgets.Items...)
	}
	slices.SortFunc(e.Budgets, func(a, b policyv1.PodDisruptionBudget) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return e, errors.Join(failures...)
}

// read finds the pods and the finalizers of the node, and the events of it and its NodeClaim:
// those of objects without a namespace are in the default one.
func (n *Node) read(ctx context.Context, reader client.Reader) error {
	var failures []error
	about := []string{n.Claim}
	if n.Name != "" {
		about = append(about, n.Name)
		pods := &corev1.PodList{}
		if err := reader.List(ctx, pods, client.MatchingFields{"spec.nodeName": n.Name}); err != nil {
			failures = append(failures, err)
		}
		n.Pods = pods.Items
		node := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}}
		if err := reader.Get(ctx, client.ObjectKey{Name: n.Name}, node); client.IgnoreNotFound(err) != nil {
			failures = append(failures, err)
		}
		n.NodeFinalizers = FinalizersOf(node)
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

// refuses says that EC2 has not taken the termination of a node for a while.
func (l Look) refuses(n Node) bool {
	return !n.Drained.IsZero() && !l.Now.Before(n.Drained.Add(RefusedAfter))
}

// protection asks EC2 whether it protects the instance of a node that is drained, and whose
// termination it does not take. One that EC2 does not answer about stays unknown: the right to ask
// is not everywhere.
func (l Look) protection(ctx context.Context, n Node) Protection {
	if l.Protected == nil || !l.refuses(n) {
		return ""
	}
	protected, err := l.Protected(ctx, n.ProviderID)
	switch {
	case err != nil:
		return ""
	case protected:
		return Protected
	}
	return Unprotected
}
