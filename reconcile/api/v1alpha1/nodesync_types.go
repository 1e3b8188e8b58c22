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

// NodeSync manages this cluster's Karpenter nodes from one path of a repository.
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

	// Spec is the desired state.
	// +required
	Spec NodeSyncSpec `json:"spec"`

	// Status is what plumbline has done and observed. Before the first reconcile its observedGeneration is -1, so that
	// kstatus does not report a new NodeSync as ready.
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

// NodeSyncSpec says where the definitions of nodes come from, and how plumbline applies and removes them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || !has(self.rollout.onFailure) || self.rollout.onFailure != 'BrakeAndPropose' || has(self.report) && self.report.exists(r, r.provider in ['github', 'gitlab', 'gitea', 'forgejo'])",message="rollout.onFailure BrakeAndPropose needs a report on github, gitlab, gitea or forgejo: the pull request is opened there"
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || !has(self.rollout.onFailure) || self.rollout.onFailure != 'BrakeAndPropose' || has(self.source.git) && (!has(self.source.git.ref) || [has(self.source.git.ref.commit) && self.source.git.ref.commit.size() > 0, has(self.source.git.ref.name) && self.source.git.ref.name.size() > 0, has(self.source.git.ref.semver) && self.source.git.ref.semver.size() > 0, has(self.source.git.ref.tag) && self.source.git.ref.tag.size() > 0].all(set, !set))",message="rollout.onFailure BrakeAndPropose needs a source.git.ref that is a branch: the pull request goes into it"
// +kubebuilder:validation:XValidation:rule="!has(self.images) || !has(self.images.propose) || !self.images.propose || has(self.report) && self.report.exists(r, r.provider in ['github', 'gitlab', 'gitea', 'forgejo'])",message="images.propose needs a report on github, gitlab, gitea or forgejo: the pull request is opened there"
// +kubebuilder:validation:XValidation:rule="!has(self.images) || !has(self.images.propose) || !self.images.propose || has(self.source.git) && (!has(self.source.git.ref) || [has(self.source.git.ref.commit) && self.source.git.ref.commit.size() > 0, has(self.source.git.ref.name) && self.source.git.ref.name.size() > 0, has(self.source.git.ref.semver) && self.source.git.ref.semver.size() > 0, has(self.source.git.ref.tag) && self.source.git.ref.tag.size() > 0].all(set, !set))",message="images.propose needs a source.git.ref that is a branch: the pull request goes into it"
// +kubebuilder:validation:XValidation:rule="has(self.source.git) || !has(self.report) || self.source.sourceRef.kind == 'GitRepository' && self.report.all(r, has(r.url) && r.url.size() > 0)",message="with source.sourceRef each report needs a url, and the source must be a GitRepository: the others have no commits to report on"
// +kubebuilder:validation:XValidation:rule="has(self.source.git) || !has(self.report) || self.report.all(r, !has(r.pullRequests))",message="report[].pullRequests needs source.git: pull requests are fetched from there"
// +kubebuilder:validation:XValidation:rule="!has(self.promotion) || has(self.source.git) && (!has(self.source.git.ref) || [has(self.source.git.ref.commit) && self.source.git.ref.commit.size() > 0, has(self.source.git.ref.name) && self.source.git.ref.name.size() > 0, has(self.source.git.ref.semver) && self.source.git.ref.semver.size() > 0, has(self.source.git.ref.tag) && self.source.git.ref.tag.size() > 0].all(set, !set))",message="promotion needs a source.git.ref that is a branch: rings take its commits one after another"
type NodeSyncSpec struct {
	// Interval is how often the source is polled and everything is compared again. Changes in the cluster are noticed
	// by watches, independently of it.
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

	// Timeout limits one fetch, one chart pull and one exchange with a Git host. It never aborts a removal.
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be at least 1s"
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// Suspend stops everything except the deletion of this object.
	// +optional
	Suspend bool `json:"suspend,omitempty"`

	// Source is where the definitions come from.
	// +required
	Source Source `json:"source"`

	// Path of the folder with plumbline.yaml, from the repository's root.
	// +kubebuilder:default="./"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('/') && !self.split('/').exists(s, s == '..')",message="path must be relative and may not contain '..'"
	// +optional
	Path string `json:"path,omitempty"`

	// Adopt is what happens to existing objects that have a name from Git but not this NodeSync's label.
	// +kubebuilder:default=IfIdentical
	// +optional
	Adopt AdoptPolicy `json:"adopt,omitempty"`

	// Drift is what happens when another client edits or deletes an object.
	// +kubebuilder:default=Correct
	// +optional
	Drift DriftPolicy `json:"drift,omitempty"`

	// Removal is how entries that are removed from Git are removed from the cluster.
	// +kubebuilder:default={}
	// +optional
	Removal RemovalPolicy `json:"removal,omitempty"`

	// Guard limits what a repository can remove or disrupt without an approval.
	// +kubebuilder:default={}
	// +optional
	Guard Guard `json:"guard,omitempty"`

	// Policies are rules over each Plan, in CEL: if one is false, the commit is denied or held.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Policies []Policy `json:"policies,omitempty"`

	// Rollout is how the replacement of nodes that a commit has outdated is supervised.
	// +optional
	Rollout RolloutPolicy `json:"rollout,omitzero"`

	// Promotion is this cluster's ring in a fleet: a commit is taken once the rings before have succeeded on it. Without
	// it, each commit is taken at once.
	// +optional
	Promotion *Promotion `json:"promotion,omitempty"`

	// OnDelete is what deleting this NodeSync does to its nodes. It may be changed while the deletion waits.
	// +kubebuilder:default=Orphan
	// +optional
	OnDelete OnDelete `json:"onDelete,omitempty"`

	// Drain terminates all nodes of this NodeSync, verified in EC2, and keeps its definitions: its NodePools launch no
	// node until it is false again.
	//
	// Nothing is fetched or applied meanwhile. No limit, window or freeze of the guard holds it; suspend does.
	// +optional
	Drain bool `json:"drain,omitempty"`

	// Charts limits what of Karpenter's charts may come from Git, and names the credentials of their hosts. It is set
	// here and not in the repository, so that no commit can extend rights, or send a Secret to another host.
	// +optional
	Charts *ChartAccess `json:"charts,omitempty"`

	// Decryption decrypts files of valuesFiles in plumbline.yaml that were encrypted with SOPS.
	// +optional
	Decryption *Decryption `json:"decryption,omitempty"`

	// Report lists the Git hosts that get a commit status.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Report []Report `json:"report,omitempty"`

	// Images is whether newer AMIs are proposed, in pull requests that pin them.
	// +optional
	Images *ImageTrain `json:"images,omitempty"`

	// Notify lists the receivers of notifications.
	// +kubebuilder:validation:MaxItems=8
	// +listType=map
	// +listMapKey=name
	// +optional
	Notify []Notify `json:"notify,omitempty"`
}

// AdoptPolicy is what happens to an existing object that has a name from Git but not this NodeSync's label.
//
// +kubebuilder:validation:Enum=IfIdentical;Always;Never
type AdoptPolicy string

// The values of AdoptPolicy.
const (
	// AdoptIfIdentical adopts an object if no field of its spec would change.
	AdoptIfIdentical AdoptPolicy = "IfIdentical"
	// AdoptAlways adopts an object and applies the definition in Git to it. A field that another tool applies (Flux,
	// Argo CD, Helm, Terraform) is still a conflict.
	AdoptAlways AdoptPolicy = "Always"
	// AdoptNever refuses every object that already exists.
	AdoptNever AdoptPolicy = "Never"
)

// DriftPolicy is what happens when an object differs from Git.
//
// +kubebuilder:validation:Enum=Correct;Report
type DriftPolicy string

// The values of DriftPolicy.
const (
	// DriftCorrect corrects the object.
	DriftCorrect DriftPolicy = "Correct"
	// DriftReport leaves the object as it is, and reports the difference.
	DriftReport DriftPolicy = "Report"
)

// RemovalStrategy is what happens to the NodeClaims of a NodePool that is removed.
//
// +kubebuilder:validation:Enum=Paced;AtOnce;Orphan
type RemovalStrategy string

// The values of RemovalStrategy.
const (
	// RemovalPaced has Karpenter replace MaxUnavailable nodes at a time; the next follow when the previous nodes are
	// gone and their pods run elsewhere. Nodes that Karpenter cannot replace are terminated last, without a
	// replacement.
	RemovalPaced RemovalStrategy = "Paced"
	// RemovalAtOnce terminates MaxUnavailable nodes at a time without launching replacements first; the next follow
	// when the previous nodes are gone and their pods run elsewhere.
	RemovalAtOnce RemovalStrategy = "AtOnce"
	// RemovalOrphan leaves the object and its nodes as they are, and removes plumbline's label, once people have
	// approved that.
	RemovalOrphan RemovalStrategy = "Orphan"
)

// RemovalPolicy is how entries that are removed from Git are removed from the cluster.
type RemovalPolicy struct {
	// Strategy is what happens to the NodeClaims of a NodePool that is removed from Git: Paced has Karpenter launch
	// replacements before nodes are terminated, AtOnce does not, and Orphan leaves them running.
	//
	// Paced and AtOnce keep to maxUnavailable. Orphan needs an approval.
	// +kubebuilder:default=Paced
	// +optional
	Strategy RemovalStrategy `json:"strategy,omitempty"`

	// Grace is how long a removal waits after it was recorded. A revert within that time terminates no node.
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

	// StallAfter is how long a removal may make no progress before it is Stalled, with a diagnosis. Nothing is ever
	// forced.
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

// OnDelete is what deleting a NodeSync does to its nodes.
//
// +kubebuilder:validation:Enum=Orphan;Drain
type OnDelete string

// The values of OnDelete.
const (
	// OnDeleteOrphan leaves objects and nodes running, and removes plumbline's label.
	OnDeleteOrphan OnDelete = "Orphan"
	// OnDeleteDrain removes everything, verified in EC2, before the NodeSync is deleted.
	OnDeleteDrain OnDelete = "Drain"
)

// ObjectName returns the name of an object that plumbline keeps for a NodeSync; the prefix is that of its kind. A name
// that would be too long is cut, and the hash of the NodeSync's name keeps it unique.
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

// AppliedName returns the name of the ConfigMap that records what a NodeSync has applied. It never collides with a
// record of removals: those start with "plumbline-".
func AppliedName(nodeSync string) string { return ObjectName("plumbline.applied-", nodeSync) }

// Defaults of a NodeSync that sets none.
const (
	defaultTimeout      = 2 * time.Minute
	defaultRemovalGrace = 30 * time.Second
	defaultStallAfter   = 15 * time.Minute
)

// GetTimeout returns how long one fetch, one chart pull or one exchange with a Git host may take.
func (n *NodeSync) GetTimeout() time.Duration {
	if n.Spec.Timeout == nil {
		return defaultTimeout
	}
	return n.Spec.Timeout.Duration
}

// GetRetryInterval returns the time until a failed attempt is retried; by default the interval.
func (n *NodeSync) GetRetryInterval() time.Duration {
	if n.Spec.RetryInterval == nil {
		return n.Spec.Interval.Duration
	}
	return n.Spec.RetryInterval.Duration
}

// GetRemovalGrace returns how long a removal stays recorded before its first NodeClaim is terminated.
func (n *NodeSync) GetRemovalGrace() time.Duration {
	if n.Spec.Removal.Grace == nil {
		return defaultRemovalGrace
	}
	return n.Spec.Removal.Grace.Duration
}

// GetStallAfter returns how long something may make no progress until it counts as stalled.
func (n *NodeSync) GetStallAfter() time.Duration {
	if n.Spec.Removal.StallAfter == nil {
		return defaultStallAfter
	}
	return n.Spec.Removal.StallAfter.Duration
}
