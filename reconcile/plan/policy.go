package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/render"
)

// Policy is what a NodeSync allows.
type Policy struct {
	// Owner is the NodeSync.
	Owner Owner
	// OtherSyncs are the other NodeSyncs that exist. A label that names none of
	// them counts as no label.
	OtherSyncs []OtherSync
	Adopt      v1alpha1.AdoptPolicy
	Drift      v1alpha1.DriftPolicy
	Guard      v1alpha1.Guard
	// Policies are asked about the Plan. One that does not compile is an error of Make, and what one
	// denies is Refused.
	Policies []v1alpha1.Policy
	// Applied are the definitions, with the schema's defaults, as each was found or
	// written in the cluster last. What differs from one that Git has not changed
	// since is drift. For one that is not among them NewRevision counts.
	Applied map[render.Ref]*unstructured.Unstructured
	// NewRevision says that the Set's revision has not been applied whole
	// before. What differs from a revision that was is drift.
	NewRevision bool
	// StatusLost says that the status knows of no revision that was applied, so
	// that nobody can say whether an entry has left the repository.
	StatusLost bool
	// SetBack says that the Set's revision is an ancestor of the one that was applied:
	// the branch was set back, or a mirror lags behind.
	SetBack bool
	// HistoryUnknown says that this may be so: the history in between cannot be known.
	// Unasked says that the Git host has not answered yet whether it is.
	HistoryUnknown, Unasked bool
	// StatusOlder says that only the record of what was applied tells that: the status was
	// restored, and so were the removals that it has.
	StatusOlder bool
	// Keeps says, with Deleting, that only the nodes go: the definitions stay.
	Keeps bool
	// Orphans says that what leaves is left to itself, with its nodes.
	Orphans bool
	// Brakes reports whether a rollout whose launches fail is stopped (spec.rollout.onFailure): only then
	// do replacements count by what may be replaced at one time.
	Brakes bool
	// Braked are the NodePools, by name, whose rollout is stopped.
	Braked map[string]bool
	// Emergency is the annotation by which windows and freezes do not count for a while; empty where
	// there is none.
	Emergency string
	// Released are the UIDs of removals that a person has released by name.
	Released map[types.UID]bool
	// Moves are what takes the place of NodePools, by their UID, whose removal is not recorded yet, as the last Plan has
	// found it.
	Moves map[types.UID][]string
	// Approved are what people have approved of what was held.
	Approved []v1alpha1.ApprovedPlan
	// UsedUp are those whose release counts no more, as Git has had the object since.
	UsedUp map[types.UID]bool
	// Deleting says that the NodeSync itself is being deleted and takes
	// everything with it: there is no Set, and nothing is weighed.
	Deleting bool
	// Offline says that nothing is known of a cluster.
	Offline bool
	// Hosts are the pods of Karpenter's controller and of plumbline that run on
	// nodes of a NodePool.
	Hosts []Host
	// DaemonSets are those that nodes need until their last pod has ended.
	DaemonSets DaemonSets
	// Karpenter is what Git wants of its charts; nil where that is not known. It decides
	// nothing here, and is part of the Digest. ConfigFile is the file that it stands in.
	Karpenter  *render.Karpenter
	ConfigFile string
	// CABundle is the cluster's authorities as Karpenter has them in its hash of an EC2NodeClass:
	// PEM in base64; empty where it is not known.
	CABundle string
	// Answers are what AWS says to the Questions of a Plan that was made without them. NotAsked is
	// why it was not asked; empty where nobody knows more.
	Answers  map[render.Ref]Answer
	NotAsked string
	// Loads are what Karpenter's consolidation reads of nodes, for the LoadQuestions of a Plan that was made without
	// them; a node that is not in it may be consolidated.
	Loads map[types.UID]Load
	// Landing is whether the pods of pools that leave by a Plan without it find a place elsewhere.
	Landing Landing
	// Now is the time of the plan, with which the age of nodes is compared.
	Now time.Time
}

// Host is a pod without which no node is launched, drained or watched, and the
// NodePool whose node it runs on.
type Host struct {
	// NodePool and Node are where it runs.
	NodePool, Node string
	// Workload says what it belongs to, such as "Karpenter's controller".
	Workload string
	// Pod is its namespace and name.
	Pod string
}

// HostsOf are the pods of Karpenter's controller and of plumbline that run on
// nodes of one NodePool.
func (p Policy) HostsOf(pool string) []Host {
	var found []Host
	for _, h := range p.Hosts {
		if h.NodePool == pool {
			found = append(found, h)
		}
	}
	return found
}

// name is the NodeSync's namespace and name; empty where there is none.
func (p Policy) name() string {
	if p.Owner == (Owner{}) {
		return ""
	}
	return p.Owner.String()
}

// cluster is the name of the cluster in Git; empty where that is not known.
func (p Policy) cluster() string {
	if p.Karpenter == nil {
		return ""
	}
	return p.Karpenter.Cluster.Name
}

func (p Policy) maxRemovedPools() int {
	if p.Guard.MaxRemovedPools == nil {
		return 1
	}
	return int(*p.Guard.MaxRemovedPools)
}
