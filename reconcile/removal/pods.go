package removal

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/blocker"
)

const (
	// maxWorkloads is how many workloads the record of a removal contains, the latest ones.
	maxWorkloads = 50
	// maxPending is how many Pending pods of a workload the record contains. A workload that has more is not waited
	// for: it did not run before.
	maxPending = 10
)

// Pods is what is read about the pods that matter for a removal.
type Pods struct {
	// Waiting says which pod must run before another NodeClaim is terminated; empty if none must.
	Waiting string
	// Workloads are those with pods on the nodes that are terminated next, except those in the record.
	Workloads []Workload
	// On are the nodes of each of these workloads, by the workload's UID. Empty are the nodes without a pod that would
	// be evicted.
	On    map[types.UID][]string
	Empty map[string]bool
	// Needs is the sum of the requests of the pods that are evicted from each of these nodes.
	Needs map[string]corev1.ResourceList
	// Stays are those of these nodes that must not be disrupted, or have a pod that must not be, and those with a pod
	// that may run only on nodes of one NodePool, with the name of the NodePool.
	Stays map[string]string
}

// Workload is the controller of pods that were evicted, or are about to be.
type Workload struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Pending are its pods that did not run when it was noted. Any other Pending pod was created since: pods never
	// become Pending again.
	Pending []types.UID `json:"pending,omitempty"`
	// Unready is how many of its pods ran and were not Ready then. Newest is when its newest pod was created, by the
	// API server's clock: it identifies pods that were created since. A list of UIDs would not do, because a pod can
	// stop being Ready.
	Unready int         `json:"unready,omitempty"`
	Newest  metav1.Time `json:"newest,omitzero"`
}

func (w Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// podReader reads pods for one reconcile. It reads the pods of one phase in a namespace once.
type podReader struct {
	reader client.Reader
	read   map[podsOf][]ownedPod
	on     map[types.UID][]string
	empty  map[string]bool
	needs  map[string]corev1.ResourceList
	stays  map[string]string
	now    time.Time
}

// podsOf are the pods of one phase in one namespace.
type podsOf struct {
	namespace string
	phase     corev1.PodPhase
}

// ownedPod is a pod that has a controller and is not being deleted.
type ownedPod struct {
	name       string
	uid, owner types.UID
	made       metav1.Time
	// pending reports whether it does not run; unready whether it has a condition Ready that is not True.
	pending, unready bool
	node             string
	// pool is the only NodePool on whose nodes it may run; empty if it may run elsewhere.
	pool string
}

// readPods answers ReadPods. nodes are those that are terminated next, own the workloads in the record of the removal
// that terminates them, and noted those in the records of all removals.
func (p *podReader) readPods(ctx context.Context, nodes []string, own, noted []Workload) (*Pods, error) {
	found, err := p.onNodes(ctx, nodes)
	if err != nil {
		return nil, err
	}
	answer := &Pods{On: p.on, Empty: p.empty, Needs: p.needs, Stays: p.stays}
	for _, w := range noted {
		waiting, err := p.waiting(ctx, w)
		if err != nil {
			return nil, err
		}
		if waiting != "" && (answer.Waiting == "" || waiting < answer.Waiting) {
			answer.Waiting = waiting
		}
	}
	for _, w := range found {
		if findWorkload(own, w) != nil {
			continue
		}
		if known := findWorkload(noted, w); known != nil {
			w = *known // as it was before its first pod was evicted
		} else if err := p.note(ctx, &w); err != nil {
			return nil, err
		}
		if len(w.Pending) <= maxPending {
			answer.Workloads = append(answer.Workloads, w)
		}
	}
	return answer, nil
}

// findWorkload returns a workload as it is noted; nil if it is not.
func findWorkload(noted []Workload, w Workload) *Workload {
	if i := slices.IndexFunc(noted, func(n Workload) bool { return n.UID == w.UID }); i >= 0 {
		return &noted[i]
	}
	return nil
}

// onNodes returns the controllers of the pods that are evicted from nodes.
func (p *podReader) onNodes(ctx context.Context, nodes []string) ([]Workload, error) {
	var found []Workload
	known := map[types.UID]bool{}
	for _, node := range nodes {
		pods := &corev1.PodList{}
		if err := p.reader.List(ctx, pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
			return nil, fmt.Errorf("read the pods of node %s before deleting its NodeClaim: %w", node, err)
		}
		needs := corev1.ResourceList{}
		p.needs[node], p.empty[node] = needs, true
		for i := range pods.Items {
			pod := &pods.Items[i]
			p.keeps(node, pod)
			if !blocker.Drains(pod) {
				continue
			}
			p.empty[node] = false
			owner := metav1.GetControllerOf(pod)
			if owner == nil {
				continue
			}
			add(needs, requests(pod))
			if !slices.Contains(p.on[owner.UID], node) {
				p.on[owner.UID] = append(p.on[owner.UID], node)
			}
			if known[owner.UID] {
				continue
			}
			known[owner.UID] = true
			found = append(found, Workload{Kind: owner.Kind, Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID})
		}
	}
	slices.SortFunc(found, func(a, b Workload) int { return cmp.Compare(a.String(), b.String()) })
	return found, nil
}

// note records which pods of a workload do not run, or are not Ready, before any of them is evicted.
func (p *podReader) note(ctx context.Context, w *Workload) error {
	pending, err := p.of(ctx, *w, corev1.PodPending)
	if err != nil {
		return err
	}
	running, err := p.of(ctx, *w, corev1.PodRunning)
	if err != nil {
		return err
	}
	for _, pod := range pending {
		w.Pending = append(w.Pending, pod.uid)
	}
	for _, pod := range running {
		if pod.unready {
			w.Unready++
		}
	}
	for _, pod := range append(pending, running...) {
		if w.Newest.Before(&pod.made) {
			w.Newest = pod.made
		}
	}
	return nil
}

// waiting names a pod of a workload that was created since the workload was noted and does not run yet, or is not
// Ready; empty if there is none. As many pods as before may be not Ready, so a workload that was broken before blocks
// nothing.
func (p *podReader) waiting(ctx context.Context, w Workload) (string, error) {
	pods, err := p.unfinished(ctx, w)
	if err != nil || len(pods) == 0 {
		return "", err
	}
	first := slices.MinFunc(pods, func(a, b ownedPod) int { return cmp.Compare(a.name, b.name) })
	to := "be Ready"
	if first.pending {
		to = "run"
	}
	return fmt.Sprintf("waiting for pod %s/%s of %s %s to %s before deleting the next NodeClaim",
		w.Namespace, first.name, w.Kind, w.Name, to), nil
}

// unfinished returns those pods: the ones that do not run, or if all run, those that are not Ready.
func (p *podReader) unfinished(ctx context.Context, w Workload) ([]ownedPod, error) {
	pending, err := p.of(ctx, w, corev1.PodPending)
	if err != nil {
		return nil, err
	}
	pending = slices.DeleteFunc(pending, func(pod ownedPod) bool { return slices.Contains(w.Pending, pod.uid) })
	if len(pending) > 0 || w.Newest.IsZero() { // zero: noted by an older version, or without a pod
		return pending, nil
	}
	running, err := p.of(ctx, w, corev1.PodRunning)
	if err != nil {
		return nil, err
	}
	running = slices.DeleteFunc(running, func(pod ownedPod) bool { return !pod.unready || !w.Newest.Before(&pod.made) })
	if len(running) <= w.Unready {
		return nil, nil
	}
	return running, nil
}

// count counts pods, and returns the first one by name.
func count(pods []ownedPod, that func(ownedPod) bool) (n int, first string) {
	for _, pod := range pods {
		if that(pod) {
			if n++; first == "" || pod.name < first {
				first = pod.name
			}
		}
	}
	return n, first
}

// podsAtATime is the page size of a LIST of pods: a namespace may have thousands of running ones.
const podsAtATime = 500

// of returns the pods of a workload in a phase. Pending pods are not scheduled, or not started yet.
func (p *podReader) of(ctx context.Context, w Workload, phase corev1.PodPhase) ([]ownedPod, error) {
	all, err := p.in(ctx, podsOf{w.Namespace, phase})
	var mine []ownedPod
	for _, pod := range all {
		if pod.owner == w.UID {
			mine = append(mine, pod)
		}
	}
	return mine, err
}

// in returns the pods of one phase in one namespace that have a controller.
func (p *podReader) in(ctx context.Context, key podsOf) ([]ownedPod, error) {
	all, read := p.read[key]
	for page := ""; !read; {
		pods := &corev1.PodList{}
		if err := p.reader.List(ctx, pods, client.InNamespace(key.namespace), client.MatchingFields{"status.phase": string(key.phase)}, client.Limit(podsAtATime), client.Continue(page)); err != nil {
			return nil, fmt.Errorf("read the pods of namespace %s that are %s: %w", key.namespace, key.phase, err)
		}
		all = append(all, owned(pods.Items)...)
		page = pods.Continue
		read = page == ""
	}
	p.read[key] = all
	return all, nil
}

// owned reduces pods to the needed fields, and drops those without a controller and those being deleted.
func owned(pods []corev1.Pod) []ownedPod {
	var kept []ownedPod
	for i := range pods {
		pod := &pods[i]
		owner := metav1.GetControllerOf(pod)
		if owner == nil || pod.DeletionTimestamp != nil {
			continue
		}
		unready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue
		})
		kept = append(kept, ownedPod{name: pod.Name, uid: pod.UID, owner: owner.UID, made: pod.CreationTimestamp, pending: pod.Status.Phase == corev1.PodPending, unready: unready, node: pod.Spec.NodeName, pool: poolFor(&pod.Spec)})
	}
	return kept
}

// observeEvicted notes the workloads on nodes of each removal that another client is terminating, for example Karpenter
// after the interruption of a spot instance, or a person. Their pods must run again, like those of the nodes that the
// removal terminates. This is done once for each such NodeClaim, as soon as it is seen: when the node is gone, so are
// its pods.
func (d *drive) observeEvicted(ctx context.Context) error {
	d.evicted = map[types.UID]bool{}
	if !d.Pace.AwaitPods || d.Pace.All {
		return nil
	}
	var noted []Workload
	for _, it := range d.open() {
		left := maxTerminatedAtOnce
		for _, c := range it.seen.NodeClaims {
			switch {
			case !c.leaving() || c.Node == "" || !it.mayNote():
				continue
			case d.Evicted[c.UID]:
				d.evicted[c.UID] = true
				continue
			case left == 0:
				continue // in the next reconcile
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

// ownOf returns the workloads that a removal has noted itself, in its record and in this reconcile.
func (d *drive) ownOf(it *item) []Workload {
	return slices.Concat(it.seen.Evicted, d.records.entries[it.before.UID].Workloads)
}

// evicted returns the workloads of the pods on a node that is being terminated, except those in the removal's own
// record, as another removal noted them or as they were before. The times of the NodeClaim and of pods both come from
// the API server.
func (p *podReader) evicted(ctx context.Context, c Claim, own, noted []Workload) ([]Workload, error) {
	found, err := p.onNodes(ctx, []string{c.Node})
	if err != nil {
		return nil, err
	}
	var kept []Workload
	for _, w := range found {
		if findWorkload(own, w) != nil {
			continue
		}
		if known := findWorkload(noted, w); known != nil {
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
		// Pods on the node itself may have become unready together with it.
		w.Unready, _ = count(running, func(pod ownedPod) bool { return before(pod) && pod.unready && pod.node != c.Node })
		w.Newest = metav1.NewTime(since.Add(-time.Second))
		if len(w.Pending) <= maxPending {
			kept = append(kept, w)
		}
	}
	return kept, nil
}

// mayNote reports whether a removal is terminating NodeClaims, so its record is added to. Before that, the pods of
// other nodes do not matter to it: it counts from their state when it starts.
func (it *item) mayNote() bool {
	return it.seen.Recorded && it.seen.Hold == nil && it.before.Phase == v1alpha1.RemovalDraining
}

// evictedAreNoted remembers what the record now contains.
func (d *drive) evictedAreNoted() {
	d.result.Evicted = d.evicted
	for _, it := range d.open() {
		it.seen.Evicted = nil
	}
}

// evictedOf returns the workloads of all removals that observeEvicted has found in this reconcile.
func (d *drive) evictedOf() []Workload {
	var all []Workload
	for _, it := range d.open() {
		all = append(all, it.seen.Evicted...)
	}
	return all
}

// join merges workloads without duplicates.
func join(some, more []Workload) []Workload {
	all := append(slices.Clone(some), more...)
	slices.SortStableFunc(all, func(a, b Workload) int { return cmp.Compare(a.String(), b.String()) })
	return slices.CompactFunc(all, func(a, b Workload) bool { return a.UID != "" && a.UID == b.UID })
}
