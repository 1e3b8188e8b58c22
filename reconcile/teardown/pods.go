package teardown

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// maxWorkloads is how many workloads the record of a removal holds, the newest.
	maxWorkloads = 50
	// maxPending is how many Pending pods of a workload the record holds. One that
	// has more is not waited for: it did not run before.
	maxPending = 10
)

// Pods is what the pods that hang on a removal tell.
type Pods struct {
	// Waiting says which pod has to run before another NodeClaim is ended; empty
	// where none has to.
	Waiting string
	// Workloads are those with pods on the nodes that are ended next, as far as the
	// record lacks them.
	Workloads []Workload
}

// Workload is the controller of pods that were evicted, or are about to be.
type Workload struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Pending are its pods that did not run when it was noted. A pod that is
	// Pending and not among them was made since: pods never become Pending again.
	Pending []types.UID `json:"pending,omitempty"`
}

func (w Workload) String() string { return w.Kind + " " + w.Namespace + "/" + w.Name }

// podReader reads pods for one pass, each namespace once.
type podReader struct {
	reader  client.Reader
	pending map[string][]corev1.Pod
}

// readPods answers ReadPods: noted are the workloads in the records of all open
// removals, nodes those that are ended next.
func (p *podReader) readPods(ctx context.Context, nodes []string, noted []Workload) (*Pods, error) {
	found, err := p.onNodes(ctx, nodes)
	if err != nil {
		return nil, err
	}
	answer := &Pods{}
	known := map[types.UID]bool{}
	for _, w := range noted {
		known[w.UID] = true
		waiting, err := p.waiting(ctx, w)
		if err != nil {
			return nil, err
		}
		if waiting != "" && (answer.Waiting == "" || waiting < answer.Waiting) {
			answer.Waiting = waiting
		}
	}
	for _, w := range found {
		if known[w.UID] {
			continue
		}
		pods, err := p.pendingOf(ctx, w)
		if err != nil {
			return nil, err
		}
		for i := range pods {
			w.Pending = append(w.Pending, pods[i].UID)
		}
		if len(w.Pending) <= maxPending {
			answer.Workloads = append(answer.Workloads, w)
		}
	}
	return answer, nil
}

// onNodes are the controllers of the pods that are evicted from nodes.
func (p *podReader) onNodes(ctx context.Context, nodes []string) ([]Workload, error) {
	var found []Workload
	known := map[types.UID]bool{}
	for _, node := range nodes {
		pods := &corev1.PodList{}
		if err := p.reader.List(ctx, pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
			return nil, fmt.Errorf("read the pods of node %s before its NodeClaim is ended: %w", node, err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			owner := metav1.GetControllerOf(pod)
			if owner == nil || known[owner.UID] || !drains(pod) {
				continue
			}
			known[owner.UID] = true
			found = append(found, Workload{Kind: owner.Kind, Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID})
		}
	}
	slices.SortFunc(found, func(a, b Workload) int { return cmp.Compare(a.String(), b.String()) })
	return found, nil
}

// waiting names a pod of a workload that was made since it was noted and does not
// run yet; empty where there is none.
func (p *podReader) waiting(ctx context.Context, w Workload) (string, error) {
	pods, err := p.pendingOf(ctx, w)
	if err != nil {
		return "", err
	}
	first := ""
	for i := range pods {
		if name := pods[i].Namespace + "/" + pods[i].Name; !slices.Contains(w.Pending, pods[i].UID) && (first == "" || name < first) {
			first = name
		}
	}
	if first == "" {
		return "", nil
	}
	return fmt.Sprintf("waiting for pod %s of %s %s to run before the next NodeClaim is ended", first, w.Kind, w.Name), nil
}

// pendingOf are the pods of a workload that are Pending: not scheduled, or not
// started yet.
func (p *podReader) pendingOf(ctx context.Context, w Workload) ([]corev1.Pod, error) {
	all, read := p.pending[w.Namespace]
	if !read {
		pods := &corev1.PodList{}
		if err := p.reader.List(ctx, pods, client.InNamespace(w.Namespace), client.MatchingFields{"status.phase": string(corev1.PodPending)}); err != nil {
			return nil, fmt.Errorf("read the pods of namespace %s that wait for a node: %w", w.Namespace, err)
		}
		all = pods.Items
		p.pending[w.Namespace] = all
	}
	var mine []corev1.Pod
	for i := range all {
		if owner := metav1.GetControllerOf(&all[i]); owner != nil && owner.UID == w.UID && all[i].DeletionTimestamp == nil {
			mine = append(mine, all[i])
		}
	}
	return mine, nil
}
