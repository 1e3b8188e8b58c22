package whatif

// Outcome is what would become of pods.
type Outcome struct {
	// Region is that of the instance types.
	Region string `json:"region,omitempty"`
	// Unlaunchable are the NodePools whose requirements no instance type meets that EC2 offers in the region, by name.
	Unlaunchable []string `json:"unlaunchable,omitempty"`
	// Ending is how many nodes the commit touches, and Leaving how many pods are on them that
	// would be scheduled again.
	Ending  int `json:"nodesEnding"`
	Leaving int `json:"podsLeaving"`
	// Moves are pods that leave a pool's nodes and find a place.
	Moves []Move `json:"moves,omitempty"`
	// Nowhere are pods that find none.
	Nowhere []Stranded `json:"nowhere,omitempty"`
	// Staying are pods that may not be evicted, which keep their nodes.
	Staying []Blocked `json:"staying,omitempty"`
	// Placed are pods that are pending today, would stay so, and get a place by the commit.
	Placed []string `json:"placed,omitempty"`
	// New are the nodes that would be launched.
	New []NewNodes `json:"newNodes,omitempty"`
	// Cost is what nodes of pools cost before and after.
	Cost Cost `json:"cost"`
	// Unknown are the notes on pools of which nobody knows whether they would take a pod.
	Unknown []string `json:"-"`
	// Notes are sentences on what is not counted.
	Notes []string `json:"notes,omitempty"`
}

// Move is how many pods of a pool's nodes go to which place.
type Move struct {
	From string `json:"from"`
	// To is the pool of the nodes that they go to; empty for nodes without a pool.
	To string `json:"to,omitempty"`
	// New says that these nodes are not there yet.
	New  bool `json:"new,omitempty"`
	Pods int  `json:"pods"`
}

// Stranded is a pod that finds no place.
type Stranded struct {
	Pod string `json:"pod"`
	// Workload is the namespace, kind and name of what owns it; the pod's own if nothing does.
	Workload string `json:"workload,omitempty"`
	// Pool and Node are where it runs; empty for one that is pending today.
	Pool string `json:"pool,omitempty"`
	Node string `json:"node,omitempty"`
	// Already says that it is pending today and that the commit does not help it.
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

// NewNodes are nodes of one kind that would be launched.
type NewNodes struct {
	Pool  string `json:"pool"`
	Count int    `json:"count"`
	Pods  int    `json:"pods"`
	// Types are the instance types that could come, the cheapest first: EC2 Fleet decides.
	Types         []string `json:"instanceTypes"`
	CapacityTypes []string `json:"capacityTypes"`
	Zones         []string `json:"zones"`
	// Lowest and Highest are what one of them costs an hour, by list prices.
	Lowest  float64 `json:"lowestPerHour"`
	Highest float64 `json:"highestPerHour"`
}

// Cost is in USD an hour, or CNY in China, by list prices, with NodeOverlays applied.
type Cost struct {
	// PricesOf is the region that the prices are of, where the tables have none of the cluster's.
	PricesOf string `json:"pricesOf,omitempty"`
	// Before is that of the nodes of pools today.
	Before float64 `json:"before"`
	// Lowest and Highest are what the same and the new ones come to.
	Lowest  float64 `json:"lowestAfter"`
	Highest float64 `json:"highestAfter"`
	// Unpriced is how many nodes are in neither sum, as there is no price for them.
	Unpriced int `json:"unpricedNodes,omitempty"`
	// Spot is how many nodes are counted by the on-demand price, as the tables have none of spot.
	Spot int `json:"spotNodes,omitempty"`
}
