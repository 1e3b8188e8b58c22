package planjson

// APIVersion and Kind name the shape.
const (
	APIVersion = "plan.plumbline.dev/v1alpha1"
	Kind       = "Plan"
)

// Plan is what would be done of one revision, and what it would do to nodes.
type Plan struct {
	// APIVersion is plan.plumbline.dev/v1alpha1.
	APIVersion string `json:"apiVersion"`
	// Kind is Plan.
	Kind string `json:"kind"`
	// NodeSync is its namespace and name; empty if a folder is compared with nothing.
	NodeSync string `json:"nodeSync,omitempty"`
	// Cluster is the name of the cluster in plumbline.yaml; empty if that is not known.
	Cluster string `json:"cluster,omitempty"`
	// Revision is what the Plan is made for, such as main@sha1:4f2e….
	Revision string `json:"revision,omitempty"`
	// Changes are the objects that are not as Git says, classes first, then by name.
	Changes []Change `json:"changes"`
	// Removals are the entries that have left Git and have not ended a node yet.
	Removals []Removal `json:"removals"`
	// NodePools are those of the cluster as they are before it, of any NodeSync.
	NodePools []NodePool `json:"nodePools"`
	// NodeClaims are all nodes of the cluster as Karpenter claims them, of any NodeSync.
	NodeClaims []NodeClaim `json:"nodeClaims"`
	// Totals count.
	Totals Totals `json:"totals"`
}

// Change is what would be done with one object of the repository.
type Change struct {
	// Object is kind and name, such as NodePool/default.
	Object string `json:"object"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	// Action is what is done with it: Create, Update, Adopt, TakeBack (it was leaving, and Git has
	// it again), Wait, Conflict, Refuse, Drifted (only reported), or Hold.
	Action string `json:"action"`
	// Reason is one word for why.
	Reason string `json:"reason,omitempty"`
	// Drift reports whether Git has not changed since the object was as Git says: another client has
	// changed or deleted it.
	Drift bool `json:"drift,omitempty"`
	// Restores says of a TakeBack that Git has the entry as it was when its removal was recorded, or
	// its rollout was stopped: nothing is new.
	Restores bool `json:"restores,omitempty"`
	// Effect is what it does to nodes: None, Replace, Drain (without a replacement), Consolidate (Karpenter may terminate
	// nodes that are empty or underused), or Blocked.
	Effect string `json:"effect"`
	// Nodes is how many nodes the effect is on.
	Nodes int `json:"nodes"`
	// UpTo reports whether Nodes is the most that it can be.
	UpTo bool `json:"upTo,omitempty"`
	// Unavailable is what plumbline lacks to tell which, and what to do about it. Its words may change.
	Unavailable string `json:"unavailable,omitempty"`
	// DriftReasons are Karpenter's, for which these nodes will be Drifted.
	DriftReasons []string `json:"driftReasons,omitempty"`
	// NodeClaims are those of these nodes that can be told.
	NodeClaims []NodeClaim `json:"nodeClaims,omitempty"`
	// Fields are those that would change.
	Fields []Field `json:"fields,omitempty"`
	// Labels are the object's own, as Git has them.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are the object's own, as Git has them.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Spec is the object's, as Git has it, with the defaults of its CRD.
	Spec map[string]any `json:"spec,omitempty"`
	// LiveLabels are those of the object in the cluster.
	LiveLabels map[string]string `json:"liveLabels,omitempty"`
	// LiveSpec is the object's in the cluster; empty if it is not there.
	LiveSpec map[string]any `json:"liveSpec,omitempty"`
	// Warnings are sentences on what it does to nodes beside the effect, and Notes on what else it
	// changes. Their words may change.
	Warnings []string `json:"warnings,omitempty"`
	Notes    []string `json:"notes,omitempty"`
	// Message says it to a person. Its words may change.
	Message string `json:"message,omitempty"`
}

// Removal is one entry that leaves.
type Removal struct {
	// Object is kind and name, such as NodePool/default.
	Object string `json:"object"`
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	// MovesTo are the names of the near-equal entries of Git that take its place, of the same kind:
	// it was renamed, split, merged or given another class. Empty if none does. It is a removal
	// all the same.
	MovesTo []string `json:"movesTo,omitempty"`
	// Nodes is how many nodes go with it.
	Nodes int `json:"nodes"`
	// NodeClaims are these nodes.
	NodeClaims []NodeClaim `json:"nodeClaims,omitempty"`
	// Orphan reports whether it is orphaned instead (spec.removal.strategy), and Leaves is how many
	// nodes nobody manages then.
	Orphan bool `json:"orphan,omitempty"`
	Leaves int  `json:"leaves,omitempty"`
	// Labels and Spec are the object's in the cluster; empty if it is not there any more.
	Labels map[string]string `json:"labels,omitempty"`
	Spec   map[string]any    `json:"spec,omitempty"`
	// Recorded reports whether an earlier reconcile has recorded it.
	Recorded bool `json:"recorded,omitempty"`
	// Terminating reports whether another client has deleted the object already: its nodes end with it.
	Terminating bool `json:"terminating,omitempty"`
	// Held reports whether it does not go on until a person has decided.
	Held bool `json:"held"`
	// Queued reports whether it waits for earlier removals to complete, and starts by itself then.
	Queued bool `json:"queued,omitempty"`
	// Reason is one word for why it is held or queued.
	Reason string `json:"reason,omitempty"`
	// Message says it to a person. Its words may change.
	Message string `json:"message,omitempty"`
}

// Field is one field that would change. A value that is not there is the empty string.
type Field struct {
	Path string `json:"path"`
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// NodePool is one of the cluster.
type NodePool struct {
	Name string `json:"name"`
	// Class is the name of its EC2NodeClass.
	Class string `json:"class"`
	// Labels are its own, not those of its nodes.
	Labels map[string]string `json:"labels,omitempty"`
}

// NodeClaim is one node as Karpenter claims it. What Karpenter has not noted is empty.
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
	// Deleting reports whether it ends already, and Drifted that Karpenter has found it outdated.
	Deleting bool `json:"deleting,omitempty"`
	Drifted  bool `json:"drifted,omitempty"`
}

// Totals are counts over the whole Plan.
type Totals struct {
	// Nodes is how many nodes the NodePools of the NodeSync have, and ClusterNodes how many there
	// are in all.
	Nodes        int `json:"nodes"`
	ClusterNodes int `json:"clusterNodes"`
	// DisruptedNodes is how many drain or are replaced, each counted once.
	DisruptedNodes int `json:"disruptedNodes"`
	// UpTo reports whether DisruptedNodes is the most that it can be.
	UpTo bool `json:"upTo,omitempty"`
	// RemovedPools is how many NodePools leave.
	RemovedPools int `json:"removedPools"`
}
