package teardown

import (
	corev1 "k8s.io/api/core/v1"
)

// Room is what the NodePools that could take pods have left of their limits.
type Room struct {
	// Pools names them.
	Pools string
	// Left is how much of each resource; one that is not among them has no limit.
	Left corev1.ResourceList
}

// lacks names a resource of which less is left than is needed; empty where there is none. What
// is free on nodes that run is not counted: which pods fit there is Karpenter's to find out.
func (r *Room) lacks(need corev1.ResourceList) corev1.ResourceName {
	if r == nil {
		return ""
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		left, limited := r.Left[name]
		if wanted, asked := need[name]; limited && asked && wanted.Cmp(left) > 0 {
			return name
		}
	}
	return ""
}

// fitting is how many of the next NodeClaims have pods for which there is room, and of which
// resource there is too little for one more. Where no pods are waited for, or none are read yet, all are.
func (o Observation) fitting(next []Claim) (n int, lacks corev1.ResourceName) {
	if o.Pods == nil || !o.Turn.AwaitPods {
		return len(next), ""
	}
	need := corev1.ResourceList{}
	for i, c := range next {
		add(need, o.Pods.Needs[c.Node])
		if lacks := o.Successor.Room.lacks(need); lacks != "" {
			return i, lacks
		}
	}
	return len(next), ""
}

// add adds requests to a sum.
func add(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total := sum[name]
		total.Add(quantity)
		sum[name] = total
	}
}

// requests are what a pod asks of its node, as far as limits of a NodePool count it.
func requests(pod *corev1.Pod) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		add(sum, pod.Spec.Containers[i].Resources.Requests)
	}
	return sum
}
