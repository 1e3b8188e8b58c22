package v1alpha1

import (
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeSyncStatus is what plumbline has done and sees. It holds points in time,
// never ages or counters that tick, so that an idle NodeSync is never written.
type NodeSyncStatus struct {
	meta.ReconcileRequestStatus `json:",inline"`

	// ObservedGeneration is the generation that the conditions speak of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Reconciling and Stalled as kstatus defines them, CloudVerified, RolledOut,
	// SourceVerified with git.verify, and conditions such as Removing that exist only if they apply.
	//
	// manifests/SPEC.md lists them.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastAttemptedRevision is the revision of the last attempt.
	// +optional
	LastAttemptedRevision string `json:"lastAttemptedRevision,omitempty"`

	// LastAppliedRevision is the last revision of which every arrival and
	// change was applied.
	// +optional
	LastAppliedRevision string `json:"lastAppliedRevision,omitempty"`
	// PartlyAppliedRevision is a newer revision than the last applied one, of which
	// something was written and not all. A HEAD that is older than it is treated as one
	// that is older than the last applied revision.
	// +optional
	PartlyAppliedRevision string `json:"partlyAppliedRevision,omitempty"`

	// LastAppliedInputs is a fingerprint of what the render of that revision has
	// read. What differs from Git while it is the same is drift, whatever commits
	// have come since.
	// +optional
	LastAppliedInputs string `json:"lastAppliedInputs,omitempty"`

	// Artifacts are the newest artifact of the source of Flux, and those of the revisions above: which of two is
	// older is known from when Flux has made them. Empty if the source is Git.
	// +optional
	// +listType=map
	// +listMapKey=revision
	Artifacts []Artifact `json:"artifacts,omitempty"`

	// Withheld says why what LastAttemptedRevision lacks is held: it may not have been
	// taken out of Git by anybody. Nil if nobody doubts that.
	// +optional
	Withheld *Withheld `json:"withheld,omitempty"`

	// UsedReleases are the UIDs in the annotation plumbline.dev/remove that release nothing
	// any more, as Git has had the object since. One counts again once the annotation has
	// lacked it.
	// +optional
	UsedReleases []types.UID `json:"usedReleases,omitempty"`

	// Held is what the guard holds, or a policy, and people may approve; nil if nothing is.
	// +optional
	Held *HeldPlan `json:"held,omitempty"`
	// Approved are what people have approved and has not been done yet, oldest first. It is written
	// before anything of it is done.
	// +optional
	Approved []ApprovedPlan `json:"approved,omitempty"`
	// UsedApprovals are the UIDs of Approvals that have counted: none counts twice.
	// +optional
	UsedApprovals []types.UID `json:"usedApprovals,omitempty"`
	// UsedGitApprovals are the digests of approve in plumbline.yaml that have counted: none counts
	// again while HEAD has it there. Those that HEAD has no more are not among them.
	// +optional
	UsedGitApprovals []string `json:"usedGitApprovals,omitempty"`

	// LastVerified is the revision whose signatures were verified last.
	// +optional
	LastVerified *VerifiedRevision `json:"lastVerified,omitempty"`

	// Karpenter is what was installed, and what the first install has fixed.
	// +optional
	Karpenter *KarpenterStatus `json:"karpenter,omitempty"`

	// Stages tells how far the revision has come, in order.
	// +listType=map
	// +listMapKey=name
	// +optional
	Stages []StageStatus `json:"stages,omitempty"`

	// Waiting says what the NodeSync waits for.
	// +optional
	Waiting *Waiting `json:"waiting,omitempty"`

	// Rollout is the replacement of nodes that do not match their definitions; nil if each
	// node does.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// PoolRollouts are the NodePools in which nodes are to be replaced, by name, with the launches
	// that have failed, and whether the replacement is stopped.
	// +listType=map
	// +listMapKey=pool
	// +optional
	PoolRollouts []PoolRollout `json:"poolRollouts,omitempty"`

	// LaunchFailing are the NodePools that get no nodes, by name, as the condition of that name has them. A
	// daemon that is restarted goes by them until Karpenter has had the time to try again.
	// +listType=map
	// +listMapKey=pool
	// +optional
	LaunchFailing []LaunchFailure `json:"launchFailing,omitempty"`

	// Drift is what differs from Git by no commit, and what was corrected within a day; the
	// newest 20.
	// +optional
	Drift []DriftedObject `json:"drift,omitempty"`

	// Instances is how EC2 instances differ from their definitions and NodeClaims; nil if none
	// is known to.
	// +optional
	Instances *InstanceDrift `json:"instances,omitempty"`

	// Terminations are the NodeClaims, Nodes and instances of the NodeSync's pools that have been terminating for
	// longer than expected; the first 20, oldest first.
	//
	// Expected are 5 minutes, or spec.removal.stallAfter if that is shorter. Those of pools that are being removed
	// are in Removals.
	// +optional
	Terminations []Termination `json:"terminations,omitempty"`

	// StalledTerminations is how many there are.
	// +optional
	StalledTerminations int32 `json:"stalledTerminations,omitempty"`

	// Removals are the entries that are leaving, oldest first. A removal
	// stands here before anything of it begins.
	// +optional
	Removals []Removal `json:"removals,omitempty"`

	// RecentRemovals are the NodePools whose removal the guard has allowed and which still count for later removals,
	// oldest first.
	//
	// They count for guard.removalPeriod, while they are not complete, and while a later removal is held because of
	// them. Each is written before its removal starts.
	// +optional
	RecentRemovals []RecentRemoval `json:"recentRemovals,omitempty"`

	// RecentTerminations are the changes of NodePools by which Karpenter terminates nodes without a replacement and
	// which still count for later commits, oldest first.
	//
	// They count for guard.removalPeriod, and while a later commit is held. Each is written before the NodePool is
	// changed.
	// +optional
	RecentTerminations []RecentTermination `json:"recentTerminations,omitempty"`

	// OpenRemovals is the number of Removals that are not Held, and not at the end of a drain.
	// +optional
	OpenRemovals int32 `json:"openRemovals"`

	// OrphanedNodes is the number of nodes of NodePools that this NodeSync has no longer managed, and that
	// no NodeSync has adopted since.
	// +optional
	OrphanedNodes int32 `json:"orphanedNodes,omitempty"`

	// Reported is the commit status that was reported last, for each report.
	// +optional
	Reported []Reported `json:"reported,omitempty"`

	// Notified are the troubles of which the receivers in spec.notify were notified, and which have
	// not ended. It is written before a notification is sent, so that none is sent twice.
	// +listType=map
	// +listMapKey=subject
	// +optional
	Notified []Notified `json:"notified,omitempty"`
}

// StageStatus tells how far one Stage has come.
type StageStatus struct {
	// Name is CRDs, Controller, NodeClasses or NodePools.
	// +kubebuilder:validation:Enum=CRDs;Controller;NodeClasses;NodePools
	Name string `json:"name"`
	// State is Waiting or Done.
	State StageState `json:"state"`
	// Message says what it waits for or why it failed; of one that is Done, which
	// replica of the controller is missing.
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when State last changed.
	Since metav1.Time `json:"since"`
}

// StageState is how far a Stage has come.
//
// +kubebuilder:validation:Enum=Waiting;Done
type StageState string

// The values of StageState.
const (
	StageWaiting StageState = "Waiting"
	StageDone    StageState = "Done"
)

// Waiting says what a reconcile found not yet done.
type Waiting struct {
	// For names the thing: "karpenter-crd established", "nodeclass/default".
	For string `json:"for"`
	// Message says why.
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when this wait began.
	Since metav1.Time `json:"since"`
}

// Withheld says why it is in doubt that what a revision lacks was taken out of Git. It
// is kept until everything that the revision lacks is recorded.
type Withheld struct {
	// Reason is StatusLost; OlderRevision, where the revision is an ancestor of another
	// one that was applied; or HistoryUnknown, where it may be.
	// +kubebuilder:validation:Enum=StatusLost;OlderRevision;HistoryUnknown
	Reason string `json:"reason"`
	// Revision is the one that lacks it.
	Revision string `json:"revision"`
	// From is the newer revision that was applied before.
	// +optional
	From string `json:"from,omitempty"`
}

// RemovalGrowth is how far a NodePool may grow by itself.
type RemovalGrowth struct {
	// CPU is spec.limits.cpu; empty if there is no such limit.
	// +optional
	CPU string `json:"cpu,omitempty"`
	// Replicas is spec.replicas of a static pool.
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`
}

// RecentRemoval is a NodePool that counts for guard.maxRemovedPools, and its nodes for guard.maxDisruptedNodes, when a
// later removal is weighed.
type RecentRemoval struct {
	// Name and UID of the NodePool.
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// At is when the guard allowed it.
	At metav1.Time `json:"at"`
	// Nodes is the number of NodeClaims that it had then; of a removal that was reverted, the number of those that
	// were terminated.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
}

// RecentTermination is a change of a NodePool by which Karpenter terminates nodes without a replacement: fewer replicas,
// consolidation, or a shorter expireAfter. It counts for guard.maxDisruptedNodes when a later commit is weighed.
type RecentTermination struct {
	// Name and UID of the NodePool.
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Revision of the change.
	Revision string `json:"revision"`
	// At is when it was written to the cluster.
	At metav1.Time `json:"at"`
	// Nodes is the number of NodeClaims that Karpenter may terminate by it.
	Nodes int32 `json:"nodes"`
}

// Removal is the record of one entry that is leaving. It is written before
// anything is done.
type Removal struct {
	// Kind of the object: NodePool or EC2NodeClass.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// UID of the object. Another object of the same name is another entry.
	UID types.UID `json:"uid"`
	// Revision is the first revision without the entry, or "deleted" when the
	// NodeSync itself is being deleted, or drained.
	Revision string `json:"revision"`
	// RecordedAt is when the removal was recorded.
	RecordedAt metav1.Time `json:"recordedAt"`
	// Phase is how far the removal has come.
	Phase RemovalPhase `json:"phase"`
	// Since is when Phase last changed.
	Since metav1.Time `json:"since"`
	// LastProgress is when anything of this removal last moved. Stalls are
	// counted from here.
	LastProgress metav1.Time `json:"lastProgress"`
	// Definition is a digest of the object's spec as the removal was recorded: an entry that Git
	// has again with just that spec brings nothing new.
	// +optional
	Definition string `json:"definition,omitempty"`
	// MovesTo are the names of the near-equal entries of Git, of the same kind, that take its place:
	// its nodes move there. Empty if none does.
	// +optional
	MovesTo []string `json:"movesTo,omitempty"`
	// Growth is what stopping the growth of a NodePool overwrites, as it was recorded; empty if
	// nothing limited it. It counts where the record in the ConfigMap is lost.
	// +optional
	Growth *RemovalGrowth `json:"growth,omitempty"`
	// Remaining is the number of NodeClaims and instances still there, at LastProgress.
	// +optional
	Remaining int32 `json:"remaining,omitempty"`
	// Approved is the digest of what was held of the removal and was approved.
	// +optional
	Approved string `json:"approved,omitempty"`
	// LastPool reports whether people have approved it although Git has no NodePool left that may grow: no
	// other one is needed for its pods.
	// +optional
	LastPool bool `json:"lastPool,omitempty"`
	// Reasons are all reasons for which the removal is held, by name, the most severe first, if there is more than
	// one: LastPool, UnschedulablePods, MaxRemovedPools.
	// +optional
	Reasons []string `json:"reasons,omitempty"`
	// Reason is a word for why the removal is held or waits. Of several it is the most severe.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says what it waits for, by name.
	// +optional
	Message string `json:"message,omitempty"`
	// Stalled is since when the removal stands still.
	// +optional
	Stalled *metav1.Time `json:"stalled,omitempty"`
	// BreakGlass are commands that would end its nodes past what keeps them, while it is stalled.
	// None is ever run by plumbline.
	// +optional
	BreakGlass []BreakGlass `json:"breakGlass,omitempty"`
}

// Artifact is what Flux has fetched of a source.
type Artifact struct {
	// Revision in Flux's form: main@sha1:<commit>, latest@sha256:<digest>.
	Revision string `json:"revision" redact:"-"`
	// Updated is when Flux has made it.
	Updated metav1.Time `json:"updated"`
}

// PullRequests says what is reported on pull requests.
type PullRequests struct {
	// Comment has the plan written as a comment, too, which is edited when the plan
	// changes.
	// +optional
	Comment bool `json:"comment,omitempty"`
	// Forks has the pull requests from forks planned, too. Who may open one has any files
	// rendered, in the same confinement as those of the branch; no Secret is read for them. On
	// Bitbucket Cloud they cannot be: their heads are in other repositories.
	// +optional
	Forks bool `json:"forks,omitempty"`
}

// BrakeReason is why a rollout is stopped.
type BrakeReason string

// The reasons for which a rollout is stopped.
const (
	// BrakeFailedLaunches: the nodes of too many launches in a row did not register or initialize.
	BrakeFailedLaunches BrakeReason = "FailedLaunches"
	// BrakeUnexpectedDrift: its nodes are outdated by no commit.
	BrakeUnexpectedDrift BrakeReason = "UnexpectedDrift"
	// BrakeHeldByCondition: a condition of spec.rollout.holdWhile holds.
	BrakeHeldByCondition BrakeReason = "HeldByCondition"
	// BrakeFrozen: no node is replaced outside of spec.guard.windows, and in a freeze.
	BrakeFrozen BrakeReason = "Frozen"
)

// BrakedPools are the NodePools of which Karpenter is to replace no more nodes; not nil.
func (s *NodeSyncStatus) BrakedPools() map[string]bool {
	braked := map[string]bool{}
	for i := range s.PoolRollouts {
		if s.PoolRollouts[i].BrakedAt != nil {
			braked[s.PoolRollouts[i].Pool] = true
		}
	}
	return braked
}

// BreakGlass is a command that would end a node past what keeps it, and what that risks. It is a
// person's to run.
type BreakGlass struct {
	// Node that does not end, by its name, or that of its NodeClaim.
	Node string `json:"node" redact:"-"`
	// Cause is a word for what keeps it.
	Cause BreakGlassCause `json:"cause"`
	// Command that would end it all the same.
	Command string `json:"command" redact:"hide"`
	// Risk is what is lost by it.
	Risk string `json:"risk" redact:"hide"`
}

// BreakGlassCause is what keeps a node.
type BreakGlassCause string

// What keeps a node.
const (
	// CauseBudget: a PodDisruptionBudget allows no eviction of one of its pods.
	CauseBudget BreakGlassCause = "PodDisruptionBudget"
	// CauseDoNotDisrupt: a pod is annotated so.
	CauseDoNotDisrupt BreakGlassCause = "DoNotDisrupt"
	// CauseFinalizer: a pod that was evicted has a finalizer of its own.
	CauseFinalizer BreakGlassCause = "PodFinalizer"
	// CauseObjectFinalizer: the NodeClaim or the Node has a finalizer of another controller than Karpenter.
	CauseObjectFinalizer BreakGlassCause = "Finalizer"
	// CausePod: a pod does not end.
	CausePod BreakGlassCause = "Pod"
	// CauseVolume: a volume is still attached.
	CauseVolume BreakGlassCause = "VolumeAttachment"
	// CauseProtected: EC2 protects the instance from termination.
	CauseProtected BreakGlassCause = "TerminationProtection"
	// CauseDenied: AWS denies Karpenter the termination.
	CauseDenied BreakGlassCause = "PermissionDenied"
)

// Termination is a NodeClaim, a Node or an EC2 instance that has been terminating for longer than 5 minutes, or
// spec.removal.stallAfter if that is shorter.
type Termination struct {
	// Kind is NodeClaim, Node (no NodeClaim has it) or Instance (neither has it).
	Kind string `json:"kind" redact:"-"`
	// Name of the object; the ID of an instance.
	Name string `json:"name" redact:"-"`
	// Node of a NodeClaim; empty if it has none.
	// +optional
	Node string `json:"node,omitempty" redact:"-"`
	// Instance is its ID in EC2; empty if it has none.
	// +optional
	Instance string `json:"instance,omitempty" redact:"-"`
	// Pool is its NodePool.
	Pool string `json:"pool" redact:"-"`
	// Since is when it was deleted; of an instance, when plumbline first saw EC2 shut it down.
	Since metav1.Time `json:"since"`
	// Message names what it waits for.
	Message string `json:"message"`
	// BreakGlass is the command that terminates it all the same; nil if there is none.
	// +optional
	BreakGlass *BreakGlass `json:"breakGlass,omitempty"`
}
