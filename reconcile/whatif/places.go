package whatif

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
)

// moves counts the pods that find a place, by where they come from and go to, and says which.
func (s *simulation) moves() map[client.ObjectKey]bool {
	placed, counts := map[client.ObjectKey]bool{}, map[Move]int{}
	lost := failures(s.results)
	add := func(pods []*corev1.Pod, to string, isNew bool) {
		for _, pod := range pods {
			if lost[pod] != nil {
				continue
			}
			placed[client.ObjectKeyFromObject(pod)] = true
			if s.touched[pod.Spec.NodeName] {
				counts[Move{From: s.pools[pod.Spec.NodeName], To: to, New: isNew}]++
			}
		}
	}
	for _, node := range s.results.ExistingNodes {
		add(node.Pods, node.Labels()[karpv1.NodePoolLabelKey], false)
	}
	for _, node := range s.results.NewNodeClaims {
		add(node.Pods, node.NodePoolName, true)
	}
	for move, n := range counts {
		move.Pods = n
		s.out.Moves = append(s.out.Moves, move)
	}
	slices.SortFunc(s.out.Moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(fmt.Sprint(a.New), fmt.Sprint(b.New)))
	})
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

// launches sums up the nodes that would be launched.
func (s *simulation) launches() {
	kinds := map[string]*NewNodes{}
	for _, claim := range s.results.NewNodeClaims {
		n := newNodes(claim)
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
