package v1alpha1

import (
	"cmp"
	"slices"
	"time"

	"github.com/fluxcd/pkg/apis/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RolloutPolicy is how the replacement of nodes that a commit has outdated is supervised.
// +kubebuilder:validation:XValidation:rule="!has(self.waves) || has(self.waves.disabled) && self.waves.disabled || !has(self.onFailure) || self.onFailure != 'Report'",message="waves stop a rollout whose workloads fail: they need onFailure Brake or BrakeAndPropose"
type RolloutPolicy struct {
	// Timeout is how long it may take until its commit status is a failure. It does not stop the rollout. Default:
	// none, as the windows of disruption budgets may be a week apart. status.rollout.estimate reports beforehand that
	// it is expected to take longer.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// OnFailure is what happens if the launches of replacements fail: Brake stops the replacement of the pool's nodes,
	// BrakeAndPropose also opens a pull request with a revert, and Report only reports it.
	//
	// Brake sets a disruption budget that stops Karpenter from replacing more nodes of the pool, until a commit changes
	// its definition or a person resumes it. The pull request restores the definitions of the revision that was applied
	// before.
	// +kubebuilder:validation:Enum=Report;Brake;BrakeAndPropose
	// +kubebuilder:default=Brake
	// +optional
	OnFailure RolloutFailurePolicy `json:"onFailure,omitempty"`
	// FailedLaunches is the number of consecutive launches, whose nodes do not register or initialize, that counts as a
	// failure.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	// +kubebuilder:default=3
	// +optional
	FailedLaunches int32 `json:"failedLaunches,omitempty"`
	// UnexpectedDrift is what happens to nodes that no commit has outdated, such as when an AMI alias resolves to a
	// new image: Waves replaces them in waves, Brake stops their replacement, Report only reports them.
	//
	// Waves begin once plumbline finds more than three such nodes in a NodePool: until then, Karpenter may replace nodes at
	// the pace of the disruption budgets. Without waves, Waves is the same as Report. Brake lasts until a commit changes
	// the definition of the nodes or a person resumes it.
	// +kubebuilder:validation:Enum=Report;Brake;Waves
	// +kubebuilder:default=Waves
	// +optional
	UnexpectedDrift RolloutFailurePolicy `json:"unexpectedDrift,omitempty"`
	// HoldWhile are conditions that stop a rollout while they are true.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +optional
	HoldWhile []RolloutHold `json:"holdWhile,omitempty"`
	// Waves limit how many nodes of a NodePool are replaced before the workloads on the new ones are judged. Without it,
	// nodes are replaced in waves by the defaults, unless onFailure is Report. {disabled: true} turns waves off.
	// +optional
	Waves *RolloutWaves `json:"waves,omitempty"`
	// WatchFor is how long, with waves, the workloads on the new nodes are still judged after the last node was replaced.
	// The commit status is pending until then. Default: 10m.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="must be at most 24h"
	// +optional
	WatchFor *metav1.Duration `json:"watchFor,omitempty"`
}

// RolloutWaves are waves in which the nodes of a NodePool are replaced, if more than three of them are outdated.
// Each wave begins once the workloads on the new nodes of the one before are good; if they are bad, the rollout is
// stopped. Karpenter chooses the nodes, and the disruption budgets in Git remain the upper limit of how many are replaced
// at a time. A wave of more than 100 nodes is the last: it has all remaining nodes.
type RolloutWaves struct {
	// Disabled turns waves off: nodes are replaced at the pace of the disruption budgets in Git, and workloads are not
	// judged. All other fields are ignored.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// Start is the number of nodes of the first wave.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=1
	// +optional
	Start int32 `json:"start,omitempty"`
	// Factor is by how much each wave is larger than the one before.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:default=2
	// +optional
	Factor int32 `json:"factor,omitempty"`
	// Pause is how long the workloads are judged, from when the last node of a wave is replaced until the next wave.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be 1s to 24h"
	// +kubebuilder:default="10m"
	// +optional
	Pause *metav1.Duration `json:"pause,omitempty"`
	// InconclusiveAfter is how long a wave waits, from when its last node is replaced, for workloads that prove anything.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('24h')",message="must be 1s to 24h"
	// +kubebuilder:default="30m"
	// +optional
	InconclusiveAfter *metav1.Duration `json:"inconclusiveAfter,omitempty"`
	// OnInconclusive is what happens then: Continue begins the next wave, Hold waits until a person continues it with
	// plumbline resume-rollout --wave.
	// +kubebuilder:validation:Enum=Continue;Hold
	// +kubebuilder:default=Continue
	// +optional
	OnInconclusive InconclusivePolicy `json:"onInconclusive,omitempty"`
	// MaxParallelPools is how many NodePools may be in a wave at the same time, each until the workloads on its last nodes
	// have been judged for the pause. Default: no limit. With 1 and a NodePool for each zone, zones are replaced one after
	// another.
	// +kubebuilder:validation:Minimum=1
	// +optional
	MaxParallelPools int32 `json:"maxParallelPools,omitempty"`
	// Spread is which nodes of a NodePool a wave has: None, because Karpenter chooses them, and no disruption budget is for
	// one zone.
	// +kubebuilder:validation:Enum=None;Zone
	// +kubebuilder:validation:XValidation:rule="self != 'Zone'",message="Zone is not supported, because no disruption budget is for one zone: use a NodePool for each zone, and maxParallelPools: 1"
	// +optional
	Spread WaveSpread `json:"spread,omitempty"`
}

// WaveSpread is which nodes of a NodePool a wave has.
type WaveSpread string

// The values of WaveSpread.
const (
	SpreadNone WaveSpread = "None"
	SpreadZone WaveSpread = "Zone"
)

// InconclusivePolicy is what happens after a wave in which nothing ran that proves anything.
type InconclusivePolicy string

// The values of InconclusivePolicy.
const (
	InconclusiveContinue InconclusivePolicy = "Continue"
	InconclusiveHold     InconclusivePolicy = "Hold"
)

// GetWaves returns the waves in which nodes are replaced, with their defaults; nil if waves are off. The section rollout
// has no default, so that the API server sets none of its fields if it is absent.
func (p *RolloutPolicy) GetWaves() *RolloutWaves {
	switch {
	case p.Waves != nil && p.Waves.Disabled:
		return nil
	case p.Waves != nil:
		return p.Waves
	case p.OnFailure == RolloutReport: // nothing would stop a bad wave
		return nil
	}
	return &RolloutWaves{Start: 1, Factor: 2, OnInconclusive: InconclusiveContinue}
}

// GetUnexpectedDrift returns UnexpectedDrift, with its default.
func (p *RolloutPolicy) GetUnexpectedDrift() RolloutFailurePolicy {
	return cmp.Or(p.UnexpectedDrift, RolloutWavesOnDrift)
}

// GetPause returns Pause, with its default.
func (w *RolloutWaves) GetPause() time.Duration { return durationOr(w.Pause, 10*time.Minute) }

// GetInconclusiveAfter returns InconclusiveAfter, with its default.
func (w *RolloutWaves) GetInconclusiveAfter() time.Duration {
	return durationOr(w.InconclusiveAfter, 30*time.Minute)
}

// GetWatchFor returns WatchFor, with its default; 0 without waves.
func (p *RolloutPolicy) GetWatchFor() time.Duration {
	if p.GetWaves() == nil {
		return 0
	}
	return durationOr(p.WatchFor, 10*time.Minute)
}

func durationOr(d *metav1.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return d.Duration
}

// RolloutHold is a condition that stops a rollout while it is true: a Prometheus query that has a result, or alerts of
// Alertmanager.
// +kubebuilder:validation:XValidation:rule="has(self.query) != has(self.alerts)",message="exactly one of query and alerts must be set"
type RolloutHold struct {
	// Name identifies the condition in messages.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// URL of Prometheus, or of Alertmanager, without /api.
	// +kubebuilder:validation:Pattern=`^https?://[^@?#\s]+$`
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// Query of Prometheus: the rollout is stopped while it returns a result, as for an alert; for a scalar, while it is
	// not 0.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	Query string `json:"query,omitempty"`
	// Alerts are matchers of Alertmanager, such as severity="page": the rollout is stopped while an active alert,
	// neither silenced nor inhibited, matches all of them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +optional
	Alerts []string `json:"alerts,omitempty"`
	// SecretRef names a Secret with token, or with username and password, and with ca.crt if the host's certificate is
	// issued by a private authority.
	// +optional
	SecretRef *meta.LocalObjectReference `json:"secretRef,omitempty"`
	// Timeout of one query. Default: 5s.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('30s')",message="must be 100ms to 30s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// Unreachable is what happens while the host cannot be queried: Hold stops the rollout, Ignore does not.
	// +kubebuilder:validation:Enum=Hold;Ignore
	// +kubebuilder:default=Hold
	// +optional
	Unreachable UnreachablePolicy `json:"unreachable,omitempty"`
}

// UnreachablePolicy is what happens while a condition cannot be queried.
type UnreachablePolicy string

// The values of UnreachablePolicy.
const (
	UnreachableHold   UnreachablePolicy = "Hold"
	UnreachableIgnore UnreachablePolicy = "Ignore"
)

// RolloutFailurePolicy is what happens when a rollout fails.
type RolloutFailurePolicy string

// The values of RolloutFailurePolicy.
const (
	// RolloutReport reports it.
	RolloutReport RolloutFailurePolicy = "Report"
	// RolloutBrake stops it.
	RolloutBrake RolloutFailurePolicy = "Brake"
	// RolloutBrakeAndPropose stops it, and opens a pull request that reverts it.
	RolloutBrakeAndPropose RolloutFailurePolicy = "BrakeAndPropose"
	// RolloutWavesOnDrift replaces the nodes in waves.
	RolloutWavesOnDrift RolloutFailurePolicy = "Waves"
)

// Rollout is the replacement of nodes that do not match their definitions. It is recorded before anything is applied
// that outdates nodes, and ends when each node matches or is gone.
type Rollout struct {
	// Revision that has outdated the nodes; empty if no commit has, for example if an AMI alias resolves to a new
	// image.
	// +optional
	Revision string `json:"revision,omitempty" redact:"-"`
	// From is the revision that was applied before that one; empty if none was.
	// +optional
	From string `json:"from,omitempty" redact:"-"`
	// Pools are the NodePools that the revision changes, directly or through their EC2NodeClass. Empty if they are
	// unknown, or if no commit has outdated the nodes.
	// +listType=atomic
	// +optional
	Pools []string `json:"pools,omitempty" redact:"-"`
	// Since is when it started.
	Since metav1.Time `json:"since"`
	// Nodes is the number of nodes that it affects.
	Nodes int32 `json:"nodes"`
	// Outdated is how many of them do not match yet, including those that are draining.
	Outdated int32 `json:"outdated"`
	// Draining is how many of the outdated ones are being deleted.
	// +optional
	Draining int32 `json:"draining,omitempty"`
	// LastProgress is when the numbers last changed.
	LastProgress metav1.Time `json:"lastProgress"`
	// SettlesAt is until when Karpenter may find more outdated nodes, because it has to query AWS first.
	// +optional
	SettlesAt *metav1.Time `json:"settlesAt,omitempty"`
	// Reasons are Karpenter's reasons why the nodes are outdated.
	// +optional
	Reasons []string `json:"reasons,omitempty" redact:"-"`
	// Unhashed are the NodePools and EC2NodeClasses, as Kind/name, whose hash the commit has changed while NodeClaims
	// of them had no hash that Karpenter can compare.
	// +listType=atomic
	// +optional
	Unhashed []string `json:"unhashed,omitempty" redact:"-"`
	// Inputs are what has outdated nodes that no commit has outdated.
	// +listType=atomic
	// +optional
	Inputs []DriftInput `json:"inputs,omitempty"`
	// StaticPools are the static NodePools that have fewer nodes than replicas, and that were written or whose nodes
	// the commit has outdated.
	// +listType=atomic
	// +optional
	StaticPools []StaticPool `json:"staticPools,omitempty"`
	// Message says what it waits for.
	// +optional
	Message string `json:"message,omitempty"`
	// Paces are how fast the nodes of each NodePool have been replaced: of the 30 NodePools with the most outdated
	// nodes, by name.
	// +listType=map
	// +listMapKey=pool
	// +optional
	Paces []RolloutPace `json:"paces,omitempty"`
	// Estimate is when the rollout is expected to be complete, and what limits it. Nil while nothing indicates either.
	// +optional
	Estimate *RolloutEstimate `json:"estimate,omitempty"`
	// WatchUntil is until when, with waves, the workloads on the new nodes are judged although no node is outdated any
	// more; nil before that.
	// +optional
	WatchUntil *metav1.Time `json:"watchUntil,omitempty"`
}

// RolloutPace is how fast the outdated nodes of a NodePool have been replaced. The time in which none could be replaced
// does not count: outside of windows, while the rollout is stopped, or while Karpenter's controller is not ready.
type RolloutPace struct {
	// Pool is the NodePool.
	Pool string `json:"pool" redact:"-"`
	// Since is when its nodes were found to be outdated.
	Since metav1.Time `json:"since"`
	// Nodes is how many have been outdated since then, and Outdated how many of them still are.
	Nodes    int32 `json:"nodes"`
	Outdated int32 `json:"outdated"`
	// AtATime is the most that Karpenter was replacing at a time.
	// +optional
	AtATime int32 `json:"atATime,omitempty"`
	// TookSeconds is how long it took until the newest one was replaced.
	// +optional
	TookSeconds int64 `json:"tookSeconds,omitempty"`
	// ClosedSince is since when none can be replaced; nil if one can. ClosedSeconds is how long that lasted before.
	// +optional
	ClosedSince *metav1.Time `json:"closedSince,omitempty"`
	// +optional
	ClosedSeconds int64 `json:"closedSeconds,omitempty"`
}

// RolloutEstimate is when a rollout is expected to be complete. It changes in large steps only.
type RolloutEstimate struct {
	// EndsAt is the expected time. Nil if it is unknown, for example because nodes wait for something that does not
	// pass by itself.
	// +optional
	EndsAt *metav1.Time `json:"endsAt,omitempty"`
	// AtLeast reports whether EndsAt is the earliest possible time: too few nodes have been replaced to measure how
	// fast they are.
	// +optional
	AtLeast bool `json:"atLeast,omitempty"`
	// LimitedBy is what limits the NodePool that is expected to be complete last: Budgets, Windows, Pods, Launches,
	// Stopped, Waves or Karpenter. Empty if all of its nodes are being replaced, or if that is unknown.
	// +optional
	LimitedBy RolloutLimit `json:"limitedBy,omitempty"`
	// Pool is that NodePool.
	// +optional
	Pool string `json:"pool,omitempty" redact:"-"`
	// ExceedsSince is since when the rollout is expected to take longer than spec.rollout.timeout; nil if it is not.
	// +optional
	ExceedsSince *metav1.Time `json:"exceedsSince,omitempty"`
	// ExceedsBy is by how much longer, rounded up; nil if unknown.
	// +optional
	ExceedsBy *metav1.Duration `json:"exceedsBy,omitempty"`
}

// RolloutLimit is what limits how fast nodes are replaced.
// +kubebuilder:validation:Enum=Budgets;Windows;Pods;Launches;Stopped;Waves;Karpenter
type RolloutLimit string

// The values of RolloutLimit.
const (
	// LimitBudgets: as many nodes are replaced as the disruption budgets allow, or they allow none.
	LimitBudgets RolloutLimit = "Budgets"
	// LimitWindows: nodes are replaced only in windows of disruption budgets or of spec.guard.
	LimitWindows RolloutLimit = "Windows"
	// LimitPods: pods keep nodes from being drained.
	LimitPods RolloutLimit = "Pods"
	// LimitLaunches: Karpenter launches no replacements.
	LimitLaunches RolloutLimit = "Launches"
	// LimitStopped: plumbline has stopped the rollout in the NodePool.
	LimitStopped RolloutLimit = "Stopped"
	// LimitWaves: the next nodes are replaced once the workloads on the new ones are good.
	LimitWaves RolloutLimit = "Waves"
	// LimitKarpenter: Karpenter replaces fewer nodes at a time than the disruption budgets allow, or none.
	LimitKarpenter RolloutLimit = "Karpenter"
)

// StaticPool is a static NodePool and the number of its nodes.
type StaticPool struct {
	// Pool is the NodePool.
	Pool string `json:"pool" redact:"-"`
	// Replicas is spec.replicas, and Ready the number of nodes that are initialized and not being deleted.
	Replicas int32 `json:"replicas"`
	Ready    int32 `json:"ready"`
}

// DriftInput is what has outdated nodes of a NodePool: what they have, and what their definitions now require.
type DriftInput struct {
	// Pool is the NodePool.
	Pool string `json:"pool" redact:"-"`
	// Reason is Karpenter's, such as AMIDrift.
	Reason string `json:"reason" redact:"-"`
	// From is what the nodes have, such as an AMI. Empty if unknown.
	// +optional
	From string `json:"from,omitempty" redact:"hide"`
	// To is what their definitions now require, or why that is unknown.
	To string `json:"to" redact:"hide"`
}

// Changes reports whether the commit of a rollout changes a NodePool or its EC2NodeClass.
func (r *Rollout) Changes(pool string) bool {
	return r.Revision != "" && (len(r.Pools) == 0 || slices.Contains(r.Pools, pool))
}

// Words describes it: AMIDrift: ami-1 → ami-2 (al2023@latest).
func (i DriftInput) Words() string {
	switch i.From {
	case "":
		return i.Reason + ": inputs unknown: " + i.To
	case i.To:
		return i.Reason + ": " + i.From + ", which is called for again"
	}
	return i.Reason + ": " + i.From + " → " + i.To
}

// InputOf returns the one input that can have outdated a node of a pool for a reason; has are values of From that the
// node is known to have. It returns nil if there is none, or several.
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
	// Definition is a hash of what defines its nodes: spec.template of the NodePool and the spec of its EC2NodeClass.
	// When it changes, all other fields are reset.
	Definition string `json:"definition" redact:"-"`
	// Since is when launches by this definition started to count.
	Since metav1.Time `json:"since"`
	// Revision is the rollout's revision when launches by this definition started to count, and From the revision
	// applied before; both are empty if no commit has started it.
	// +optional
	Revision string `json:"revision,omitempty" redact:"-"`
	// +optional
	From string `json:"from,omitempty" redact:"-"`
	// Failed are the launches that have failed since the last successful one, oldest first.
	// +optional
	Failed []FailedLaunch `json:"failed,omitempty"`
	// Reason is why the replacement fails, is held, or waits: FailedLaunches, FailedWave, UnexpectedDrift,
	// HeldByCondition or Frozen. Empty if it continues.
	// +optional
	Reason BrakeReason `json:"reason,omitempty"`
	// Message describes the reason.
	// +optional
	Message string `json:"message,omitempty"`
	// BrakedAt is since when Karpenter must replace no more nodes. It is recorded before the disruption budget is
	// written.
	// +optional
	BrakedAt *metav1.Time `json:"brakedAt,omitempty"`
	// Failure is why that budget could not be written; empty if it was.
	// +optional
	Failure string `json:"failure,omitempty"`
	// ResumedAt is when a person has resumed it.
	// +optional
	ResumedAt *metav1.Time `json:"resumedAt,omitempty"`
	// DespiteFreeze reports whether it continues while spec.guard.windows and freeze let no node be replaced:
	// its definition was reverted amid that, or a person has resumed it. It ends with the freeze, or when its definition
	// changes again.
	// +optional
	DespiteFreeze bool `json:"despiteFreeze,omitempty"`
	// Proposal is the pull request that takes back what has failed, with onFailure BrakeAndPropose.
	// +optional
	Proposal *RevertProposal `json:"proposal,omitempty"`
	// Wave is the wave of the pool; nil if its nodes are not replaced in waves. It is recorded before the disruption
	// budget of the wave is written.
	// +optional
	Wave *RolloutWave `json:"wave,omitempty"`
}

// RolloutWave is the replacement of a limited number of nodes of a NodePool, and the judgement of the workloads on the
// new ones.
type RolloutWave struct {
	// Number counts from 1; 0 before the first wave. Of is the expected number of waves.
	// +optional
	Number int32 `json:"number,omitempty"`
	// +optional
	Of int32 `json:"of,omitempty"`
	// State is what the wave does or waits for.
	State WaveState `json:"state"`
	// Size is how many nodes may be replaced. Begun is the number of those that Karpenter has begun to replace.
	// +optional
	Size int32 `json:"size,omitempty"`
	// +optional
	Begun int32 `json:"begun,omitempty"`
	// Replacing are the NodeClaims of the wave that are being replaced, and Leaving those that were being replaced or
	// deleted when it began, which do not count.
	// +listType=atomic
	// +optional
	Replacing []string `json:"replacing,omitempty" redact:"-"`
	// +listType=atomic
	// +optional
	Leaving []string `json:"leaving,omitempty" redact:"-"`
	// Waiting is the number of outdated nodes whose replacement has not begun.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// New is the number of nodes that were launched for the wave, and Good how many of them are initialized and have only
	// good workloads.
	// +optional
	New int32 `json:"new,omitempty"`
	// +optional
	Good int32 `json:"good,omitempty"`
	// Since is when the first wave began, and BeganAt when this one did; both when it was prepared if it has no number.
	Since   metav1.Time `json:"since"`
	BeganAt metav1.Time `json:"beganAt"`
	// NewSince is since when the nodes were launched that are judged, if that is before Since: a commit that leaves new nodes
	// as they are does not end their judgement.
	// +optional
	NewSince *metav1.Time `json:"newSince,omitempty"`
	// ReplacedAt is since when no more nodes are to be drained for the wave: the workloads are judged from then on.
	// +optional
	ReplacedAt *metav1.Time `json:"replacedAt,omitempty"`
	// WatchedAt is when, at or after status.rollout.watchUntil, the workloads on the new nodes were not bad: the rollout is
	// complete. Nil before that.
	// +optional
	WatchedAt *metav1.Time `json:"watchedAt,omitempty"`
	// NextAt is when the next wave may begin; nil if that does not depend on time.
	// +optional
	NextAt *metav1.Time `json:"nextAt,omitempty"`
	// Message says what it waits for, or compares the workloads on new nodes with those on old ones.
	// +optional
	Message string `json:"message,omitempty"`
	// Excused are the workloads whose pods failed before their node was replaced, or fail on nodes that are not replaced
	// yet, as "Deployment gpu/train 5d4f" with the hash of the pod template, and the share of them if that is less than
	// half ("20%"). Pods on new nodes count only if more than twice that share fails.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	// +optional
	Excused []string `json:"excused,omitempty"`
	// From is a hash of what defined the nodes of the pool before the commit, as in Definition. When a commit restores
	// that, its nodes are not replaced in waves.
	// +optional
	From string `json:"from,omitempty" redact:"-"`
	// Continued is the newest inconclusive wave that a person has continued; nil if none has.
	// +optional
	Continued *ContinuedWave `json:"continued,omitempty"`
}

// JudgesSince returns since when the nodes were launched whose workloads are judged.
func (w *RolloutWave) JudgesSince() metav1.Time {
	if w.NewSince != nil {
		return *w.NewSince
	}
	return w.Since
}

// ContinuedWave is an inconclusive wave that a person has continued.
type ContinuedWave struct {
	// Number of the wave.
	Number int32 `json:"number"`
	// At is when it was continued.
	At metav1.Time `json:"at"`
	// Reason is the person's.
	// +optional
	Reason string `json:"reason,omitempty" redact:"hide"`
}

// WaveState is what a wave does or waits for.
// +kubebuilder:validation:Enum=Preparing;Queued;Open;Judging;Held;Failed;Last
type WaveState string

// The values of WaveState.
const (
	// WavePreparing: the commit is written once Karpenter can replace no node of the pool.
	WavePreparing WaveState = "Preparing"
	// WaveQueued: with spec.rollout.waves.maxParallelPools, the first wave waits for other NodePools, or until the budgets in Git
	// allow a replacement.
	WaveQueued WaveState = "Queued"
	// WaveOpen: Karpenter may begin to replace nodes.
	WaveOpen WaveState = "Open"
	// WaveJudging: all nodes of the wave are being replaced, or were, and the workloads are judged.
	WaveJudging WaveState = "Judging"
	// WaveHeld: nothing ran on the new nodes that proves anything, and a person must continue.
	WaveHeld WaveState = "Held"
	// WaveFailed: workloads fail on the new nodes, and not on the old ones.
	WaveFailed WaveState = "Failed"
	// WaveLast: the remaining nodes are replaced at the pace of the disruption budgets in Git, as long as plumbline renews
	// that, and the workloads are judged until spec.rollout.watchFor is over.
	WaveLast WaveState = "Last"
)

// Limits reports whether a wave limits how many nodes are replaced; false if w is nil. The last one only limits until when.
func (w *RolloutWave) Limits() bool { return w != nil && w.State != WaveLast }

// RevertedPool is a NodePool whose definition was reverted during a freeze.
type RevertedPool struct {
	// Pool is the NodePool.
	Pool string `json:"pool" redact:"-"`
	// From is a hash of what defined its nodes before the revert, as in PoolRollout. While it still does, the revert was
	// not written, and another one may replace it.
	From string `json:"from" redact:"-"`
	// Definition is a hash of what defines its nodes in Git after the revert.
	Definition string `json:"definition" redact:"-"`
}

// RevertProposal is a pull request that restores definitions of an earlier revision.
type RevertProposal struct {
	// Branch of the pull request.
	// +optional
	Branch string `json:"branch,omitempty" redact:"-"`
	// URL of its page; empty if there is none.
	// +optional
	URL string `json:"url,omitempty" redact:"-"`
	// Commit that plumbline has pushed to its branch; empty if unknown.
	// +optional
	Commit string `json:"commit,omitempty" redact:"-"`
	// Changed reports whether its branch now has a commit that is not plumbline's.
	// +optional
	Changed bool `json:"changed,omitempty"`
	// Merged reports whether it was merged.
	// +optional
	Merged bool `json:"merged,omitempty"`
	// Closed reports whether it was closed without being merged. plumbline does not open another one.
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
	// Missing names the nodes that Git or a pod requires and that the NodePool does not have: "0 of 2 nodes of
	// NodePool/web" for a static pool, else "no node of NodePool/web". Empty if only the newest launch failed.
	// +optional
	Missing string `json:"missing,omitempty" redact:"-"`
	// Lost reports that no launch failed: a static pool has lost nodes, by no commit, and Karpenter launches no others.
	// The commit status does not depend on it; the drift status does.
	// +optional
	Lost bool `json:"lost,omitempty"`
	// Since is since when nodes are missing under the applied revision; spec.rollout.timeout starts here. Nil if none
	// is missing.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// Settling reports whether Karpenter may still find nodes that the rollout's commit has outdated; false if r is nil.
func (r *Rollout) Settling(now time.Time) bool {
	return r != nil && r.Revision != "" && r.SettlesAt != nil && now.Before(r.SettlesAt.Time)
}
