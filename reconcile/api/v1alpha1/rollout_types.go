package v1alpha1

import (
	"slices"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutPolicy says what is done about the replacement of nodes that a commit has outdated.
type RolloutPolicy struct {
	// Timeout is how long it may take until its commit status is a failure. Nothing is stopped
	// by it. Default: none, as the windows of disruption budgets may be a week apart.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// OnFailure is what happens if the launches of replacements fail: Brake stops the replacement of the pool's
	// nodes, BrakeAndPropose also opens a pull request with a revert, and Report only reports it.
	//
	// Brake sets a disruption budget by which Karpenter replaces no more nodes of the pool, until a commit changes
	// its definition or a person resumes it. The pull request restores the definitions of the revision that was
	// applied before.
	// +kubebuilder:validation:Enum=Report;Brake;BrakeAndPropose
	// +kubebuilder:default=Brake
	// +optional
	OnFailure RolloutFailurePolicy `json:"onFailure,omitempty"`
	// FailedLaunches is how many launches in a row, whose nodes do not register or initialize, are
	// a failure.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	// +kubebuilder:default=3
	// +optional
	FailedLaunches int32 `json:"failedLaunches,omitempty"`
	// UnexpectedDrift is what happens to nodes that no commit has outdated, such as when an AMI alias resolves to a
	// new image: Brake stops their replacement, Report only reports them.
	//
	// Brake lasts until a commit changes their definition or a person resumes it.
	// +kubebuilder:validation:Enum=Report;Brake
	// +kubebuilder:default=Report
	// +optional
	UnexpectedDrift RolloutFailurePolicy `json:"unexpectedDrift,omitempty"`
	// HoldWhile are what stops a rollout for as long as it lasts.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	HoldWhile []RolloutHold `json:"holdWhile,omitempty"`
}

// RolloutHold is a condition that stops a rollout while it holds: a query of Prometheus that has a
// result, or alerts of Alertmanager.
// +kubebuilder:validation:XValidation:rule="has(self.query) != has(self.alerts)",message="exactly one of query and alerts must be set"
type RolloutHold struct {
	// Name of the condition, as messages have it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// URL of Prometheus, or of Alertmanager, without /api.
	// +kubebuilder:validation:Pattern=`^https?://[^@?#\s]+$`
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// Query of Prometheus: the rollout is stopped while it has a result, as an alert fires; of a
	// scalar, while it is not 0.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Query string `json:"query,omitempty"`
	// Alerts are matchers of Alertmanager, such as severity="page": the rollout is stopped while an
	// alert matches all of them that is active, and neither silenced nor inhibited.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Alerts []string `json:"alerts,omitempty"`
	// SecretRef names a Secret with token, or with username and password, and with ca.crt where the
	// host has a certificate of an authority of its own.
	// +optional
	SecretRef *meta.LocalObjectReference `json:"secretRef,omitempty"`
	// Timeout of one question. Default: 5s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('30s')",message="must be 100ms to 30s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// Unreachable says what counts while it cannot be asked: Hold stops the rollout, Ignore does not.
	// +kubebuilder:validation:Enum=Hold;Ignore
	// +kubebuilder:default=Hold
	// +optional
	Unreachable UnreachablePolicy `json:"unreachable,omitempty"`
}

// UnreachablePolicy says what counts while a condition cannot be asked.
type UnreachablePolicy string

// The policies for conditions that cannot be asked.
const (
	UnreachableHold   UnreachablePolicy = "Hold"
	UnreachableIgnore UnreachablePolicy = "Ignore"
)

// RolloutFailurePolicy says what is done when a rollout goes wrong.
type RolloutFailurePolicy string

// The policies for rollouts that go wrong.
const (
	// RolloutReport reports it.
	RolloutReport RolloutFailurePolicy = "Report"
	// RolloutBrake stops it.
	RolloutBrake RolloutFailurePolicy = "Brake"
	// RolloutBrakeAndPropose stops it, and proposes the revert as a pull request.
	RolloutBrakeAndPropose RolloutFailurePolicy = "BrakeAndPropose"
)

// Rollout is the replacement of nodes that do not match their definitions. It is noted before
// anything is applied that outdates nodes, and ends when each node matches or is gone.
type Rollout struct {
	// Revision that has outdated the nodes; empty if no commit has, as with an alias of AMIs
	// that moved.
	// +optional
	Revision string `json:"revision,omitempty" redact:"-"`
	// From is the revision that was applied before that one; empty if none was.
	// +optional
	From string `json:"from,omitempty" redact:"-"`
	// Pools are the NodePools that the revision changes, itself or by their EC2NodeClass. Empty if they are not
	// known, or if no commit has outdated the nodes.
	// +listType=atomic
	// +optional
	Pools []string `json:"pools,omitempty" redact:"-"`
	// Since is when it began.
	Since metav1.Time `json:"since"`
	// Nodes is how many nodes it is on.
	Nodes int32 `json:"nodes"`
	// Outdated is how many of them do not match yet, those that drain among them.
	Outdated int32 `json:"outdated"`
	// Draining is how many of the outdated ones are being deleted.
	// +optional
	Draining int32 `json:"draining,omitempty"`
	// LastProgress is when the numbers changed last.
	LastProgress metav1.Time `json:"lastProgress"`
	// SettlesAt is until when Karpenter may find more nodes outdated, where AWS has to
	// answer first.
	// +optional
	SettlesAt *metav1.Time `json:"settlesAt,omitempty"`
	// Reasons are Karpenter's, for which the nodes are outdated.
	// +optional
	Reasons []string `json:"reasons,omitempty" redact:"-"`
	// Unhashed are the NodePools and EC2NodeClasses, as Kind/name, to which the commit has given another
	// hash, while NodeClaims of them had none that Karpenter can compare.
	// +listType=atomic
	// +optional
	Unhashed []string `json:"unhashed,omitempty" redact:"-"`
	// Inputs are what has outdated the nodes that no commit has outdated.
	// +listType=atomic
	// +optional
	Inputs []DriftInput `json:"inputs,omitempty"`
	// StaticPools are the static NodePools that were written, or whose nodes the commit has outdated, and
	// that have fewer nodes than replicas.
	// +listType=atomic
	// +optional
	StaticPools []StaticPool `json:"staticPools,omitempty"`
	// Message says what it waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// StaticPool is how many of the replicas of a static NodePool are there.
type StaticPool struct {
	// Pool is the NodePool.
	Pool string `json:"pool" redact:"-"`
	// Replicas is spec.replicas, and Ready how many nodes are initialized and not being deleted.
	Replicas int32 `json:"replicas"`
	Ready    int32 `json:"ready"`
}

// DriftInput is what has outdated nodes of a NodePool: what they have, and what their definitions
// call for now.
type DriftInput struct {
	// Pool is the NodePool.
	Pool string `json:"pool" redact:"-"`
	// Reason is Karpenter's, such as AMIDrift.
	Reason string `json:"reason" redact:"-"`
	// From is what the nodes have, such as an AMI. Empty if that is not known.
	// +optional
	From string `json:"from,omitempty" redact:"hide"`
	// To is what their definitions call for now, or why that is not known.
	To string `json:"to" redact:"hide"`
}

// Changes reports whether the commit of a rollout changes a NodePool or its EC2NodeClass.
func (r *Rollout) Changes(pool string) bool {
	return r.Revision != "" && (len(r.Pools) == 0 || slices.Contains(r.Pools, pool))
}

// Words say it: AMIDrift: ami-1 → ami-2 (al2023@latest).
func (i DriftInput) Words() string {
	switch i.From {
	case "":
		return i.Reason + ": inputs unknown: " + i.To
	case i.To:
		return i.Reason + ": " + i.From + ", which is called for again"
	}
	return i.Reason + ": " + i.From + " → " + i.To
}

// InputOf is the one input that a node of a pool can have been outdated by for a reason; has is
// what the node is known to have, as From may be. It is nil if there is none, or several.
func (r *Rollout) InputOf(pool, reason string, has ...string) *DriftInput {
	if r == nil {
		return nil
	}
	var found []*DriftInput
	for i := range r.Inputs {
		one := &r.Inputs[i]
		if one.Pool != pool || one.Reason != reason {
			continue
		}
		if one.From != "" && slices.Contains(has, one.From) {
			return one
		}
		found = append(found, one)
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// PoolRollout is the replacement of the nodes of one NodePool, and whether it is stopped.
type PoolRollout struct {
	// Pool is the NodePool.
	Pool string `json:"pool" redact:"-"`
	// Definition is a hash of what its nodes are made by: spec.template of the NodePool and the spec
	// of its EC2NodeClass. When it changes, all else begins again.
	Definition string `json:"definition" redact:"-"`
	// Since is when launches by this definition began to count.
	Since metav1.Time `json:"since"`
	// Revision is the one that the rollout had when launches by this definition began to count, and
	// From the one that was applied before; both empty if no commit has begun it.
	// +optional
	Revision string `json:"revision,omitempty" redact:"-"`
	// +optional
	From string `json:"from,omitempty" redact:"-"`
	// Failed are the launches that have failed since the last one that has not, oldest first.
	// +optional
	Failed []FailedLaunch `json:"failed,omitempty"`
	// Reason is why the replacement goes wrong, is held, or waits: FailedLaunches, UnexpectedDrift,
	// HeldByCondition or Frozen. Empty if it goes on.
	// +optional
	Reason BrakeReason `json:"reason,omitempty"`
	// Message says it in words.
	// +optional
	Message string `json:"message,omitempty"`
	// BrakedAt is since when Karpenter is to replace no more nodes. It stands here before the
	// disruption budget is written.
	// +optional
	BrakedAt *metav1.Time `json:"brakedAt,omitempty"`
	// Failure is why that budget could not be written; empty if it was.
	// +optional
	Failure string `json:"failure,omitempty"`
	// ResumedAt is when a person has resumed it.
	// +optional
	ResumedAt *metav1.Time `json:"resumedAt,omitempty"`
	// DespiteFreeze reports whether it goes on while spec.guard.windows and freeze let no node be replaced:
	// its definition was reverted amid that, or a person has resumed it. It ends with the freeze, or when its definition
	// changes again.
	// +optional
	DespiteFreeze bool `json:"despiteFreeze,omitempty"`
	// Reverting reports whether its definition is about to change to the reverted one, for which DespiteFreeze is true.
	// +optional
	Reverting bool `json:"reverting,omitempty"`
	// Proposal is the pull request that takes back what has failed, with onFailure BrakeAndPropose.
	// +optional
	Proposal *RevertProposal `json:"proposal,omitempty"`
}

// RevertProposal is a pull request that takes definitions back to an earlier revision.
type RevertProposal struct {
	// Branch that it is from.
	// +optional
	Branch string `json:"branch,omitempty" redact:"-"`
	// URL of its page; empty if there is none.
	// +optional
	URL string `json:"url,omitempty" redact:"-"`
	// Commit that plumbline has pushed to its branch; empty if that is not known.
	// +optional
	Commit string `json:"commit,omitempty" redact:"-"`
	// Changed reports whether its branch has another commit by now, which is not plumbline's.
	// +optional
	Changed bool `json:"changed,omitempty"`
	// Merged reports whether it was merged.
	// +optional
	Merged bool `json:"merged,omitempty"`
	// Closed reports whether it was closed without being merged. Another one is not opened.
	// +optional
	Closed bool `json:"closed,omitempty"`
	// Message says why there is none.
	// +optional
	Message string `json:"message,omitempty"`
}

// FailedLaunch is a NodeClaim whose node did not register or initialize.
type FailedLaunch struct {
	// NodeClaim is its name.
	NodeClaim string `json:"nodeClaim" redact:"-"`
	// Created is when it was created.
	Created metav1.Time `json:"created"`
}

// LaunchFailure is why a NodePool gets no nodes.
type LaunchFailure struct {
	// Pool is the NodePool.
	Pool string `json:"pool" redact:"-"`
	// Message says why.
	Message string `json:"message"`
	// Missing names the nodes that Git or a pod wants and that the NodePool does not have: "0 of 2 nodes of NodePool/web"
	// of a static pool, else "no node of NodePool/web". Empty if only the newest launch failed.
	// +optional
	Missing string `json:"missing,omitempty" redact:"-"`
	// Lost reports that no launch failed: a static pool has lost nodes, by no commit, and Karpenter launches no others. The commit
	// status does not depend on it; the drift status does.
	// +optional
	Lost bool `json:"lost,omitempty"`
	// Since is since when nodes are missing under the revision that is applied; spec.rollout.timeout counts from here. Nil
	// if none is missing.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// Settling reports whether Karpenter may still find nodes that the commit of the rollout has outdated; false if there is none.
func (r *Rollout) Settling(now time.Time) bool {
	return r != nil && r.Revision != "" && r.SettlesAt != nil && now.Before(r.SettlesAt.Time)
}
