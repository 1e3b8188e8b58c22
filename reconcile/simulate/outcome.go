package simulate

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
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	karpscheduling "sigs.k8s.io/karpenter/pkg/scheduling"
)

// Outcome is the result of a simulation.
type Outcome struct {
	// Region is the region of the instance types.
	Region string `json:"region,omitempty"`
	// Unlaunchable are the NodePools whose requirements no instance type meets that EC2 offers in the region, by name.
	Unlaunchable []string `json:"unlaunchable,omitempty"`
	// Ending is how many nodes the commit touches, and Leaving how many pods on them would be rescheduled.
	Ending  int `json:"nodesEnding"`
	Leaving int `json:"podsLeaving"`
	// Moves are pods that leave a pool's nodes and can be scheduled.
	Moves []Move `json:"moves,omitempty"`
	// Nowhere are unschedulable pods.
	Nowhere []Stranded `json:"nowhere,omitempty"`
	// Staying are pods that may not be evicted, which block their nodes.
	Staying []Blocked `json:"staying,omitempty"`
	// Placed are pods that are pending, would stay pending, and can be scheduled because of the commit.
	Placed []string `json:"placed,omitempty"`
	// New are the nodes that would be launched.
	New []NewNodes `json:"newNodes,omitempty"`
	// Buffers are the CapacityBuffers after the commit, if Karpenter's feature gate is enabled.
	Buffers []Buffer `json:"capacityBuffers,omitempty"`
	// Cost is what the pools' nodes cost before and after.
	Cost Cost `json:"cost"`
	// Unknown are the notes on pools for which it is unknown whether they would take a pod.
	Unknown []string `json:"-"`
	// Undecided are the NodePools for which it is unknown whether an instance type of the region meets them, by name,
	// with the reason.
	Undecided map[string]string `json:"-"`
	// Notes are sentences on what is not counted.
	Notes []string `json:"notes,omitempty"`
}

// Move is how many pods of a pool's nodes are scheduled to another pool.
type Move struct {
	From string `json:"from"`
	// To is the pool of the nodes to which they are scheduled; empty for nodes without a pool.
	To string `json:"to,omitempty"`
	// New reports whether these nodes do not exist yet.
	New  bool `json:"new,omitempty"`
	Pods int  `json:"pods"`
}

// Stranded is an unschedulable pod.
type Stranded struct {
	Pod string `json:"pod"`
	// Workload is the namespace, kind and name of its owner, or of the pod itself if it has none.
	Workload string `json:"workload,omitempty"`
	// Pool and Node are where it runs; empty if it is pending.
	Pool string `json:"pool,omitempty"`
	Node string `json:"node,omitempty"`
	// Already reports whether it is already pending and the commit does not help.
	Already bool `json:"already,omitempty"`
	// Reason is Karpenter's.
	Reason string `json:"reason"`
}

// Blocked is a pod that may not be evicted.
type Blocked struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	Why  string `json:"why"`
}

// NewNodes are new nodes of one kind.
type NewNodes struct {
	Pool  string `json:"pool"`
	Count int    `json:"count"`
	// Pods is how many pods are scheduled to them, and Placeholders how many placeholder pods of CapacityBuffers.
	Pods         int `json:"pods"`
	Placeholders int `json:"placeholderPods,omitempty"`
	// Types are the possible instance types, the cheapest first: EC2 Fleet chooses.
	Types         []string `json:"instanceTypes"`
	CapacityTypes []string `json:"capacityTypes"`
	Zones         []string `json:"zones"`
	// Lowest and Highest are what one of them costs per hour, by list prices.
	Lowest  float64 `json:"lowestPerHour"`
	Highest float64 `json:"highestPerHour"`
}

// Cost is in USD per hour, or CNY in China, by list prices, with NodeOverlays applied.
type Cost struct {
	// PricesOf is the region of the prices, if the tables contain none for the cluster's region.
	PricesOf string `json:"pricesOf,omitempty"`
	// Before is the cost of the pools' nodes today.
	Before float64 `json:"before"`
	// Lowest and Highest are the totals including the new nodes.
	Lowest  float64 `json:"lowestAfter"`
	Highest float64 `json:"highestAfter"`
	// Unpriced is how many nodes are in neither sum because they have no price.
	Unpriced int `json:"unpricedNodes,omitempty"`
	// Spot is how many nodes are counted at the on-demand price because the tables contain no spot prices.
	Spot int `json:"spotNodes,omitempty"`
}

// moves counts the pods that can be scheduled, by their old and new pool, and returns them.
func (s *simulation) moves() map[client.ObjectKey]bool {
	placed := map[client.ObjectKey]bool{}
	lost := failures(s.results)
	add := func(pods []*corev1.Pod, to string, isNew bool) (n int) {
		for _, pod := range pods {
			if lost[pod] != nil {
				continue
			}
			if bufferOf(pod) != "" {
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
			fresh.Placeholders = countPlaceholders(node.Pods) // each round schedules all of them again
		}
	}
	for _, node := range s.results.NewNodeClaims {
		add(node.Pods, node.NodePoolName, true)
	}
	s.out.Moves = summed(s.out.Moves)
	return placed
}

// countUnschedulable names the unschedulable pods, with Karpenter's reason, and those that can be scheduled because of
// the commit.
func (s *simulation) countUnschedulable(
	ctx context.Context, leaving map[client.ObjectKey]*corev1.Pod, pending map[client.ObjectKey]string, placed map[client.ObjectKey]bool,
) {
	reasons := map[client.ObjectKey]string{}
	for pod, err := range failures(s.results) {
		reasons[client.ObjectKeyFromObject(pod)] = err.Error()
	}
	for key, pod := range leaving {
		if placed[key] {
			continue
		}
		s.out.Nowhere = append(s.out.Nowhere, Stranded{
			Pod: key.String(), Workload: workloadOf(pod), Pool: s.pools[pod.Spec.NodeName], Node: pod.Spec.NodeName,
			Reason: s.reason(ctx, reasons, pod),
		})
	}
	for key, without := range pending {
		switch {
		case placed[key] && without != "":
			s.out.Placed = append(s.out.Placed, key.String())
		case !placed[key]:
			s.out.Nowhere = append(s.out.Nowhere,
				Stranded{Pod: key.String(), Already: without != "", Reason: s.reason(ctx, reasons, &corev1.Pod{ObjectMeta: named(key)})})
		}
	}
	s.sort()
}

// reason returns Karpenter's reason: the scheduler's, or why the scheduler does not consider the pod at all.
func (s *simulation) reason(ctx context.Context, reasons map[client.ObjectKey]string, pod *corev1.Pod) string {
	key := client.ObjectKeyFromObject(pod)
	if why := cmp.Or(reasons[key], s.after.recorder.said[key]); why != "" {
		return why
	}
	if err := scheduling.NewVolumeTopology(s.after.client).ValidatePersistentVolumeClaims(ctx, pod); err != nil {
		return err.Error()
	}
	return "Karpenter does not schedule it"
}

// launches sums up the new nodes of all rounds.
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
		kinds[key].Placeholders += n.Placeholders
	}
	for _, n := range kinds {
		s.out.New = append(s.out.New, *n)
	}
	slices.SortFunc(s.out.New, func(a, b NewNodes) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(b.Count, a.Count), cmp.Compare(strings.Join(a.Types, ","),
			strings.Join(b.Types, ",")),
			cmp.Compare(strings.Join(a.Zones, ","), strings.Join(b.Zones, ",")))
	})
}

func newNodes(claim *scheduling.NodeClaim) *NewNodes {
	placeholders := countPlaceholders(claim.Pods)
	n := &NewNodes{Pool: claim.NodePoolName, Count: 1, Pods: len(claim.Pods) - placeholders, Placeholders: placeholders}
	capacity, zones := map[string]bool{}, map[string]bool{}
	// Sorted by name first, so that instance types of equal prices are in the same order on each node.
	slices.SortFunc(claim.InstanceTypeOptions, func(a, b *cloudprovider.InstanceType) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range claim.InstanceTypeOptions.OrderByPrice(claim.Requirements) {
		offered := t.Offerings.Launchable().Compatible(claim.Requirements)
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

// unlaunchable names the NodePools for which Karpenter finds no instance type among those that EC2 offers, and those
// for which this is unknown: the instance types of the class are unknown, or the pool only accepts reserved instances,
// which were not queried in EC2.
func (s *simulation) unlaunchable(ctx context.Context, region string) {
	s.out.Region = region
	for _, name := range slices.Sorted(maps.Keys(s.after.recorder.unmet)) {
		pool := s.after.recorder.unmet[name]
		_, err := s.after.cloud.GetInstanceTypes(ctx, pool)
		switch {
		case err != nil:
			s.unknown(region, name, fmt.Sprintf("EC2NodeClass/%s: %v", pool.Spec.Template.Spec.NodeClassRef.Name, err))
		case reservedOnly(pool):
			s.unknown(region, name, "it allows reserved capacity only, and capacity reservations are not simulated")
		default:
			s.out.Unlaunchable = append(s.out.Unlaunchable, name)
		}
	}
}

func (s *simulation) unknown(region, pool, why string) {
	s.out.undecided(pool, why)
	s.out.Notes = append(s.out.Notes, fmt.Sprintf("unknown whether an instance type of %s meets NodePool/%s: %s", region, pool, why))
}

func (o *Outcome) undecided(pool, why string) {
	if o.Undecided == nil {
		o.Undecided = map[string]string{}
	}
	o.Undecided[pool] = why
}

// reservedOnly reports whether a NodePool accepts neither on-demand nor spot instances.
func reservedOnly(pool *karpv1.NodePool) bool {
	takes := karpscheduling.NewNodeSelectorRequirementsWithMinValues(pool.Spec.Template.Spec.Requirements...).Get(karpv1.CapacityTypeLabelKey)
	return takes.Has(karpv1.CapacityTypeReserved) && !takes.Has(karpv1.CapacityTypeOnDemand) && !takes.Has(karpv1.CapacityTypeSpot)
}
