package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finalizer keeps a NodeSync until its deletion is complete.
const Finalizer = "plumbline.dev/nodesync"

// Names that plumbline writes on other objects.
const (
	// FieldManager owns what Git defines.
	FieldManager = "plumbline"
	// RemovalFieldManager owns what a removal sets.
	RemovalFieldManager = "plumbline-removal"
	// BrakeFieldManager owns the disruption budgets of a NodePool whose rollout is stopped.
	BrakeFieldManager = "plumbline-brake"
	// OwnerLabel names the NodeSync that an object belongs to, as <namespace>.<name>. If that is longer than 63
	// characters it is shortened, and an annotation with the same key has the full name.
	OwnerLabel = "plumbline.dev/nodesync"
	// RemoveAnnotation on a NodeSync releases removals that are held because it is in doubt whether a commit removed
	// the entries. Its value is the objects' UIDs, separated by commas. The release of an object expires when the
	// object is in Git (status.usedReleases).
	RemoveAnnotation = "plumbline.dev/remove"
	// LeavingLabel in the template of a NodePool makes all its nodes drift, as the pool is removed.
	LeavingLabel = "plumbline.dev/leaving"
	// RescuesAnnotation on an EC2NodeClass names the one that it is a copy of, which was deleted while nodes used it.
	RescuesAnnotation = "plumbline.dev/rescues"
	// OrphanedLabel on a definition names the NodeSync that has orphaned it, with its nodes, in the form of OwnerLabel.
	OrphanedLabel = "plumbline.dev/orphaned"
	// EmergencyAnnotation on a NodeSync is the time, at most 24 hours ahead, until which spec.guard.windows and
	// spec.guard.freeze do not apply.
	EmergencyAnnotation = "plumbline.dev/emergency-until"
	// EmergencyByAnnotation is who has set EmergencyAnnotation: the policy plumbline-guard-emergency checks it.
	EmergencyByAnnotation = "plumbline.dev/emergency-by"
	// EmergencyReasonAnnotation is why; optional. The same policy lets only the person who declares the emergency set
	// it.
	EmergencyReasonAnnotation = "plumbline.dev/emergency-reason"
	// RevisionAnnotation on an Event is the revision that it is about.
	RevisionAnnotation = "plumbline.dev/revision"
	// ClusterAnnotation on an Event is the EKS cluster whose nodes it is about.
	ClusterAnnotation = "plumbline.dev/cluster"
	// StatusNotWrittenAnnotation on a NodeSync reports that its status is outdated, and why: the API server rejects
	// each write of it.
	StatusNotWrittenAnnotation = "plumbline.dev/status-not-written"
	// ValuesLabel, with the value "true", on a Secret or ConfigMap of the daemon's namespace lets a plumbline.yaml use
	// chart values from it.
	ValuesLabel = "plumbline.dev/values"
	// HostsAnnotation on a Secret lists, separated by commas, the hosts to which its contents may be sent.
	HostsAnnotation = "plumbline.dev/hosts"
	// NodeSyncsAnnotation on a Secret lists, separated by commas, the NodeSyncs that may use it. Without it, each
	// NodeSync of its namespace may.
	NodeSyncsAnnotation = "plumbline.dev/nodesyncs"
	// NoWayBackAnnotation on a NodeSync accepts that the version of Karpenter in its value cannot be rolled back.
	NoWayBackAnnotation = "plumbline.dev/upgrade-without-way-back"
	// ResumeRolloutAnnotation on a NodeSync resumes rollouts that are stopped: POOL@TIME, separated by commas, where
	// TIME is when the rollout was stopped (status.poolRollouts[].brakedAt), so that it resumes no later one.
	ResumeRolloutAnnotation = "plumbline.dev/resume-rollout"
	// ResumeWaveAnnotation on a NodeSync continues inconclusive waves: POOL@TIME, separated by commas, where TIME is when
	// the wave began (status.poolRollouts[].wave.beganAt). ResumeWaveReasonAnnotation is why.
	ResumeWaveAnnotation       = "plumbline.dev/resume-wave"
	ResumeWaveReasonAnnotation = "plumbline.dev/resume-wave-reason"
	// IdentityResolvedAnnotation on a NodeSync is when a person has resolved an identity conflict, in RFC 3339: what was
	// found before that time no longer counts.
	IdentityResolvedAnnotation = "plumbline.dev/identity-resolved"
)

// Condition types of a NodeSync beyond kstatus' Ready, Reconciling and Stalled.
const (
	// CloudVerifiedCondition reports whether EC2 can be queried and is the right account.
	CloudVerifiedCondition = "CloudVerified"
	// IdentityConflictCondition is True while another controller launches or terminates instances under this cluster's
	// name.
	IdentityConflictCondition = "IdentityConflict"
	// SourceVerifiedCondition reports whether the revision has the signatures that it needs. It exists while
	// spec.source.git.verify is set, as in Flux; otherwise it is False for a repository over plain HTTP.
	SourceVerifiedCondition = "SourceVerified"
	// PromotedCondition is True while this cluster has taken the newest commit of the branch, and False while its rings
	// make a newer one wait. It exists while spec.promotion is set.
	PromotedCondition = "Promoted"
	// RemovingCondition is True while a removal is in progress.
	RemovingCondition = "Removing"
	// LaunchFailingCondition is True while a pool gets no nodes.
	LaunchFailingCondition = "LaunchFailing"
	// NodeDriftCondition is True while nodes drift after a change of Karpenter that was expected to replace none of
	// them.
	NodeDriftCondition = "NodeDrift"
	// InstanceDriftCondition is True while EC2 instances differ from their definitions and NodeClaims, and Unknown while
	// none is known to, but they cannot be compared.
	InstanceDriftCondition = "InstanceDrift"
	// TerminationStalledCondition is True while a NodeClaim, a Node or an instance has been terminating for longer than
	// expected.
	TerminationStalledCondition = "TerminationStalled"
	// RolledOutCondition is True while each node of the NodeSync's pools matches its
	// definitions, and False while some must be replaced.
	RolledOutCondition = "RolledOut"
	// ExtraFieldsCondition is True while definitions have fields that Git does not set, and that are kept.
	ExtraFieldsCondition = "ExtraFields"
	// NodeClassRescuedCondition is True while NodePools refer to a copy of their EC2NodeClass in Git, because that one
	// was deleted while nodes used it.
	NodeClassRescuedCondition = "NodeClassRescued"
	// OrphanedCondition is True while NodePools that are no longer managed have nodes.
	OrphanedCondition = "Orphaned"
	// OtherAppliersCondition is True while the NodeSync is deleted with its nodes, and other clients apply some of its
	// objects.
	OtherAppliersCondition = "OtherAppliers"
	// VolumesLeftCondition is True while volumes are attached to nodes or instances that are gone.
	VolumesLeftCondition = "VolumesLeft"
	// ResourcesLeftCondition is True while interfaces, launch templates or instance profiles of deleted nodes or
	// EC2NodeClasses remain in AWS, and Unknown while AWS cannot be queried.
	ResourcesLeftCondition = "ResourcesLeft"
	// IntolerantDaemonSetsCondition is True while a DaemonSet of a CSI driver or a CNI plugin is
	// evicted from nodes that Karpenter drains, and Unknown while that cannot be read.
	IntolerantDaemonSetsCondition = "IntolerantDaemonSets"
	// DeletionUnguardedCondition is True while a policy of the deletion guard, or its binding, is missing
	// or altered.
	DeletionUnguardedCondition = "DeletionUnguarded"
	// ChartsUnguardedCondition is True while a policy that limits what plumbline's own ServiceAccount may write, or its
	// binding, is missing or altered.
	ChartsUnguardedCondition = "ChartsUnguarded"
	// KarpenterDeniedCondition is True while the deletion guard denies the ServiceAccount of Karpenter's controller
	// the removal of its own finalizers. Removals wait for it.
	KarpenterDeniedCondition = "KarpenterDenied"
	// KarpenterUnsupportedCondition is True while upstream no longer supports the version of Karpenter that is in force,
	// and False in the last 60 days of its support.
	KarpenterUnsupportedCondition = "KarpenterUnsupported"
	// KarpenterDefectCondition is True while Karpenter runs in a version with a known defect in what the NodeSync uses.
	KarpenterDefectCondition = "KarpenterDefect"
	// PreflightCondition is True while a check of `plumbline doctor` that the daemon runs, too, has found what will disrupt
	// nodes: the role of Karpenter's controller does not allow what its version needs.
	PreflightCondition = "Preflight"
	// ImagesOutdatedCondition is True while AMIs of the NodeSync's EC2NodeClasses are older than spec.images.maxAge,
	// deprecated or withdrawn.
	ImagesOutdatedCondition = "ImagesOutdated"
	// AutoModeCondition is True while the cluster has NodePools or CRDs of EKS Auto Mode, which plumbline does not change. It
	// names whose the NodePools are.
	AutoModeCondition = "AutoMode"
)

// Reasons of the Ready condition.
const (
	ReasonSucceeded         = "Succeeded"
	ReasonWaiting           = "Waiting"
	ReasonHeld              = "Held"
	ReasonStalled           = "Stalled"
	ReasonRemoving          = "Removing"
	ReasonSuspended         = "Suspended"
	ReasonSourceFailed      = "SourceFailed"
	ReasonRefused           = "Refused"
	ReasonSecretRefused     = "SecretRefused"
	ReasonVerificationError = "VerificationError"
	// ReasonPromotionFailed: which commit the rings let this cluster take cannot be decided.
	ReasonPromotionFailed = "PromotionFailed"
	// ReasonNewestTaken: this cluster has taken the newest commit. The condition Promoted otherwise has the reason of
	// status.promotion.waits[].
	ReasonNewestTaken = "NewestTaken"
	// ReasonEmergencyTaken: a commit was taken without a soak and outside of windows.
	ReasonEmergencyTaken = "EmergencyTaken"
	// ReasonUnprotected: the source is fetched over plain HTTP, and no signature is verified.
	ReasonUnprotected         = "Unprotected"
	ReasonInvalid             = "Invalid"
	ReasonConflict            = "Conflict"
	ReasonChartFailed         = "ChartFailed"
	ReasonApplyFailed         = "ApplyFailed"
	ReasonUpgradeFailed       = "UpgradeFailed"
	ReasonDrifted             = "Drifted"
	ReasonStatusLost          = "StatusLost"
	ReasonOlderRevision       = "OlderRevision"
	ReasonHistoryUnknown      = "HistoryUnknown"
	ReasonNamespaceNotWatched = "NamespaceNotWatched"
	ReasonCloudUnverified     = "CloudUnverified"
	// ReasonClusterNameCollision: Karpenter's controller runs here under the name of another cluster, and each
	// controller terminates the other's instances.
	ReasonClusterNameCollision = "ClusterNameCollision"
	// ReasonIdentityConflict: another controller launches or terminates instances under this cluster's name.
	// ReasonIdentityResolved: that is over. ReasonIdentityResponse: what plumbline does about it.
	ReasonIdentityConflict = "IdentityConflict"
	ReasonIdentityResolved = "IdentityConflictOver"
	ReasonIdentityResponse = "IdentityConflictResponse"
	// ReasonNamespaceTerminating: the NodeSync's namespace is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	ReasonAPIServerBusy        = "APIServerBusy"
	ReasonAPIServerUnavailable = "APIServerUnavailable"
	ReasonLaunchFailed         = "LaunchFailed"
	ReasonUnexpectedNodeDrift  = "UnexpectedNodeDrift"
	ReasonInstancesDiffer      = "InstancesDiffer"
	ReasonInstancesUnknown     = "InstancesUnknown"
	ReasonTerminating          = "Terminating"
	ReasonExtraFields          = "ExtraFields"
	ReasonOrphaned             = "Orphaned"
	ReasonOtherAppliers        = "OtherAppliers"
	ReasonDrained              = "Drained"
	ReasonNodeClassDeleted     = "NodeClassDeleted"
	ReasonVolumesLeft          = "VolumesLeft"
	ReasonResourcesLeft        = "ResourcesLeft"
	ReasonResourcesUnknown     = "ResourcesUnknown"
	ReasonTolerationMissing    = "TolerationMissing"
	ReasonTolerationUnknown    = "TolerationUnknown"
	ReasonGuardMissing         = "DeletionGuardMissing"
	ReasonGuardAltered         = "DeletionGuardAltered"
	ReasonGuardUnknown         = "DeletionGuardUnknown"
	ReasonGuardRestored        = "DeletionGuardRestored"
	ReasonChartPoliciesMissing = "ChartPoliciesMissing"
	ReasonChartPoliciesAltered = "ChartPoliciesAltered"
	ReasonChartPoliciesUnknown = "ChartPoliciesUnknown"
	ReasonFinalizerDenied      = "FinalizerDenied"
	ReasonKnownDefect          = "KnownDefect"
	ReasonPreflight            = "PreflightProblem"
	ReasonBesideAutoMode       = "BesideAutoMode"
	ReasonFinalizerUnknown     = "FinalizerUnknown"
	ReasonSupportEnded         = "SupportEnded"
	ReasonSupportEnds          = "SupportEnds"
	ReasonRollingOut           = "RollingOut"
	// ReasonRolloutLate: the rollout is expected to take longer than spec.rollout.timeout.
	ReasonRolloutLate       = "RolloutLate"
	ReasonRolloutTimedOut   = "RolloutTimedOut"
	ReasonRolloutBraked     = "RolloutBraked"
	ReasonRolloutFailing    = "RolloutFailing"
	ReasonRolloutResumed    = "RolloutResumed"
	ReasonWaveBegan         = "WaveBegan"
	ReasonWaveHeld          = "WaveHeld"
	ReasonRevertProposed    = "RevertProposed"
	ReasonRevertNotProposed = "RevertNotProposed"
	ReasonImagesOutdated    = "ImagesOutdated"
	ReasonImagesProposed    = "ImagesProposed"
	ReasonImagesNotProposed = "ImagesNotProposed"
	ReasonStatusNotWritten  = "StatusNotWritten"
	ReasonClassTerminating  = "NodeClassTerminating"
	// ReasonPolicyDenied: a policy of spec.policies denies the commit.
	ReasonPolicyDenied = "PolicyDenied"
	// ReasonPolicyInvalid: a policy of spec.policies does not compile, or cannot be evaluated.
	ReasonPolicyInvalid = "PolicyInvalid"
	// ReasonGuardInvalid: spec.guard has a window or a freeze that cannot be parsed, or never occurs.
	ReasonGuardInvalid = "GuardInvalid"
)

// GetConditions returns the conditions of the status.
func (n *NodeSync) GetConditions() []metav1.Condition { return n.Status.Conditions }

// SetConditions sets the conditions of the status.
func (n *NodeSync) SetConditions(conditions []metav1.Condition) { n.Status.Conditions = conditions }

// Reasons that only events have.
const (
	// ReasonApplied is the reason of the one event about what a reconcile has written, and ReasonDeleted that of the
	// one about a deletion that is complete. Other code relies on them.
	ReasonApplied = "Applied"
	ReasonDeleted = "Deleted"
	// ReasonWarning is for what a reconcile warns about, and does not refuse.
	ReasonWarning = "Warning"

	ReasonAllowsEverything       = "AllowsEverything"
	ReasonApproved               = "Approved"
	ReasonBrakeFailed            = "BrakeFailed"
	ReasonBraking                = "Braking"
	ReasonChartAdopted           = "ChartAdopted"
	ReasonChartInstalled         = "ChartInstalled"
	ReasonChartRepaired          = "ChartRepaired"
	ReasonChartRolledBack        = "ChartRolledBack"
	ReasonDiagnosisFailed        = "DiagnosisFailed"
	ReasonDriftCorrected         = "DriftCorrected"
	ReasonNodesDisrupted         = "NodesDisrupted"
	ReasonNodesLost              = "NodesLost"
	ReasonNodesOrphaned          = "NodesOrphaned"
	ReasonNotifyFailed           = "NotifyFailed"
	ReasonRecordLost             = "RecordLost"
	ReasonRecordNotShared        = "RecordNotShared"
	ReasonNotSimulated           = "NotSimulated"
	ReasonReleaseLost            = "ReleaseLost"
	ReasonReleaseUsed            = "ReleaseUsed"
	ReasonRemovalReverted        = "RemovalReverted"
	ReasonRemoved                = "Removed"
	ReasonReplicaMissing         = "ReplicaMissing"
	ReasonReportFailed           = "ReportFailed"
	ReasonRolledOut              = "RolledOut"
	ReasonStatusOlder            = "StatusOlder"
	ReasonStoredVersionsMigrated = "StoredVersionsMigrated"
	ReasonUnknownProviderID      = "UnknownProviderID"
	ReasonUntested               = "Untested"
	ReasonUpgradeForecast        = "UpgradeForecast"
)
