package whatif

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
)

// moves counts the pods that find a place, by where they come from and go to, and says which.
func (s *simulation) moves() map[client.ObjectKey]bool {
	placed := map[client.ObjectKey]bool{}
	lost := failures(s.results)
	add := func(pods []*corev1.Pod, to string, isNew bool) (n int) {
		for _, pod := range pods {
			if lost[pod] != nil {
				continue
			}
			n++
			placed[client.ObjectKeyFromObject(pod)] = true
			if s.touched[pod.Spec.NodeName] {
				s.out.Moves = append(s.out.Moves, Move{From: s.pools[pod.Spec.NodeName], To: to, New: isNew, Pods: 1})
			}
		}
		return n
	}
	for _, node := range s.results.ExistingNodes {
		fresh := s.fresh[node.Name()]
		n := add(node.Pods, node.Labels()[karpv1.NodePoolLabelKey], fresh != nil)
		if fresh != nil {
			fresh.Pods += n
		}
	}
	for _, node := range s.results.NewNodeClaims {
		add(node.Pods, node.NodePoolName, true)
	}
	s.out.Moves = summed(s.out.Moves)
	return placed
}

// strand names the pods that find no place, with Karpenter's reason, and those that get one by
// the commit.
func (s *simulation) strand(ctx context.Context, leaving map[client.ObjectKey]*corev1.Pod, pending map[client.ObjectKey]string, placed map[client.ObjectKey]bool) {
	reasons := map[client.ObjectKey]string{}
	for pod, err := range failures(s.results) {
		reasons[client.ObjectKeyFromObject(pod)] = err.Error()
	}
	for key, pod := range leaving {
		if placed[key] {
			continue
		}
		s.out.Nowhere = append(s.out.Nowhere, Stranded{Pod: key.String(), Workload: workloadOf(pod), Pool: s.pools[pod.Spec.NodeName], Node: pod.Spec.NodeName, Reason: s.reason(ctx, reasons, pod)})
	}
	for key, without := range pending {
		switch {
		case placed[key] && without != "":
			s.out.Placed = append(s.out.Placed, key.String())
		case !placed[key]:
			s.out.Nowhere = append(s.out.Nowhere, Stranded{Pod: key.String(), Already: without != "", Reason: s.reason(ctx, reasons, &corev1.Pod{ObjectMeta: named(key)})})
		}
	}
	s.sort()
}

// reason is Karpenter's: the scheduler's, or why it does not take the pod up at all.
func (s *simulation) reason(ctx context.Context, reasons map[client.ObjectKey]string, pod *corev1.Pod) string {
	key := client.ObjectKeyFromObject(pod)
	if why := cmp.Or(reasons[key], s.after.recorder.said[key]); why != "" {
		return why
	}
	if err := scheduling.NewVolumeTopology(s.after.client).ValidatePersistentVolumeClaims(ctx, pod); err != nil {
		return err.Error()
	}
	return "Karpenter does not take it up"
}

// launches sums up the nodes that would be launched: those of earlier rounds, and of the last one.
func (s *simulation) launches(last []*scheduling.NodeClaim) {
	all := slices.Collect(maps.Values(s.fresh))
	for _, claim := range last {
		all = append(all, newNodes(claim))
	}
	kinds := map[string]*NewNodes{}
	for _, n := range all {
		key := fmt.Sprint(n.Pool, n.Types, n.CapacityTypes, n.Zones)
		if kinds[key] == nil {
			kinds[key] = n
			continue
		}
		kinds[key].Count++
		kinds[key].Pods += n.Pods
	}
	for _, n := range kinds {
		s.out.New = append(s.out.New, *n)
	}
	slices.SortFunc(s.out.New, func(a, b NewNodes) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(b.Count, a.Count), cmp.Compare(strings.Join(a.Types, ","), strings.Join(b.Types, ",")),
			cmp.Compare(strings.Join(a.Zones, ","), strings.Join(b.Zones, ",")))
	})
}

func newNodes(claim *scheduling.NodeClaim) *NewNodes {
	n := &NewNodes{Pool: claim.NodePoolName, Count: 1, Pods: len(claim.Pods)}
	capacity, zones := map[string]bool{}, map[string]bool{}
	for _, t := range claim.InstanceTypeOptions.OrderByPrice(claim.Requirements) {
		offered := t.Offerings.Available().Compatible(claim.Requirements)
		if len(offered) == 0 {
			continue
		}
		n.Types = append(n.Types, t.Name)
		for _, o := range offered {
			capacity[o.CapacityType()], zones[o.Zone()] = true, true
		}
		if low := offered.Cheapest().Price; len(n.Types) == 1 || low < n.Lowest {
			n.Lowest = low
		}
		n.Highest = max(n.Highest, offered.MostExpensive().Price)
	}
	n.CapacityTypes, n.Zones = sorted(capacity), sorted(zones)
	return n
}
