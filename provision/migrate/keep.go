package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// zonesAtLeast and nodesAtLeast are what stays for the controllers: a zone may fail, and so may a node.
const zonesAtLeast, nodesAtLeast = 2, 2

// kept is how many nodes of a group stay, and which.
type kept struct {
	*Group
	// fixed reports whether the number is given: by the user, by a record, or because no autoscaler changes the group.
	fixed          bool
	n              int
	staying, going []*corev1.Node
}

// keeper decides which nodes stay.
type keeper struct {
	facts    *Facts
	groups   []*kept
	critical []*corev1.Pod
	// others are nodes of no group that stay: neither Karpenter's, nor Fargate's.
	others []*corev1.Node
}

// keep returns for each group how many nodes stay, by what the user requests, and what hosts the controllers in two zones.
// Errors: the user requests too few.
func keep(f *Facts, w Wish, groups []*Group, workloads []*Workload) ([]*kept, error) {
	k := &keeper{facts: f}
	for _, one := range workloads {
		for _, p := range one.Pods {
			if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				k.critical = append(k.critical, p)
			}
		}
	}
	k.others = f.others(groups)
	named := maps.Clone(w.Keep)
	for _, g := range groups {
		one := &kept{Group: g}
		n, asked := w.Keep[g.ID()]
		delete(named, g.ID())
		switch {
		case asked:
			one.fixed, one.n = true, min(n, len(g.Nodes))
		case g.Record != nil:
			one.fixed, one.n = true, min(g.Record.Keep, len(g.Nodes))
		case !g.Autoscaled:
			one.fixed, one.n = true, len(g.Nodes)
		}
		k.groups = append(k.groups, one)
	}
	if len(named) > 0 {
		return nil, fmt.Errorf("--keep %s: the cluster has no such group of nodes: it has %s",
			slices.Sorted(maps.Keys(named))[0], idsOf(groups))
	}
	k.choose()
	lacking := k.lacking()
	for lacking != "" && k.raise() {
		lacking = k.lacking()
	}
	if lacking != "" {
		if suggestion := k.suggestion(w); suggestion != "" {
			return nil, fmt.Errorf("%s: %s; keep at least %s", k.words(), lacking, suggestion)
		}
	}
	return k.groups, nil
}

// others returns the nodes of no group that stay, as those of EKS Auto Mode or of other tools do.
func (f *Facts) others(groups []*Group) []*corev1.Node {
	var nodes []*corev1.Node
	for i := range f.Nodes {
		n := &f.Nodes[i]
		inGroup := slices.ContainsFunc(groups, func(g *Group) bool { return slices.Contains(g.Nodes, n) })
		if !inGroup && n.Labels[nodePoolLabel] == "" && n.Labels[computeTypeLabel] != "fargate" && n.Annotations[CordonAnnotation] == "" &&
			!n.Spec.Unschedulable && nodeReady(n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func idsOf(groups []*Group) string {
	var ids []string
	for _, g := range groups {
		ids = append(ids, g.ID())
	}
	if len(ids) == 0 {
		return "none"
	}
	return strings.Join(ids, ", ")
}

// words returns what would stay.
func (k *keeper) words() string {
	var parts []string
	for _, g := range k.groups {
		parts = append(parts, fmt.Sprintf("%s=%d", g.ID(), g.n))
	}
	return "with " + strings.Join(parts, ", ")
}

// choose picks the nodes that stay in each group: those that can run pods and that an earlier run has not cordoned, in the zones with the fewest,
// with the most pods of controllers.
func (k *keeper) choose() {
	for _, g := range k.groups {
		rest := slices.Clone(g.Nodes)
		g.staying, g.going = nil, nil
		zones := map[string]int{}
		for range g.n {
			best := slices.MinFunc(rest, func(a, b *corev1.Node) int {
				return cmp.Or(cmp.Compare(unusable(a), unusable(b)), cmp.Compare(cordonedByUs(a), cordonedByUs(b)), cmp.Compare(zones[zoneOf(a)], zones[zoneOf(b)]),
					cmp.Compare(k.hosts(b.Name), k.hosts(a.Name)), strings.Compare(a.Name, b.Name))
			})
			zones[zoneOf(best)]++
			g.staying = append(g.staying, best)
			rest = slices.DeleteFunc(rest, func(n *corev1.Node) bool { return n == best })
		}
		g.going = rest
	}
}

// unusable returns 1 for a node that can run no pod: it is not Ready, or another client has cordoned it.
func unusable(n *corev1.Node) int {
	if !nodeReady(n) || n.Spec.Unschedulable && cordonedByUs(n) == 0 {
		return 1
	}
	return 0
}

func zoneOf(n *corev1.Node) string { return n.Labels[corev1.LabelTopologyZone] }

func cordonedByUs(n *corev1.Node) int {
	if n.Annotations[CordonAnnotation] != "" {
		return 1
	}
	return 0
}

// hosts returns how many pods of controllers run on a node.
func (k *keeper) hosts(node string) int {
	n := 0
	for _, p := range k.critical {
		if p.Spec.NodeName == node {
			n++
		}
	}
	return n
}

// staying returns all nodes that stay and can run some pod of a controller.
func (k *keeper) staying() []*corev1.Node {
	nodes := slices.Clone(k.others)
	for _, g := range k.groups {
		nodes = append(nodes, g.staying...)
	}
	return slices.DeleteFunc(nodes, func(n *corev1.Node) bool {
		return unusable(n) == 1 || len(k.critical) > 0 && !slices.ContainsFunc(k.critical, func(p *corev1.Pod) bool { return runsOn(p, n) })
	})
}

// lacking returns why what stays is too little for the controllers; empty if it is enough.
func (k *keeper) lacking() string {
	nodes := k.staying()
	zones := map[string]bool{}
	for _, n := range nodes {
		zones[zoneOf(n)] = true
	}
	possible := map[string]bool{}
	for _, n := range k.others {
		possible[zoneOf(n)] = true
	}
	for _, g := range k.groups {
		for _, n := range g.Nodes {
			if unusable(n) == 0 {
				possible[zoneOf(n)] = true
			}
		}
	}
	switch pod := unplaced(k.critical, nodes, k.facts); {
	case len(nodes) < nodesAtLeast:
		return fmt.Sprintf("%s would stay for the controllers, which need %d", english.Plural(len(nodes), "node", ""), nodesAtLeast)
	case len(zones) < min(zonesAtLeast, len(possible)):
		return "the nodes that stay would all be in zone " + zoneOf(nodes[0])
	case pod != nil:
		return fmt.Sprintf("pod %s/%s would not fit on the nodes that stay", pod.Namespace, pod.Name)
	}
	return ""
}

// raise keeps one more node of a group whose number is not given: of the group with the most pods of controllers, in a new
// zone if possible. ok is false if there is none.
func (k *keeper) raise() (ok bool) {
	zones := map[string]bool{}
	for _, n := range k.staying() {
		zones[zoneOf(n)] = true
	}
	var best *kept
	score := func(g *kept) (rank [3]int) {
		for _, n := range g.going {
			if !zones[zoneOf(n)] {
				rank[0] = 1
			}
			if slices.ContainsFunc(k.critical, func(p *corev1.Pod) bool { return runsOn(p, n) }) {
				rank[1] = 1
			}
		}
		for _, n := range g.Nodes {
			rank[2] += k.hosts(n.Name)
		}
		if len(zones) < zonesAtLeast {
			return rank
		}
		return [3]int{0, rank[1], rank[2]}
	}
	for _, g := range k.groups {
		if g.fixed || len(g.going) == 0 {
			continue
		}
		if best == nil || slices.Compare(sliceOf(score(g)), sliceOf(score(best))) > 0 {
			best = g
		}
	}
	if best == nil {
		return false
	}
	best.n++
	k.choose()
	return true
}

func sliceOf(rank [3]int) []int { return rank[:] }

// suggestion returns what the user has to keep at least, if the request is what makes it too little.
func (k *keeper) suggestion(w Wish) string {
	if len(w.Keep) == 0 {
		return "" // all nodes of the groups are too few: then all stay
	}
	free := &keeper{facts: k.facts, critical: k.critical, others: k.others}
	for _, g := range k.groups {
		_, asked := w.Keep[g.ID()]
		free.groups = append(free.groups, &kept{Group: g.Group, fixed: g.fixed && !asked, n: g.n})
	}
	free.choose()
	for free.lacking() != "" && free.raise() {
	}
	var parts []string
	for i, g := range free.groups {
		if _, asked := w.Keep[g.ID()]; asked && g.n > k.groups[i].n {
			parts = append(parts, fmt.Sprintf("%s=%d", g.ID(), g.n))
		}
	}
	return strings.Join(parts, ", ")
}

// runsOn reports whether a node satisfies what a pod requires of it: taints, node selector and affinity.
func runsOn(p *corev1.Pod, n *corev1.Node) bool {
	for i := range n.Spec.Taints {
		taint := &n.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectPreferNoSchedule || taint.Key == corev1.TaintNodeUnschedulable {
			continue
		}
		if !slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(t, taint) }) {
			return false
		}
	}
	match, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n)
	return err == nil && match
}

// tolerates reports whether a toleration covers a taint. Operators beside Exists and Equal count as neither.
func tolerates(t corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		return t.Key != "" && t.Value == taint.Value
	default:
		return false
	}
}

// room is what a node has left, in millicores, bytes and pods.
type room struct{ cpu, memory, pods int64 }

// unplaced returns a pod for which the nodes have no room, the largest pods first; nil if all fit. Only the pods of
// DaemonSets take room before: others are moved or preempted.
func unplaced(pods []*corev1.Pod, nodes []*corev1.Node, f *Facts) *corev1.Pod {
	left := make([]room, len(nodes))
	for i, n := range nodes {
		left[i] = room{n.Status.Allocatable.Cpu().MilliValue(), n.Status.Allocatable.Memory().Value(), n.Status.Allocatable.Pods().Value()}
		for _, p := range f.podsOn(n.Name) {
			if staysOnNode(p) {
				cpu, memory := requests(p)
				left[i] = room{left[i].cpu - cpu, left[i].memory - memory, left[i].pods - 1}
			}
		}
	}
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		cpuA, memoryA := requests(a)
		cpuB, memoryB := requests(b)
		return cmp.Or(cmp.Compare(cpuB, cpuA), cmp.Compare(memoryB, memoryA), strings.Compare(a.Namespace+a.Name, b.Namespace+b.Name))
	})
	for _, p := range sorted {
		cpu, memory := requests(p)
		i := slices.IndexFunc(nodes, func(n *corev1.Node) bool {
			at := slices.Index(nodes, n)
			return left[at].cpu >= cpu && left[at].memory >= memory && left[at].pods >= 1 && runsOn(p, n)
		})
		if i < 0 {
			return p
		}
		left[i] = room{left[i].cpu - cpu, left[i].memory - memory, left[i].pods - 1}
	}
	return nil
}

// requests returns what the containers of a pod request together, in millicores and bytes.
func requests(p *corev1.Pod) (cpu, memory int64) {
	for i := range p.Spec.Containers {
		r := p.Spec.Containers[i].Resources.Requests
		cpu, memory = cpu+r.Cpu().MilliValue(), memory+r.Memory().Value()
	}
	return cpu, memory
}

// staysOnNode reports whether a pod belongs to its node, and is not evicted: that of a DaemonSet, or of the kubelet itself.
func staysOnNode(p *corev1.Pod) bool {
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	owner := metav1.GetControllerOf(p)
	return mirror || owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}
