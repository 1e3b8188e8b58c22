package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
	podutil "sigs.k8s.io/karpenter/pkg/utils/pod"
	"sigs.k8s.io/karpenter/pkg/utils/resources"

	"github.com/plumbline-dev/plumbline/render"
)

// parting returns the part of a Capture to simulate if the touched NodeClaims terminate and further pods are pending.
type parting func(c *Capture, touched map[types.UID]bool, pending []*corev1.Pod) part

// part is the part of a Capture that decides what Karpenter's simulation returns.
type part struct {
	// whole means that nothing is left out, and instance types are not grouped either.
	whole bool
	// without are the provider IDs of nodes that are left out.
	without map[string]bool
	// used is the capacity of these nodes, by NodePool: it counts against the pool's limits.
	used map[string]corev1.ResourceList
	// moving are the pods that the simulation may schedule: those that are pending, with placeholders, and those of nodes
	// that terminate.
	moving []*corev1.Pod
}

// relevantPart returns the part of a Capture that decides where pods are scheduled if the touched NodeClaims terminate.
// It leaves out each node that Karpenter's scheduler can only refuse, whatever else it schedules (CanAdd of
// pkg/controllers/provisioning/scheduling/existingnode.go in sigs.k8s.io/karpenter, 1.14.1): for each pod that moves, it
// has too few free resources, or a taint that the pod does not tolerate, or labels that the pod does not select. These
// stay reasons while pods are scheduled: resources only decrease, and relaxing a preference changes none of them.
//
// Such a node still counts for limits, which used records, and for topology. The pods on it are counted from the
// Capture, in which it remains. It is kept if it is the only one that shows a topology domain, or if one of its pods
// keeps pods that move away from more than the node.
func relevantPart(c *Capture, touched map[types.UID]bool, pending []*corev1.Pod) part {
	nodes := observedNodes(c, touched)
	p := part{without: map[string]bool{}, used: map[string]corev1.ResourceList{}, moving: slices.Clone(pending)}
	running := map[string][]*corev1.Pod{}
	for i := range c.Pods {
		pod := &c.Pods[i]
		switch {
		case podutil.IsProvisionable(pod), nodes.terminating[pod.Spec.NodeName] && podutil.IsReschedulable(pod):
			p.moving = append(p.moving, pod)
		case pod.Spec.NodeName != "" && !podutil.IsTerminal(pod):
			running[pod.Spec.NodeName] = append(running[pod.Spec.NodeName], pod)
		}
	}
	d := demandOf(p.moving, c)
	var refusing []*state.StateNode
	shown := map[string]bool{}
	for _, n := range nodes.settled {
		if pods := running[n.Node.Name]; d.accepts(n, pods) || slices.ContainsFunc(pods, d.repels) {
			shown[d.domains(n)] = true
		} else {
			refusing = append(refusing, n)
		}
	}
	for _, n := range refusing {
		if domains := d.domains(n); domains != "" && !shown[domains] {
			shown[domains] = true
			continue
		}
		pool := n.Labels()[karpv1.NodePoolLabelKey]
		p.without[n.Node.Spec.ProviderID] = true
		p.used[pool] = resources.MergeInto(p.used[pool], n.Capacity())
	}
	return p
}

// observed are the nodes of a Capture as Karpenter's cluster state has them.
type observed struct {
	// settled are initialized nodes that remain.
	settled []*state.StateNode
	// terminating are the names of nodes whose pods move.
	terminating map[string]bool
}

// observedNodes pairs Nodes with NodeClaims by provider ID, as Karpenter does.
func observedNodes(c *Capture, touched map[types.UID]bool) observed {
	found := observed{terminating: map[string]bool{}}
	claims, ends, same := map[string]*karpv1.NodeClaim{}, map[string]bool{}, map[string]int{}
	for i := range c.NodeClaims {
		claim := c.NodeClaims[i] // a copy, because Karpenter adds conditions to what it reads
		claims[claim.Status.ProviderID] = &claim
		if touched[claim.UID] {
			ends[claim.Status.ProviderID], found.terminating[claim.Status.NodeName] = true, true
		}
	}
	host := func(n *corev1.Node) string { return "hostname " + cmp.Or(n.Labels[corev1.LabelHostname], n.Name) }
	for i := range c.Nodes {
		same[c.Nodes[i].Spec.ProviderID]++
		same[host(&c.Nodes[i])]++
	}
	for i := range c.Nodes {
		id := c.Nodes[i].Spec.ProviderID
		n := &state.StateNode{Node: &c.Nodes[i]}
		if id != "" {
			n.NodeClaim = claims[id]
		}
		if ends[id] && id != "" || n.MarkedForDeletion() {
			found.terminating[n.Node.Name] = true
		}
		unique := id != "" && same[id] == 1 && same[host(n.Node)] == 1
		if unique && isInitialized(n) && !found.terminating[n.Node.Name] {
			found.settled = append(found.settled, n)
		}
	}
	delete(found.terminating, "")
	return found
}

// isInitialized reports whether a node is registered and initialized, and has its NodeClaim if it belongs to a NodePool.
func isInitialized(n *state.StateNode) bool {
	known := n.Managed() || n.Node.Labels[karpv1.NodePoolLabelKey] == ""
	return known && n.Registered() && n.Initialized()
}

// demand is what pods that move require of a node that exists.
type demand struct {
	shapes []shape
	// loose are the keys of labels that a node need not have, although a pod selects them: once Karpenter has scheduled
	// a pod with the requirement NotIn to a node without the label, it accepts every value.
	loose map[string]bool
	// topologies are the keys of topology domains other than the node itself, which need not be shown by a node to
	// count as empty. filters are the keys of labels that decide whether a node shows a domain for topology spread.
	topologies, filters []string
	// labels are the different labels of the pods. repelled caches which selectors match any of them.
	labels   []labels.Set
	repelled map[string]bool
}

// shape is what pods of equal requests, tolerations and required labels need.
type shape struct {
	requests     corev1.ResourceList
	tolerations  []corev1.Toleration
	alternatives []karpscheduling.Requirements
}

func demandOf(pods []*corev1.Pod, c *Capture) *demand {
	d := &demand{loose: map[string]bool{}, repelled: map[string]bool{}}
	topologies, filters, known := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, key := range volumeKeys(c) {
		d.loose[key] = true
	}
	for _, pod := range pods {
		if set := labels.Set(pod.Labels); !known["labels "+set.String()] {
			known["labels "+set.String()] = true
			d.labels = append(d.labels, set)
		}
		keys := topologyKeys(pod)
		for _, key := range keys {
			if key != corev1.LabelHostname {
				topologies[key] = true
			}
		}
		spec := &pod.Spec
		form, err := json.Marshal([]any{resources.RequestsForPods(pod), spec.Tolerations, spec.NodeSelector, spec.Affinity, keys})
		if err == nil && known[string(form)] {
			continue
		}
		known[string(form)] = true
		made := shape{resources.RequestsForPods(pod), spec.Tolerations, alternatives(pod)}
		d.shapes = append(d.shapes, made)
		d.loosen(pod)
		for _, requirements := range made.alternatives {
			for key := range requirements {
				if len(spec.TopologySpreadConstraints) > 0 {
					filters[key] = true
				}
			}
		}
	}
	d.topologies, d.filters = sorted(topologies), sorted(filters)
	return d
}

// alternatives returns what labels of a node a pod requires: one of them is sufficient.
func alternatives(pod *corev1.Pod) []karpscheduling.Requirements {
	selected := func(more ...corev1.NodeSelectorRequirement) karpscheduling.Requirements {
		all := karpscheduling.NewLabelRequirements(pod.Spec.NodeSelector)
		all.Add(karpscheduling.NewNodeSelectorRequirements(more...).Values()...)
		return all
	}
	var found []karpscheduling.Requirements
	for _, term := range requiredTerms(pod) {
		found = append(found, selected(term.MatchExpressions...))
	}
	if len(found) == 0 {
		found = append(found, selected())
	}
	return found
}

func requiredTerms(pod *corev1.Pod) []corev1.NodeSelectorTerm {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	return nil
}

// selections returns all requirements of a pod on labels of nodes, required and preferred.
func selections(pod *corev1.Pod) []*karpscheduling.Requirement {
	found := karpscheduling.NewLabelRequirements(pod.Spec.NodeSelector).Values()
	terms := requiredTerms(pod)
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		for _, preferred := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			terms = append(slices.Clip(terms), preferred.Preference)
		}
	}
	for _, term := range terms {
		for _, e := range term.MatchExpressions {
			found = append(found, karpscheduling.NewRequirement(e.Key, e.Operator, slices.Clone(e.Values)...))
		}
	}
	return found
}

// volumeKeys returns the labels that decide where volumes can be attached.
func volumeKeys(c *Capture) (keys []string) {
	for _, r := range volumeSelections(c) {
		keys = append(keys, r.Key)
	}
	return keys
}

func volumeSelections(c *Capture) (found []*karpscheduling.Requirement) {
	for i := range c.Volumes {
		if a := c.Volumes[i].Spec.NodeAffinity; a != nil && a.Required != nil {
			for _, term := range a.Required.NodeSelectorTerms {
				for _, e := range term.MatchExpressions {
					found = append(found, karpscheduling.NewRequirement(e.Key, e.Operator, slices.Clone(e.Values)...))
				}
			}
		}
	}
	for i := range c.Classes {
		for _, term := range c.Classes[i].AllowedTopologies {
			for _, e := range term.MatchLabelExpressions {
				found = append(found, karpscheduling.NewRequirement(e.Key, corev1.NodeSelectorOpIn, slices.Clone(e.Values)...))
			}
		}
	}
	return found
}

// loosen adds the keys of a pod's requirements that a node without the label can meet: NotIn, DoesNotExist, and two
// that contradict each other, which Karpenter treats as DoesNotExist.
func (d *demand) loosen(pod *corev1.Pod) {
	once := map[string]bool{}
	for _, r := range selections(pod) {
		operator := r.Operator()
		if once[r.Key] || operator == corev1.NodeSelectorOpNotIn || operator == corev1.NodeSelectorOpDoesNotExist {
			d.loose[r.Key] = true
		}
		once[r.Key] = true
	}
}

// topologyKeys returns the topology domains that a pod's spread, affinity and anti-affinity refer to.
func topologyKeys(pod *corev1.Pod) (keys []string) {
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		keys = append(keys, constraint.TopologyKey)
	}
	var terms []corev1.PodAffinityTerm
	var preferred []corev1.WeightedPodAffinityTerm
	if a := pod.Spec.Affinity; a != nil && a.PodAffinity != nil {
		terms = a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		preferred = a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		terms = slices.Concat(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		preferred = slices.Concat(preferred, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for _, term := range terms {
		keys = append(keys, term.TopologyKey)
	}
	for _, term := range preferred {
		keys = append(keys, term.PodAffinityTerm.TopologyKey)
	}
	return keys
}

// accepts reports whether a node may accept one of the pods that move, besides the pods that run on it.
func (d *demand) accepts(n *state.StateNode, running []*corev1.Pod) bool {
	free := resources.Subtract(n.Allocatable().DeepCopy(), resources.RequestsForPods(running...))
	has := d.requirements(n)
	hard := slices.DeleteFunc(slices.Clone(n.Taints()), func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectPreferNoSchedule })
	return slices.ContainsFunc(d.shapes, func(s shape) bool {
		return resources.Fits(s.requests, free) && karpscheduling.Taints(hard).Tolerates(s.tolerations) == nil &&
			slices.ContainsFunc(s.alternatives, func(r karpscheduling.Requirements) bool { return has.IsCompatible(r) })
	})
}

// requirements returns the labels of a node; those that a node need not have, if missing, with any value.
func (d *demand) requirements(n *state.StateNode) karpscheduling.Requirements {
	has := karpscheduling.NewLabelRequirements(n.Labels())
	has.Add(karpscheduling.NewRequirement(corev1.LabelHostname, corev1.NodeSelectorOpIn, n.HostName()))
	for key := range d.loose {
		if !has.Has(key) {
			has.Add(karpscheduling.NewRequirement(key, corev1.NodeSelectorOpExists))
		}
	}
	return has
}

// repels reports whether a running pod may keep a pod that moves away from other nodes than its own.
func (d *demand) repels(running *corev1.Pod) bool {
	return slices.ContainsFunc(apartFrom(running), func(term corev1.PodAffinityTerm) bool {
		return term.TopologyKey != corev1.LabelHostname && d.selected(term.LabelSelector)
	})
}

// apartFrom returns which pods a pod keeps away.
func apartFrom(pod *corev1.Pod) []corev1.PodAffinityTerm {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		return a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return nil
}

// selected reports whether a selector matches a pod that moves, in any namespace.
func (d *demand) selected(by *metav1.LabelSelector) bool {
	name := metav1.FormatLabelSelector(by)
	found, known := d.repelled[name]
	if !known {
		selector, err := metav1.LabelSelectorAsSelector(by)
		found = err == nil && slices.ContainsFunc(d.labels, func(set labels.Set) bool { return selector.Matches(set) })
		d.repelled[name] = found
	}
	return found
}

// domains identifies the topology domains that a node shows, and for which pods it shows them; empty if no pod that
// moves depends on it.
func (d *demand) domains(n *state.StateNode) string {
	if len(d.topologies) == 0 {
		return ""
	}
	var text strings.Builder
	for _, key := range d.topologies {
		value, has := n.Labels()[key]
		fmt.Fprintf(&text, "%q %t ", value, has)
	}
	has := d.requirements(n)
	for _, key := range d.filters {
		fmt.Fprint(&text, has[key], " ")
	}
	for i := range n.Node.Spec.Taints {
		fmt.Fprint(&text, n.Node.Spec.Taints[i].ToString(), " ")
	}
	return text.String()
}

// limits returns the definitions with the capacity of the nodes that are left out subtracted from the limits of their
// pools.
func (p part) limits(definitions []map[string]any) []map[string]any {
	found := slices.Clone(definitions)
	for i, definition := range found {
		object := unstructured.Unstructured{Object: definition}
		limits, limited, _ := unstructured.NestedMap(definition, "spec", "limits")
		used := p.used[object.GetName()]
		if object.GetKind() != render.NodePool || !limited || len(used) == 0 {
			continue
		}
		for name, limit := range limits {
			if left, ok := quantity(limit); ok {
				left.Sub(used[corev1.ResourceName(name)])
				limits[name] = left.String()
			}
		}
		copied := object.DeepCopy().Object
		_ = unstructured.SetNestedMap(copied, limits, "spec", "limits")
		found[i] = copied
	}
	return found
}

// budgets returns the PodDisruptionBudgets that select a pod that moves, and invalid ones, which are an error later.
func (p part) budgets(all []policyv1.PodDisruptionBudget) []policyv1.PodDisruptionBudget {
	if p.whole {
		return all
	}
	alike, pods := map[string]bool{}, map[string][]*corev1.Pod{}
	for _, pod := range p.moving {
		if name := pod.Namespace + " " + labels.Set(pod.Labels).String(); !alike[name] {
			alike[name] = true
			pods[pod.Namespace] = append(pods[pod.Namespace], pod)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(b policyv1.PodDisruptionBudget) bool {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		return err == nil && !slices.ContainsFunc(pods[b.Namespace], func(pod *corev1.Pod) bool {
			return selector.Matches(labels.Set(pod.Labels))
		})
	})
}
