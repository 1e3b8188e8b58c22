package planjson

// APIVersion and Kind identify the format.
const (
	APIVersion = "plan.plumbline.dev/v1alpha1"
	Kind       = "Plan"
)

// Plan is what plumbline would do for one revision, and the effect on nodes.
type Plan struct {
	// APIVersion is plan.plumbline.dev/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is Plan.
	Kind string `json:"kind"`
	// NodeSync is its namespace and name; empty if a folder is not compared with a cluster.
	NodeSync string `json:"nodeSync,omitempty"`
	// Cluster is the name of the cluster in plumbline.yaml; empty if unknown.
	Cluster string `json:"cluster,omitempty"`
	// Revision is the revision of the Plan, such as main@sha1:4f2e….
	Revision string `json:"revision,omitempty"`
	// Changes are the objects that differ from Git, classes first, then by name.
	Changes []Change `json:"changes"`
	// Removals are the objects that were removed from Git and have not terminated a node yet.
	Removals []Removal `json:"removals"`
	// NodePools are those of the cluster before the Plan, of any NodeSync.
	NodePools []NodePool `json:"nodePools"`
	// NodeClaims are all NodeClaims of the cluster, of any NodeSync.
	NodeClaims []NodeClaim `json:"nodeClaims"`
	// Totals are counts over the whole Plan.
	Totals Totals `json:"totals"`
}

// Change is what plumbline would do with one object in Git.
type Change struct {
	// Object is kind and name, such as NodePool/default.
	Object string `json:"object"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	// Action is what is done with it: Create, Update, Adopt, TakeBack (its removal is reverted, because Git contains it
	// again), Wait, Conflict, Refuse, Drifted (only reported), or Hold.
	Action string `json:"action"`
	// Reason is one word for the cause.
	Reason string `json:"reason,omitempty"`
	// Drift reports whether Git has not changed since the object last matched it: another client changed or deleted the
	// object.
	Drift bool `json:"drift,omitempty"`
	// Restores reports whether a TakeBack brings nothing new: the object in Git is the same as when its removal was
	// recorded, or its rollout was stopped.
	Restores bool `json:"restores,omitempty"`
	// Effect is what it does to nodes: None, Replace, Drain (without a replacement), Consolidate (Karpenter may
	// terminate nodes that are empty or underutilized), or Blocked.
	Effect string `json:"effect"`
	// Nodes is how many nodes the effect applies to.
	Nodes int `json:"nodes"`
	// UpTo reports whether Nodes is an upper limit.
	UpTo bool `json:"upTo,omitempty"`
	// Unavailable is the missing information about which nodes, and what to do about it. Its wording may change.
	Unavailable string `json:"unavailable,omitempty"`
	// DriftReasons are Karpenter's reasons for which these nodes will be Drifted.
	DriftReasons []string `json:"driftReasons,omitempty"`
	// NodeClaims are those of these nodes that can be identified. If they are more than Nodes and UpTo is false, the
	// effect applies to some of them: Karpenter's choice is not predictable.
	NodeClaims []NodeClaim `json:"nodeClaims,omitempty"`
	// Fields are the fields that would change.
	Fields []Field `json:"fields,omitempty"`
	// Labels are the object's own in Git.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are the object's own in Git.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Spec is the object's spec in Git, with the defaults of its CRD.
	Spec map[string]any `json:"spec,omitempty"`
	// LiveLabels are those of the object in the cluster.
	LiveLabels map[string]string `json:"liveLabels,omitempty"`
	// LiveSpec is the object's spec in the cluster; empty if it does not exist.
	LiveSpec map[string]any `json:"liveSpec,omitempty"`
	// Warnings are sentences about its consequences for nodes besides the effect, and Notes about its other
	// consequences. Their wording may change.
	Warnings []string `json:"warnings,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	// Message explains it to a person. Its wording may change.
	Message string `json:"message,omitempty"`
}

// Removal is one object that is removed.
type Removal struct {
	// Object is kind and name, such as NodePool/default.
	Object string `json:"object"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	// MovesTo are the names of the similar objects in Git that replace it, of the same kind: it was renamed, split,
	// merged or given another class. Empty if there are none. It is still a removal.
	MovesTo []string `json:"movesTo,omitempty"`
	// Nodes is how many nodes are terminated with it. If UpTo, it is how many Karpenter may consolidate at most without
	// it: it is a CapacityBuffer, which keeps capacity free.
	Nodes int  `json:"nodes"`
	UpTo  bool `json:"upTo,omitempty"`
	// NodeClaims are these nodes.
	NodeClaims []NodeClaim `json:"nodeClaims,omitempty"`
	// Orphan reports whether it is orphaned instead (spec.removal.strategy), and Leaves is how many nodes are then no
	// longer managed.
	Orphan bool `json:"orphan,omitempty"`
	Leaves int  `json:"leaves,omitempty"`
	// Labels and Spec are the object's in the cluster; empty if it no longer exists.
	Labels map[string]string `json:"labels,omitempty"`
	Spec   map[string]any    `json:"spec,omitempty"`
	// Recorded reports whether an earlier reconcile has recorded it.
	Recorded bool `json:"recorded,omitempty"`
	// Terminating reports whether another client has deleted the object already: its nodes terminate with it.
	Terminating bool `json:"terminating,omitempty"`
	// Held reports whether it waits until a person has decided.
	Held bool `json:"held"`
	// Queued reports whether it waits for earlier removals to complete; then it starts by itself.
	Queued bool `json:"queued,omitempty"`
	// Reason is one word for why it is held or queued.
	Reason string `json:"reason,omitempty"`
	// Message explains it to a person. Its wording may change.
	Message string `json:"message,omitempty"`
}

// Field is one field that would change. An absent value is the empty string.
type Field struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// NodePool is a NodePool of the cluster.
type NodePool struct {
	Name string `json:"name"`
	// Class is the name of its EC2NodeClass.
	Class string `json:"class"`
	// Labels are its own, not those of its nodes.
	Labels map[string]string `json:"labels,omitempty"`
}

// NodeClaim is a NodeClaim of the cluster. Values that Karpenter has not set are empty.
type NodeClaim struct {
	Name string `json:"name"`
	// Pool is the name of its NodePool, and Class that of its EC2NodeClass.
	Pool  string `json:"pool"`
	Class string `json:"class,omitempty"`
	// Node is the name of its Node; empty until it has joined.
	Node         string `json:"node,omitempty"`
	InstanceType string `json:"instanceType,omitempty"`
	// CapacityType is spot, on-demand or reserved.
	CapacityType string `json:"capacityType,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// Deleting reports whether it is terminating, and Drifted whether Karpenter has marked it Drifted.
	Deleting bool `json:"deleting,omitempty"`
	Drifted  bool `json:"drifted,omitempty"`
	// TerminationGracePeriod is how long its drain may take, as a duration such as 1h30m; empty if that is not limited.
	TerminationGracePeriod string `json:"terminationGracePeriod,omitempty"`
}

// Totals are counts over the whole Plan.
type Totals struct {
	// Nodes is how many nodes the NodePools of the NodeSync have, and ClusterNodes is the total of the cluster.
	Nodes        int `json:"nodes"`
	ClusterNodes int `json:"clusterNodes"`
	// DisruptedNodes is how many are drained or replaced, each counted once.
	DisruptedNodes int `json:"disruptedNodes"`
	// UpTo reports whether DisruptedNodes is an upper limit.
	UpTo bool `json:"upTo,omitempty"`
	// RemovedPools is how many NodePools are removed.
	RemovedPools int `json:"removedPools"`
}
