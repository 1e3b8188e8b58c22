package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// DefaultRemovalPeriod is the default of guard.removalPeriod.
const DefaultRemovalPeriod = 30 * time.Minute

// Guard limits what a repository can remove or disrupt without an approval.
//
// +kubebuilder:validation:XValidation:rule="!has(self.approveFrom) || self.approveFrom != 'Git' || !has(self.approvals) || self.approvals == 1",message="approveFrom: Git needs approvals: 1: a commit does not say how many people have reviewed it, the rules of the Git host do"
type Guard struct {
	// MaxRemovedPools is how many NodePools may be removed within removalPeriod, and how many at one time. Removals
	// beyond it are held.
	//
	// Removals that only have to wait for one that has been in progress for longer than removalPeriod are queued
	// instead, and start by themselves.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxRemovedPools *int32 `json:"maxRemovedPools,omitempty"`

	// RemovalPeriod is how long removals count together with those of later commits, for maxRemovedPools and
	// maxDisruptedNodes.
	//
	// Splitting a removal into several commits therefore does not bypass the limits. Nodes that commits let Karpenter
	// terminate without a replacement count as well. The period is counted back from the commit that is evaluated. A
	// removal that exceeds a limit together with those of its period stays held after the period is over. With 0s only
	// removals that are not complete count.
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('24h')",message="must be at most 24h"
	// +optional
	RemovalPeriod *metav1.Duration `json:"removalPeriod,omitempty"`

	// AllowLastPool allows the removal of the last NodePool.
	// +optional
	AllowLastPool bool `json:"allowLastPool,omitempty"`

	// AllowUnverifiedAccount allows a first install or an adoption of Karpenter while AWS cannot confirm that this is
	// the cluster of that name. It never allows one if AWS reports that it is another cluster.
	// +optional
	AllowUnverifiedAccount bool `json:"allowUnverifiedAccount,omitempty"`

	// MaxDisruptedNodes is how many nodes may be disrupted at one time. Removals and changes beyond it are held.
	//
	// It counts the nodes that a commit would disrupt, those that are terminating already, and those that earlier
	// commits have outdated and that are not replaced yet. Removals and scale-downs count with all their nodes.
	// Replacements count with the nodes that the NodePool's disruption budgets let Karpenter replace at one time, if
	// spec.rollout.onFailure is Brake or BrakeAndPropose and no budget of the pool, now or in any window, exceeds the
	// limit; otherwise with all their nodes. A percentage is of this NodeSync's NodeClaims, without those that a commit
	// may have added within removalPeriod, and allows at least 3.
	// +kubebuilder:default="25%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0",message="must not be negative"
	// +optional
	MaxDisruptedNodes *intstr.IntOrString `json:"maxDisruptedNodes,omitempty"`

	// MaxDisruptedNodesPerPool is how many nodes of one NodePool may be disrupted at one time, counted as for
	// maxDisruptedNodes. Default: no limit.
	//
	// What exceeds it in one pool is held: the removal of that pool, and each change that disrupts nodes of it. Other
	// pools proceed. A percentage is of the pool's NodeClaims, and allows at least 3.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0",message="must not be negative"
	// +optional
	MaxDisruptedNodesPerPool *intstr.IntOrString `json:"maxDisruptedNodesPerPool,omitempty"`

	// MaxReplacedNodes is how many nodes Karpenter may replace in total, however few at one time. Changes beyond it are
	// held. Default: no limit.
	//
	// It counts the nodes that a commit would outdate, and those that earlier commits have outdated and that are not
	// replaced yet. A percentage is of this NodeSync's NodeClaims, and allows at least 3.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0",message="must not be negative"
	// +optional
	MaxReplacedNodes *intstr.IntOrString `json:"maxReplacedNodes,omitempty"`

	// IntolerantDaemonSets is what happens to removals and replacements if a DaemonSet of a CSI driver or a CNI plugin
	// does not tolerate the taint karpenter.sh/disrupted:NoSchedule.
	//
	// Karpenter drains a node with this taint: the DaemonSet's pods would be evicted, and volumes would stay attached.
	// Warn only reports it, in the condition IntolerantDaemonSets; Hold also holds what would terminate nodes.
	// +kubebuilder:default=Warn
	// +optional
	IntolerantDaemonSets IntolerantDaemonSets `json:"intolerantDaemonSets,omitempty"`

	// UnschedulablePods is what happens to the removal of a NodePool if pods of its nodes cannot be scheduled
	// elsewhere: Hold holds it, and names the pods.
	//
	// plumbline simulates Karpenter's own scheduling before the first node is terminated. What cannot be simulated is
	// not held.
	// +kubebuilder:default=Hold
	// +optional
	UnschedulablePods UnschedulablePods `json:"unschedulablePods,omitempty"`

	// Approvals is how many different principals must approve what is held (plumbline approve). An IAM role counts
	// once, whatever its session names; see trustedSessions.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	// +optional
	Approvals *int32 `json:"approvals,omitempty"`

	// TrustedSessions are the ARNs of IAM roles whose sessions are persons: each session name counts as a separate
	// principal. Default: none.
	//
	// List only roles whose session names are set by the identity provider and not by the user, as IAM Identity Center
	// does. A role's path does not matter.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:Pattern=`^arn:[a-z0-9-]+:iam::[0-9]{12}:role/[^*]+$`
	// +optional
	TrustedSessions []string `json:"trustedSessions,omitempty"`

	// ApproveFrom is where people may approve what is held: in the cluster (plumbline approve), or also in Git.
	//
	// In Git, the list approve of plumbline.yaml names the digest. Everyone who may push must then be trusted to
	// approve.
	// +kubebuilder:default=Cluster
	// +optional
	ApproveFrom ApproveFrom `json:"approveFrom,omitempty"`

	// Windows are when nodes may be removed or replaced. Outside of them, removals and changes that replace or
	// terminate nodes wait. Default: at all times.
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Windows []GuardWindow `json:"windows,omitempty"`

	// Freeze are dates on which no node is removed or replaced, even within windows.
	// +kubebuilder:validation:MaxItems=50
	// +optional
	Freeze []GuardFreeze `json:"freeze,omitempty"`

	// OnIdentityConflict is what plumbline does if another controller launches or terminates instances under this
	// cluster's name, besides reporting it in the condition IdentityConflict.
	//
	// Report does nothing else. Freeze makes everything wait that removes or replaces nodes, and holds Karpenter's
	// voluntary disruption; reverts are written. StopController, in addition, scales this cluster's Karpenter to 0 if the
	// conflict is proven, so that it terminates no instance of the other cluster. Protect, in addition to Freeze, enables
	// EC2's termination protection on this cluster's on-demand instances, except those whose NodeClaim is being deleted;
	// it needs manifests/iam-policy-protect.json. A conflict under StopController or Protect is over only when a person
	// runs plumbline identity --resolved.
	// +kubebuilder:default=Freeze
	// +optional
	OnIdentityConflict OnIdentityConflict `json:"onIdentityConflict,omitempty"`
}

// GuardWindow is a recurring time, written as in Karpenter's disruption budgets.
type GuardWindow struct {
	// Schedule is when it starts, as a cron schedule: 0 22 * * mon-fri.
	// +kubebuilder:validation:Pattern=`^(@(annually|yearly|monthly|weekly|daily|midnight|hourly))|((.+)\s(.+)\s(.+)\s(.+)\s(.+))$`
	// +kubebuilder:validation:MaxLength=256
	Schedule string `json:"schedule"`
	// Duration is how long it lasts: 6h30m.
	// +kubebuilder:validation:Pattern=`^((([0-9]+(h|m))|([0-9]+h[0-9]+m))(0s)?)$`
	// +kubebuilder:validation:Type="string"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1m') && duration(self) <= duration('744h')",message="must be from 1m to 744h"
	Duration metav1.Duration `json:"duration"`
	// TimeZone is the time zone of the schedule, as an IANA name. Default: UTC.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// GuardFreeze is a period from one date to another.
//
// +kubebuilder:validation:XValidation:rule="self.from <= self.to",message="to must not be before from"
type GuardFreeze struct {
	// From is the first date: 2026-12-20.
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`
	// +kubebuilder:validation:MaxLength=10
	From string `json:"from"`
	// To is the last date, inclusive.
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$`
	// +kubebuilder:validation:MaxLength=10
	To string `json:"to"`
	// TimeZone is the time zone of both dates, as an IANA name. Default: UTC.
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$`
	// +kubebuilder:validation:MaxLength=64
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
	// Reason is what the freeze is for. Messages show it.
	// +kubebuilder:validation:MaxLength=64
	// +optional
	Reason string `json:"reason,omitempty"`
}

// GetRemovalPeriod returns removalPeriod, or its default.
func (g Guard) GetRemovalPeriod() time.Duration {
	if g.RemovalPeriod == nil {
		return DefaultRemovalPeriod
	}
	return g.RemovalPeriod.Duration
}

// IntolerantDaemonSets is what happens to changes that terminate nodes while a DaemonSet that the nodes need until the
// end would be evicted from them.
// +kubebuilder:validation:Enum=Warn;Hold
type IntolerantDaemonSets string

// The values of IntolerantDaemonSets.
const (
	IntolerantDaemonSetsWarn IntolerantDaemonSets = "Warn"
	IntolerantDaemonSetsHold IntolerantDaemonSets = "Hold"
)

// UnschedulablePods is what happens to a removal whose pods cannot be scheduled elsewhere.
// +kubebuilder:validation:Enum=Hold;Ignore
type UnschedulablePods string

// The values of UnschedulablePods.
const (
	UnschedulablePodsHold   UnschedulablePods = "Hold"
	UnschedulablePodsIgnore UnschedulablePods = "Ignore"
)

// Holds reports whether a removal is held if its pods cannot be scheduled elsewhere. That is simulated only then.
func (u UnschedulablePods) Holds() bool { return u != UnschedulablePodsIgnore }

// ApproveFrom is where people may approve what is held.
// +kubebuilder:validation:Enum=Cluster;Git
type ApproveFrom string

// The values of ApproveFrom.
const (
	ApproveFromCluster ApproveFrom = "Cluster"
	ApproveFromGit     ApproveFrom = "Git"
)

// Policy is a rule over each Plan: a CEL expression that is true if the Plan may be carried out. The whole Plan is the
// variable plan. An expression with the variable change is evaluated for each change in Git, and one with removal for
// each entry that is removed. Their fields are those of `plumbline plan -o json`.
type Policy struct {
	// Name identifies the policy in messages.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Expression is CEL, with Kubernetes' libraries, over plan, or over plan and one of change and removal. It must
	// return a bool.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.matches('(^|[^.a-zA-Z0-9_])(plan|change|removal)([^a-zA-Z0-9_]|$)')",message="must mention plan, change or removal: it decides about nothing else"
	Expression string `json:"expression"`

	// Message is shown if the expression is false.
	// +kubebuilder:validation:MaxLength=1024
	// +optional
	Message string `json:"message,omitempty"`

	// MessageExpression is CEL over the same variables, and returns the message. If it fails, Message is used.
	// +kubebuilder:validation:MaxLength=4096
	// +optional
	MessageExpression string `json:"messageExpression,omitempty"`

	// Action is what happens if the expression is false.
	Action PolicyAction `json:"action"`
}

// PolicyAction is what a policy does if its expression is false.
//
// +kubebuilder:validation:Enum=Deny;Hold
type PolicyAction string

// The values of PolicyAction.
const (
	// PolicyDeny refuses the commit: nothing of it is written, and no removal proceeds.
	PolicyDeny PolicyAction = "Deny"
	// PolicyHold holds what the expression was evaluated for, as the guard does: the change, the removal, or the whole
	// Plan.
	PolicyHold PolicyAction = "Hold"
)

// ChartAllow is what of Karpenter's charts may come from Git. Anything else is refused, with the line that would allow
// it. It is set in the cluster, so that no commit can extend it.
type ChartAllow struct {
	// Repositories that charts may come from, as written in plumbline.yaml. With a path in the repository, such as
	// ./charts, everyone who can push controls the charts themselves.
	// +kubebuilder:default={"oci://public.ecr.aws/karpenter"}
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	// +listType=set
	// +optional
	Repositories []string `json:"repositories,omitempty"`

	// Versions is a range of semantic versions, such as ">=1.14 <2". Default: any.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Versions string `json:"versions,omitempty"`

	// Digests that both charts may have. Default: any.
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:Pattern=`^sha256:[0-9a-f]{64}$`
	// +listType=set
	// +optional
	Digests []string `json:"digests,omitempty"`

	// Values of the main chart that a commit may set in addition to the harmless ones, each with everything below it,
	// such as podLabels or controller.env[AWS_ENDPOINT_URL].
	//
	// By default, a commit may set only values that do not change identity, image, security context, volumes, host
	// access, Secrets or rights. "*" allows all values, and plumbline warns about it.
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Pattern=`^(\*|[A-Za-z][^*\s]*)$`
	// +kubebuilder:validation:items:MaxLength=512
	// +listType=set
	// +optional
	Values []string `json:"values,omitempty"`

	// ControllerRoles are ARNs of the IAM roles that cluster.controllerRole in
	// plumbline.yaml may name. Default: none.
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Pattern=`^arn:[a-z-]+:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]+$`
	// +kubebuilder:validation:items:MaxLength=2048
	// +listType=set
	// +optional
	ControllerRoles []string `json:"controllerRoles,omitempty"`

	// PodSecurity is the level of the Pod Security Standards that the controller's pods must meet. Karpenter's own
	// chart meets Restricted.
	// +kubebuilder:default=Restricted
	// +optional
	PodSecurity PodSecurityLevel `json:"podSecurity,omitempty"`
}

// PodSecurityLevel is a level of the Pod Security Standards.
//
// +kubebuilder:validation:Enum=Restricted;Baseline;Privileged
type PodSecurityLevel string
