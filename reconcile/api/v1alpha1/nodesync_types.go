package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// NodeSync reports that one path of one repository is this cluster's nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:metadata:annotations="helm.sh/resource-policy=keep"
// +kubebuilder:resource:shortName=nsync;nsyncs,categories=plumbline
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Revision",type=string,JSONPath=`.status.lastAppliedRevision`
// +kubebuilder:printcolumn:name="Waiting",type=string,JSONPath=`.status.waiting.for`
// +kubebuilder:printcolumn:name="Removals",type=integer,JSONPath=`.status.openRemovals`
// +kubebuilder:printcolumn:name="Karpenter",type=string,JSONPath=`.status.karpenter.version`,priority=1
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspend`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type NodeSync struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the platform engineer asks for.
	// +required
	Spec NodeSyncSpec `json:"spec"`

	// Status is what plumbline has done and sees. Before the first pass it is of
	// no generation, so that nobody takes a new NodeSync for one that is done.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status NodeSyncStatus `json:"status,omitempty"`
}

// NodeSyncList is a list of NodeSyncs.
//
// +kubebuilder:object:root=true
type NodeSyncList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeSync `json:"items"`
}

// NodeSyncSpec is the policy under which a path of a repository becomes nodes.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || !has(self.rollout.onFailure) || self.rollout.onFailure != 'BrakeAndPropose' || has(self.report) && self.report.exists(r, r.provider in ['github', 'gitlab', 'gitea', 'forgejo'])",message="rollout.onFailure BrakeAndPropose needs a report on github, gitlab, gitea or forgejo: the pull request is opened there"
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || !has(self.rollout.onFailure) || self.rollout.onFailure != 'BrakeAndPropose' || has(self.source.git) && (!has(self.source.git.ref) || [has(self.source.git.ref.commit) && self.source.git.ref.commit.size() > 0, has(self.source.git.ref.name) && self.source.git.ref.name.size() > 0, has(self.source.git.ref.semver) && self.source.git.ref.semver.size() > 0, has(self.source.git.ref.tag) && self.source.git.ref.tag.size() > 0].all(set, !set))",message="rollout.onFailure BrakeAndPropose needs a source.git.ref that is a branch: the pull request goes into it"
// +kubebuilder:validation:XValidation:rule="has(self.source.git) || !has(self.report) || self.source.sourceRef.kind == 'GitRepository' && self.report.all(r, has(r.url) && r.url.size() > 0)",message="with source.sourceRef each report needs a url, and the source must be a GitRepository: the others have no commits to report on"
// +kubebuilder:validation:XValidation:rule="has(self.source.git) || !has(self.report) || self.report.all(r, !has(r.pullRequests))",message="report[].pullRequests needs source.git: pull requests are fetched from there"
type NodeSyncSpec struct {
	// Interval is how often the source is polled and the whole comparison is
	// repeated. Changes in the cluster are noticed by watch, not by it.
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	// +optional
	Interval metav1.Duration `json:"interval,omitempty"`

	// RetryInterval is how soon a failed attempt is retried. Default: interval.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	// +optional
	RetryInterval *metav1.Duration `json:"retryInterval,omitempty"`

	// Timeout bounds one fetch, one chart pull and one exchange with a Git
	// host. It never ends a removal.
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// Suspend stops everything but the handling of this object's own deletion.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Source says where the definitions come from.
	// +required
	Source Source `json:"source"`

	// Path of the folder with plumbline.yaml, from the repository's root.
	// +kubebuilder:default="./"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(s, s == '..')",message="path must be relative and may not contain '..'"
	// +optional
	Path string `json:"path,omitempty"`

	// Adopt says what to do with objects of Git's names that exist without
	// this NodeSync's label.
	// +kubebuilder:default=IfIdentical
	// +optional
	Adopt AdoptPolicy `json:"adopt,omitempty"`

	// Drift says what to do when an object is edited or deleted by hand.
	// +kubebuilder:default=Correct
	// +optional
	Drift DriftPolicy `json:"drift,omitempty"`

	// Removal says how entries that leave the repository are taken away.
	// +kubebuilder:default={}
	// +optional
	Removal RemovalPolicy `json:"removal,omitempty"`

	// Guard limits what one repository can take away without a person's word.
	// +kubebuilder:default={}
	// +optional
	Guard Guard `json:"guard,omitempty"`

	// Policies are rules over each Plan, in CEL: what they are false for is denied or held.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Policies []Policy `json:"policies,omitempty"`

	// Rollout says what is done about nodes that a commit has outdated.
	// +optional
	Rollout RolloutPolicy `json:"rollout,omitzero"`

	// OnDelete says what deleting this NodeSync does to its nodes. It may be
	// changed while the deletion waits.
	// +kubebuilder:default=Orphan
	// +optional
	OnDelete OnDelete `json:"onDelete,omitempty"`

	// Drain terminates all nodes of this NodeSync, verified in EC2, and keeps its definitions: its NodePools launch
	// no node until it is false again.
	//
	// Nothing is fetched or applied meanwhile. No limit, window or freeze of the guard holds it; suspend does.
	// +optional
	Drain bool `json:"drain,omitempty"`

	// Charts limits what of Karpenter's charts may come from Git, and names the
	// credentials of their hosts. It is here and not in the repository, so that no
	// commit can take rights, or send a Secret to another host.
	// +optional
	Charts *ChartAccess `json:"charts,omitempty"`

	// Report lists the Git hosts that get a commit status.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Report []Report `json:"report,omitempty"`

	// Notify lists the receivers of notifications.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Notify []Notify `json:"notify,omitempty"`
}

// AdoptPolicy says what happens to an unlabelled object of Git's name.
//
// +kubebuilder:validation:Enum=IfIdentical;Always;Never
type AdoptPolicy string

// The values of AdoptPolicy.
const (
	// AdoptIfIdentical takes an object over when no field of its spec would change.
	AdoptIfIdentical AdoptPolicy = "IfIdentical"
	// AdoptAlways takes an object over and makes it what Git says. A field of
	// another applier (Flux, Argo CD, Helm, Terraform) is a conflict even so.
	AdoptAlways AdoptPolicy = "Always"
	// AdoptNever refuses every object that exists already.
	AdoptNever AdoptPolicy = "Never"
)

// DriftPolicy says what happens when a live object is not as Git says.
//
// +kubebuilder:validation:Enum=Correct;Report
type DriftPolicy string

// The values of DriftPolicy.
const (
	// DriftCorrect puts the object right.
	DriftCorrect DriftPolicy = "Correct"
	// DriftReport leaves the object and says so.
	DriftReport DriftPolicy = "Report"
)

// RemovalStrategy says what becomes of the NodeClaims of a NodePool that leaves.
//
// +kubebuilder:validation:Enum=Paced;AtOnce;Orphan
type RemovalStrategy string

// The values of RemovalStrategy.
const (
	// RemovalPaced has Karpenter replace MaxUnavailable nodes at a time, and the next when the
	// one before is gone and its pods run elsewhere. What it cannot replace ends last, without.
	RemovalPaced RemovalStrategy = "Paced"
	// RemovalAtOnce ends MaxUnavailable nodes at a time without a replacement that is there first, and
	// the next when the one before is gone and its pods run elsewhere.
	RemovalAtOnce RemovalStrategy = "AtOnce"
	// RemovalOrphan leaves the object and its nodes as they are, and takes our label off, once
	// people have approved that.
	RemovalOrphan RemovalStrategy = "Orphan"
)

// RemovalPolicy says how entries that leave the repository are taken away.
type RemovalPolicy struct {
	// Strategy is what happens to the NodeClaims of a NodePool that left Git: Paced has Karpenter launch
	// replacements before nodes are terminated, AtOnce does not, and Orphan leaves them.
	//
	// Paced and AtOnce keep to maxUnavailable. Orphan needs an approval.
	// +kubebuilder:default=Paced
	// +optional
	Strategy RemovalStrategy `json:"strategy,omitempty"`

	// Grace is how long a removal waits after it was recorded. A revert within
	// that time costs nothing.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +optional
	Grace *metav1.Duration `json:"grace,omitempty"`

	// MaxUnavailable is how many NodeClaims may be terminating at one time, in all removals of the NodeSync together
	// as well as in each.
	//
	// It is a number, or a percentage of the NodeClaims that existed when the removal was recorded, rounded down, at
	// least 1. The strategies Paced and AtOnce use it.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : int(self) >= 1",message="must be a number from 1, or a percentage such as 10%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// StallAfter is how long a removal may make no progress before it is Stalled,
	// with a diagnosis. Nothing is ever forced.
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +optional
	StallAfter *metav1.Duration `json:"stallAfter,omitempty"`

	// Rescue has plumbline apply a copy of an EC2NodeClass that another client has deleted while nodes use it, and
	// point its NodePools at the copy.
	//
	// No node is launched from a class that is being deleted, and the deletion cannot be undone. Karpenter replaces
	// the pools' nodes, within their disruption budgets. Without rescue, the commit status reports the deleted
	// class.
	// +optional
	Rescue bool `json:"rescue,omitempty"`
}

// OnDelete says what deleting a NodeSync does to its nodes.
//
// +kubebuilder:validation:Enum=Orphan;Drain
type OnDelete string

// The values of OnDelete.
const (
	// OnDeleteOrphan leaves objects and nodes and takes our label off.
	OnDeleteOrphan OnDelete = "Orphan"
	// OnDeleteDrain removes everything, verified in EC2, before the NodeSync goes.
	OnDeleteDrain OnDelete = "Drain"
)

// ObjectName is the name of an object that plumbline keeps for a NodeSync: the
// prefix says of what sort it is. Where that is too long for a name it is cut, and
// the hash of the NodeSync's name tells it from others.
func ObjectName(prefix, nodeSync string) string {
	name := prefix + nodeSync
	if len(name) <= validation.DNS1123SubdomainMaxLength {
		return name
	}
	const digits = 10
	sum := sha256.Sum256([]byte(nodeSync))
	cut := strings.TrimRight(name[:validation.DNS1123SubdomainMaxLength-digits-1], ".-")
	return cut + "-" + hex.EncodeToString(sum[:])[:digits]
}

// AppliedName is the name of the ConfigMap with the record of what a NodeSync has applied. No
// record of removals can have it: those begin with "plumbline-".
func AppliedName(nodeSync string) string { return ObjectName("plumbline.applied-", nodeSync) }

// The times that hold where a NodeSync names none.
const (
	defaultTimeout      = 2 * time.Minute
	defaultRemovalGrace = 30 * time.Second
	defaultStallAfter   = 15 * time.Minute
)

// GetTimeout is how long one fetch, one chart pull or one exchange with a Git host may take.
func (n *NodeSync) GetTimeout() time.Duration {
	if n.Spec.Timeout == nil {
		return defaultTimeout
	}
	return n.Spec.Timeout.Duration
}

// GetRetryInterval is the time until what went wrong is tried again; the interval
// where none is named.
func (n *NodeSync) GetRetryInterval() time.Duration {
	if n.Spec.RetryInterval == nil {
		return n.Spec.Interval.Duration
	}
	return n.Spec.RetryInterval.Duration
}

// GetRemovalGrace is how long a removal is recorded before the first of its NodeClaims is terminated.
func (n *NodeSync) GetRemovalGrace() time.Duration {
	if n.Spec.Removal.Grace == nil {
		return defaultRemovalGrace
	}
	return n.Spec.Removal.Grace.Duration
}

// GetStallAfter is how long something may make no progress until it counts as stalled.
func (n *NodeSync) GetStallAfter() time.Duration {
	if n.Spec.Removal.StallAfter == nil {
		return defaultStallAfter
	}
	return n.Spec.Removal.StallAfter.Duration
}
