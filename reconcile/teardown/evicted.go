package teardown

import (
	"cmp"
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// observeEvicted notes of each removal the workloads on nodes that another than this removal
// ends meanwhile: Karpenter after the interruption of a spot instance, a person. Their pods
// have to run again like those of the nodes that the removal ends. It is done as soon
// as such a NodeClaim is seen, once for each: with the node its pods are gone.
func (d *drive) observeEvicted(ctx context.Context) error {
	d.evicted = map[types.UID]bool{}
	if !d.Pace.AwaitPods || d.Pace.All {
		return nil
	}
	var noted []Workload
	for _, it := range d.open() {
		left := endsAtOnce
		for _, c := range it.seen.NodeClaims {
			switch {
			case !c.leaving() || c.Node == "" || !it.mayNote():
				continue
			case d.Evicted[c.UID]:
				d.evicted[c.UID] = true
				continue
			case left == 0:
				continue // in the next pass
			}
			left--
			found, err := d.pods.evicted(ctx, c, d.ownOf(it), append(d.records.workloads(), noted...))
			if err != nil {
				return err
			}
			d.evicted[c.UID] = true
			it.seen.Evicted = append(it.seen.Evicted, found...)
			noted = append(noted, found...)
		}
	}
	return nil
}

// ownOf are the workloads that a removal has noted itself, in its record and in this pass.
func (d *drive) ownOf(it *item) []Workload {
	return slices.Concat(it.seen.Evicted, d.records.entries[it.before.UID].Workloads)
}

// evicted are the workloads of the pods on a node that is being ended, beside those of the removal's
// own record, as they are noted for another removal or were before. The times of the NodeClaim and
// of pods are both the API server's.
func (p *podReader) evicted(ctx context.Context, c Claim, own, noted []Workload) ([]Workload, error) {
	found, err := p.onNodes(ctx, []string{c.Node})
	if err != nil {
		return nil, err
	}
	var kept []Workload
	for _, w := range found {
		if among(own, w) != nil {
			continue
		}
		if known := among(noted, w); known != nil {
			kept = append(kept, *known)
			continue
		}
		since := c.Deleting
		if since.IsZero() {
			since = c.Replacing
		}
		before := func(pod ownedPod) bool { return pod.made.Time.Before(since) }
		pending, err := p.of(ctx, w, corev1.PodPending)
		if err != nil {
			return nil, err
		}
		running, err := p.of(ctx, w, corev1.PodRunning)
		if err != nil {
			return nil, err
		}
		for _, pod := range pending {
			if before(pod) {
				w.Pending = append(w.Pending, pod.uid)
			}
		}
		// On the node itself they may have ceased to be Ready with it.
		w.Unready, _ = count(running, func(pod ownedPod) bool { return before(pod) && pod.unready && pod.node != c.Node })
		w.Newest = metav1.NewTime(since.Add(-time.Second))
		if len(w.Pending) <= maxPending {
			kept = append(kept, w)
		}
	}
	return kept, nil
}

// mayNote says that a removal ends NodeClaims, so that its record is added to. Before, the pods
// of other nodes are not its business: what they are like when it begins counts.
func (it *item) mayNote() bool {
	return it.seen.Recorded && it.seen.Hold == nil && it.before.Phase == v1alpha1.RemovalDraining
}

// evictedAreNoted keeps in mind what the record has by now.
func (d *drive) evictedAreNoted() {
	d.result.Evicted = d.evicted
	for _, it := range d.open() {
		it.seen.Evicted = nil
	}
}

// evictedOf are the workloads of all removals that observeEvicted has found in this pass.
func (d *drive) evictedOf() []Workload {
	var all []Workload
	for _, it := range d.open() {
		all = append(all, it.seen.Evicted...)
	}
	return all
}

// join puts workloads together, each once.
func join(some, more []Workload) []Workload {
	all := append(slices.Clone(some), more...)
	slices.SortStableFunc(all, func(a, b Workload) int { return cmp.Compare(a.String(), b.String()) })
	return slices.CompactFunc(all, func(a, b Workload) bool { return a.UID != "" && a.UID == b.UID })
}
