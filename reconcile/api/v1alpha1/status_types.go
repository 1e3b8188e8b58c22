package v1alpha1

import (
	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// NodeSyncStatus is what plumbline has done and observed. It contains timestamps, and no ages or counters that change
// by themselves, so that the status of an idle NodeSync is never written.
type NodeSyncStatus struct {
	meta.ReconcileRequestStatus `json:",inline"`

	// ObservedGeneration is the generation that the conditions describe.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions are Ready, Reconciling and Stalled as kstatus defines them, CloudVerified, RolledOut, SourceVerified
	// with git.verify, and conditions such as Removing that exist only if they apply.
	//
	// manifests/SPEC.md lists them.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// LastAttemptedRevision is the revision of the last attempt.
	// +optional
	LastAttemptedRevision string `json:"lastAttemptedRevision,omitempty"`

	// LastAppliedRevision is the last revision whose additions and changes were all applied.
	// +optional
	LastAppliedRevision string `json:"lastAppliedRevision,omitempty"`
	// PartlyAppliedRevision is a revision, newer than the last applied one, of which something but not everything was
	// written. A HEAD older than it is treated like one older than the last applied revision.
	// +optional
	PartlyAppliedRevision string `json:"partlyAppliedRevision,omitempty"`

	// LastAppliedInputs is a fingerprint of the files and values from which that revision was rendered. While it is
	// unchanged, differences from Git are drift, even after further commits.
	// +optional
	LastAppliedInputs string `json:"lastAppliedInputs,omitempty"`
	// PartlyAppliedInputs is a fingerprint of other files and values of which something was written since, or is about
	// to be. It is cleared when a revision is applied completely. Until then, LastAppliedInputs does not show which
	// differences from Git are drift.
	// +optional
	PartlyAppliedInputs string `json:"partlyAppliedInputs,omitempty"`

	// Artifacts are the newest artifact of the Flux source, and those of the revisions above: their timestamps show
	// which of two is older. Empty if the source is Git.
	// +optional
	// +listType=map
	// +listMapKey=revision
	Artifacts []Artifact `json:"artifacts,omitempty"`

	// Withheld is why the removal of entries that LastAttemptedRevision does not contain is held: possibly nobody
	// removed them from Git. Nil if there is no doubt.
	// +optional
	Withheld *Withheld `json:"withheld,omitempty"`

	// UsedReleases are the UIDs in the annotation plumbline.dev/remove that no longer release anything, because Git
	// contained the object since. A UID counts again after it was removed from the annotation.
	// +optional
	UsedReleases []types.UID `json:"usedReleases,omitempty"`

	// Held is what the guard or a policy holds, and people may approve; nil if nothing is held.
	// +optional
	Held *HeldPlan `json:"held,omitempty"`
	// Approved is what people have approved and has not been carried out yet, oldest first. It is written before
	// anything of it is done.
	// +optional
	Approved []ApprovedPlan `json:"approved,omitempty"`
	// UsedApprovals are the UIDs of Approvals that have counted: none counts twice.
	// +optional
	UsedApprovals []types.UID `json:"usedApprovals,omitempty"`
	// UsedGitApprovals are the digests in the list approve of plumbline.yaml that have counted: none counts again while
	// HEAD contains it. Those that HEAD no longer contains are left out.
	// +optional
	UsedGitApprovals []string `json:"usedGitApprovals,omitempty"`

	// LastVerified is the last revision whose signatures were verified.
	// +optional
	LastVerified *VerifiedRevision `json:"lastVerified,omitempty"`

	// Promotion is which commit this cluster has taken, and what newer ones wait for; nil without spec.promotion.
	// +optional
	Promotion *PromotionStatus `json:"promotion,omitempty"`

	// Karpenter is what is installed, and what the first install has fixed.
	// +optional
	Karpenter *KarpenterStatus `json:"karpenter,omitempty"`

	// Stages is the progress of the revision, in order.
	// +listType=map
	// +listMapKey=name
	// +optional
	Stages []StageStatus `json:"stages,omitempty"`

	// Waiting is what the NodeSync waits for.
	// +optional
	Waiting *Waiting `json:"waiting,omitempty"`

	// Rollout is the replacement of nodes that do not match their definitions; nil if each
	// node does.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// PoolRollouts are the NodePools in which nodes must be replaced, by name, with the launches that have failed, and
	// whether the replacement is stopped.
	// +listType=map
	// +listMapKey=pool
	// +optional
	PoolRollouts []PoolRollout `json:"poolRollouts,omitempty"`

	// Images is the pull request with newer AMIs, or why there is none; nil without spec.images.propose.
	// +optional
	Images *ImageTrainStatus `json:"images,omitempty"`

	// RevertedPools are the NodePools whose definition a commit has reverted while spec.guard.windows and freeze let no
	// node be replaced, by name. Until nodes may be replaced again, no other change of them counts as a revert: each is
	// written before the revert.
	// +listType=map
	// +listMapKey=pool
	// +optional
	RevertedPools []RevertedPool `json:"revertedPools,omitempty"`

	// LaunchFailing are the NodePools that get no nodes, by name, as in the condition LaunchFailing. After a restart
	// the daemon uses them until Karpenter has had the time to try again.
	// +listType=map
	// +listMapKey=pool
	// +optional
	LaunchFailing []LaunchFailure `json:"launchFailing,omitempty"`

	// Drift is what differs from Git by no commit, and what was corrected within the last 24 hours; the newest 20.
	// +optional
	Drift []DriftedObject `json:"drift,omitempty"`

	// Instances is how EC2 instances differ from their definitions and NodeClaims; nil if no difference is known.
	// +optional
	Instances *InstanceDrift `json:"instances,omitempty"`

	// IdentityConflict is another controller that uses this cluster's name, or what is left of the response to one; nil
	// if there is neither.
	// +optional
	IdentityConflict *IdentityConflict `json:"identityConflict,omitempty"`

	// Terminations are the NodeClaims, Nodes and instances of the NodeSync's pools that have been terminating for
	// longer than expected; the first 20, oldest first.
	//
	// Expected are 5 minutes, or spec.removal.stallAfter if that is shorter. Those of pools that are being removed are
	// in Removals.
	// +optional
	Terminations []Termination `json:"terminations,omitempty"`

	// StalledTerminations is their total number.
	// +optional
	StalledTerminations int32 `json:"stalledTerminations,omitempty"`

	// Removals are the entries that are being removed, oldest first. A removal is recorded here before it starts.
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

	// OrphanedNodes is the number of nodes of NodePools that this NodeSync no longer manages, and that no NodeSync has
	// adopted since.
	// +optional
	OrphanedNodes int32 `json:"orphanedNodes,omitempty"`

	// Reported is the last commit status that was reported, for each report.
	// +optional
	Reported []Reported `json:"reported,omitempty"`

	// Notified are the problems that the receivers in spec.notify were notified about, and that still exist. It is
	// written before a notification is sent, so that none is sent twice.
	// +listType=map
	// +listMapKey=subject
	// +optional
	Notified []Notified `json:"notified,omitempty"`
}

// StageStatus is the progress of one Stage.
type StageStatus struct {
	// Name is CRDs, Controller, NodeClasses, NodeOverlays, NodePools or CapacityBuffers.
	// +kubebuilder:validation:Enum=CRDs;Controller;NodeClasses;NodeOverlays;NodePools;CapacityBuffers
	Name string `json:"name"`
	// State is Waiting or Done.
	State StageState `json:"state"`
	// Message says what it waits for or why it failed; if it is Done, which replica of the controller is missing.
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when State last changed.
	Since metav1.Time `json:"since"`
}

// StageState is the progress of a Stage.
//
// +kubebuilder:validation:Enum=Waiting;Done
type StageState string

// The values of StageState.
const (
	StageWaiting StageState = "Waiting"
	StageDone    StageState = "Done"
)

// Waiting is what a reconcile waits for.
type Waiting struct {
	// For names it: "karpenter-crd established", "nodeclass/default".
	For string `json:"for"`
	// Message says why.
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when this wait started.
	Since metav1.Time `json:"since"`
}

// Withheld is why it is in doubt that what a revision does not contain was removed from Git. It is kept until
// everything that the revision does not contain is recorded.
type Withheld struct {
	// Reason is StatusLost; OlderRevision, if the revision is an ancestor of another one that was applied; or
	// HistoryUnknown, if it may be.
	// +kubebuilder:validation:Enum=StatusLost;OlderRevision;HistoryUnknown
	Reason string `json:"reason"`
	// Revision that does not contain it.
	Revision string `json:"revision"`
	// From is the newer revision that was applied before.
	// +optional
	From string `json:"from,omitempty"`
}

// RemovalGrowth is how far a NodePool may grow.
type RemovalGrowth struct {
	// CPU is spec.limits.cpu; empty if there is no such limit.
	// +optional
	CPU string `json:"cpu,omitempty"`
	// Replicas is spec.replicas of a static pool.
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`
}

// RecentRemoval is a NodePool that counts for guard.maxRemovedPools, and its nodes for guard.maxDisruptedNodes, when a
// later removal is evaluated.
type RecentRemoval struct {
	// Name and UID of the NodePool.
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// At is when the guard allowed it.
	At metav1.Time `json:"at"`
	// Nodes is the number of NodeClaims that it had then; for a removal that was reverted, the number of those that
	// were terminated.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
}

// RecentTermination is a change of a NodePool that lets Karpenter terminate nodes without a replacement: fewer
// replicas, consolidation, or a shorter expireAfter. It counts for guard.maxDisruptedNodes when a later commit is
// evaluated.
type RecentTermination struct {
	// Name and UID of the NodePool, or of the CapacityBuffer as namespace/name.
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
	// Revision of the change.
	Revision string `json:"revision"`
	// At is when it was written to the cluster.
	At metav1.Time `json:"at"`
	// Nodes is the number of NodeClaims that Karpenter may terminate because of it.
	Nodes int32 `json:"nodes"`
}

// Removal records one entry that is being removed. It is written before anything is done.
type Removal struct {
	// Kind of the object: NodePool, EC2NodeClass, NodeOverlay or CapacityBuffer.
	Kind string `json:"kind"`
	// Name of the object; of a CapacityBuffer its namespace and name, as namespace/name.
	Name string `json:"name"`
	// UID of the object. Another object of the same name is another entry.
	UID types.UID `json:"uid"`
	// Revision is the first revision without the entry, or "deleted" when the
	// NodeSync itself is being deleted, or drained.
	Revision string `json:"revision"`
	// RecordedAt is when the removal was recorded.
	RecordedAt metav1.Time `json:"recordedAt"`
	// Phase of the removal.
	Phase RemovalPhase `json:"phase"`
	// Since is when Phase last changed.
	Since metav1.Time `json:"since"`
	// LastProgress is when this removal last made progress. Stalls are counted from here.
	LastProgress metav1.Time `json:"lastProgress"`
	// Definition is a digest of the object when the removal was recorded: of its spec, and of the labels and annotations
	// from Git. If the entry returns to Git with exactly these, nothing is new.
	// +optional
	Definition string `json:"definition,omitempty"`
	// MovesTo are the names of the near-equal entries in Git, of the same kind, that replace it: its nodes move there.
	// Empty if there are none.
	// +optional
	MovesTo []string `json:"movesTo,omitempty"`
	// Growth is what stopping the growth of a NodePool overwrites, as recorded; empty if nothing limited it. It is used
	// if the record in the ConfigMap is lost.
	// +optional
	Growth *RemovalGrowth `json:"growth,omitempty"`
	// Remaining is the number of NodeClaims and instances that remained at LastProgress.
	// +optional
	Remaining int32 `json:"remaining,omitempty"`
	// Approved is the digest of what was held of the removal and was approved.
	// +optional
	Approved string `json:"approved,omitempty"`
	// LastPool reports whether people have approved it although Git has no NodePool left that may grow: none is needed
	// for its pods.
	// +optional
	LastPool bool `json:"lastPool,omitempty"`
	// Reasons are all reasons for which the removal is held, the most severe first, if there is more than one:
	// LastPool, UnschedulablePods, MaxRemovedPools.
	// +optional
	Reasons []string `json:"reasons,omitempty"`
	// Reason is why the removal is held or waits; if there are several reasons, the most severe.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message names what it waits for.
	// +optional
	Message string `json:"message,omitempty"`
	// Stalled is since when the removal makes no progress.
	// +optional
	Stalled *metav1.Time `json:"stalled,omitempty"`
	// BreakGlass are commands that terminate its nodes in spite of what blocks them, while it is stalled. plumbline
	// never runs them.
	// +optional
	BreakGlass []BreakGlass `json:"breakGlass,omitempty"`
}

// Artifact is what Flux has fetched of a source.
type Artifact struct {
	// Revision in Flux's form: main@sha1:<commit>, latest@sha256:<digest>.
	Revision string `json:"revision" redact:"-"`
	// Updated is when Flux created it.
	Updated metav1.Time `json:"updated"`
}

// PullRequests configures the reports on pull requests.
type PullRequests struct {
	// Comment also writes the plan as a comment, which is edited when the plan changes.
	// +optional
	Comment bool `json:"comment,omitempty"`
	// Forks also plans pull requests from forks. Everyone who may open one can have any files rendered, in the same
	// confinement as those of the branch; no Secret is read for them. Bitbucket Cloud is not supported: the heads of
	// forks are in other repositories.
	// +optional
	Forks bool `json:"forks,omitempty"`
}

// BrakeReason is why a rollout is stopped.
type BrakeReason string

// The reasons for which a rollout is stopped.
const (
	// BrakeFailedLaunches: the nodes of too many launches in a row did not register or initialize.
	BrakeFailedLaunches BrakeReason = "FailedLaunches"
	// BrakeFailedWave: workloads fail on the nodes of a wave, and not on old ones.
	BrakeFailedWave BrakeReason = "FailedWave"
	// BrakeUnexpectedDrift: no commit has outdated its nodes.
	BrakeUnexpectedDrift BrakeReason = "UnexpectedDrift"
	// BrakeHeldByCondition: a condition of spec.rollout.holdWhile is true.
	BrakeHeldByCondition BrakeReason = "HeldByCondition"
	// BrakeFrozen: no node is replaced outside of spec.guard.windows, or in a freeze.
	BrakeFrozen BrakeReason = "Frozen"
)

// BrakedPools returns the NodePools of which Karpenter must replace no more nodes; never nil.
func (s *NodeSyncStatus) BrakedPools() map[string]bool {
	braked := map[string]bool{}
	for i := range s.PoolRollouts {
		if s.PoolRollouts[i].BrakedAt != nil {
			braked[s.PoolRollouts[i].Pool] = true
		}
	}
	return braked
}

// LimitedPools returns the NodePools whose disruption budgets plumbline sets, because their rollout is stopped or
// proceeds in waves; never nil.
func (s *NodeSyncStatus) LimitedPools() map[string]bool {
	limited := s.BrakedPools()
	for i := range s.PoolRollouts {
		if s.PoolRollouts[i].Wave != nil {
			limited[s.PoolRollouts[i].Pool] = true
		}
	}
	return limited
}

// BreakGlass is a command that terminates a node in spite of what blocks it, and its risk. Only a person runs it.
type BreakGlass struct {
	// Node that does not terminate, by its name, or that of its NodeClaim.
	Node string `json:"node" redact:"-"`
	// Cause is what blocks it, as a keyword.
	Cause BreakGlassCause `json:"cause"`
	// Command that terminates it nevertheless.
	Command string `json:"command" redact:"hide"`
	// Risk is what the command may destroy.
	Risk string `json:"risk" redact:"hide"`
}

// BreakGlassCause is what blocks the termination of a node.
type BreakGlassCause string

// The values of BreakGlassCause.
const (
	// CauseBudget: a PodDisruptionBudget allows no eviction of one of its pods.
	CauseBudget BreakGlassCause = "PodDisruptionBudget"
	// CauseDoNotDisrupt: a pod has the annotation karpenter.sh/do-not-disrupt.
	CauseDoNotDisrupt BreakGlassCause = "DoNotDisrupt"
	// CauseFinalizer: an evicted pod has a finalizer.
	CauseFinalizer BreakGlassCause = "PodFinalizer"
	// CauseObjectFinalizer: the NodeClaim or the Node has a finalizer that is not Karpenter's.
	CauseObjectFinalizer BreakGlassCause = "Finalizer"
	// CausePod: a pod does not terminate.
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
	// Kind is NodeClaim, Node (without a NodeClaim) or Instance (without either).
	Kind string `json:"kind" redact:"-"`
	// Name of the object; for an instance, its ID.
	Name string `json:"name" redact:"-"`
	// Node of a NodeClaim; empty if it has none.
	// +optional
	Node string `json:"node,omitempty" redact:"-"`
	// Instance is its ID in EC2; empty if it has none.
	// +optional
	Instance string `json:"instance,omitempty" redact:"-"`
	// Pool is its NodePool.
	Pool string `json:"pool" redact:"-"`
	// Since is when it was deleted; for an instance, when plumbline first saw EC2 shut it down.
	Since metav1.Time `json:"since"`
	// Message names what it waits for.
	Message string `json:"message"`
	// BreakGlass is the command that terminates it nevertheless; nil if there is none.
	// +optional
	BreakGlass *BreakGlass `json:"breakGlass,omitempty"`
}
