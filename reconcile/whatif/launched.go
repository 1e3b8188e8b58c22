package whatif

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"

	"github.com/plumbline-dev/plumbline/reconcile/capture"
)

// launched is the cluster once the nodes of a simulation have come, each as the smallest that it may be, and the pods that
// it has a place for run there: they count where others are to be spread, or kept apart, and take what a node has. A
// pod whose node is still on its way stays where it is.
func (s *simulation) launched() *capture.Capture {
	next := *s.capture
	next.NodeClaims, next.Nodes = slices.Clone(next.NodeClaims), slices.Clone(next.Nodes)
	at := map[client.ObjectKey]string{}
	runs := func(pods []*corev1.Pod, node string) {
		for _, pod := range pods {
			at[client.ObjectKeyFromObject(pod)] = node
		}
	}
	for _, existing := range s.results.ExistingNodes {
		if existing.Node != nil {
			runs(existing.Pods, existing.Node.Name)
		}
	}
	for _, claim := range s.results.NewNodeClaims {
		if made, node, comes := launch(claim, fmt.Sprint("what-if-", len(next.Nodes))); comes {
			next.NodeClaims, next.Nodes = append(next.NodeClaims, made), append(next.Nodes, node)
			if s.fresh != nil {
				s.fresh[node.Name] = newNodes(claim)
			}
			runs(claim.Pods, node.Name)
		}
	}
	next.Pods = slices.Clone(next.Pods)
	for i := range next.Pods {
		pod := &next.Pods[i]
		if node, runs := at[client.ObjectKeyFromObject(pod)]; runs {
			pod.Spec.NodeName, pod.Status = node, corev1.PodStatus{Phase: corev1.PodRunning}
		}
	}
	return &next
}

// launch is a new node as the smallest of its pool's instance types that has an offering, with the labels that Karpenter
// gives it.
func launch(claim *scheduling.NodeClaim, name string) (karpv1.NodeClaim, corev1.Node, bool) {
	var of *cloudprovider.InstanceType
	for _, t := range claim.InstanceTypeOptions {
		if len(t.Offerings.Available().Compatible(claim.Requirements)) > 0 && (of == nil || smaller(t, of)) {
			of = t
		}
	}
	if of == nil {
		return karpv1.NodeClaim{}, corev1.Node{}, false
	}
	labels := maps.Clone(claim.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, requirements := range []karpscheduling.Requirements{claim.Requirements, of.Requirements, of.Offerings.Available().Compatible(claim.Requirements).Cheapest().Requirements} {
		for key, r := range requirements {
			if r.Operator() == corev1.NodeSelectorOpIn && r.Len() == 1 {
				labels[key] = r.Any()
			}
		}
	}
	labels[corev1.LabelHostname], labels[karpv1.NodePoolLabelKey] = name, claim.NodePoolName
	labels[karpv1.NodeRegisteredLabelKey], labels[karpv1.NodeInitializedLabelKey] = "true", "true"
	object, provider := metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: labels}, "what-if:///"+name
	made := karpv1.NodeClaim{ObjectMeta: object, Spec: karpv1.NodeClaimSpec{NodeClassRef: claim.Spec.NodeClassRef, Taints: claim.Spec.Taints}}
	made.Status = karpv1.NodeClaimStatus{ProviderID: provider, NodeName: name, Capacity: of.Capacity, Allocatable: of.Allocatable()}
	node := corev1.Node{ObjectMeta: object, Spec: corev1.NodeSpec{ProviderID: provider, Taints: claim.Spec.Taints}}
	node.Status = corev1.NodeStatus{Capacity: of.Capacity, Allocatable: of.Allocatable(), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}
	return made, node, true
}

// smaller says whether an instance type has less CPU than another, or as much and less memory.
func smaller(a, b *cloudprovider.InstanceType) bool {
	less := func(name corev1.ResourceName) int {
		has := a.Capacity[name]
		return has.Cmp(b.Capacity[name])
	}
	return cmp.Or(less(corev1.ResourceCPU), less(corev1.ResourceMemory), cmp.Compare(a.Name, b.Name)) < 0
}
