package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// NodeSync says that one path of one repository is this cluster's nodes.
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

	// OnDelete says what deleting this NodeSync does to its nodes. It may be
	// changed while the deletion waits.
	// +kubebuilder:default=Orphan
	// +optional
	OnDelete OnDelete `json:"onDelete,omitempty"`

	// Charts says what of Karpenter's charts may come from Git, and with what their
	// hosts are opened. It stands here and not in the repository, so that no commit can
	// take rights, or send a secret to another host.
	// +optional
	Charts *ChartAccess `json:"charts,omitempty"`

	// Report lists the Git hosts that get a commit status.
	// +kubebuilder:validation:MaxItems=8
	// +optional
	Report []Report `json:"report,omitempty"`
}

// Source is one place where definitions come from.
type Source struct {
	// Git is a repository that plumbline fetches by itself.
	// +required
	Git *GitSource `json:"git"`
}

// GitSource is a Git repository over https or ssh.
//
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.verify.mode) || self.verify.mode != 'Tag' || ((!has(self.ref.commit) || self.ref.commit.size() == 0) && (has(self.ref.name) && self.ref.name.size() > 0 ? self.ref.name.startsWith('refs/tags/') : has(self.ref.tag) && self.ref.tag.size() > 0 || has(self.ref.semver) && self.ref.semver.size() > 0))",message="verify.mode Tag needs a ref that is a tag: tag, semver or a name under refs/tags/"
type GitSource struct {
	// URL of the repository: https://, http:// or ssh://.
	// +kubebuilder:validation:Pattern=`^(https?|ssh)://.+$`
	// +kubebuilder:validation:MaxLength=2048
	// +required
	URL string `json:"url"`

	// Ref is the branch, tag, semver range, reference name or commit to follow.
	// +kubebuilder:default={}
	// +optional
	Ref GitRef `json:"ref,omitempty"`

	// SecretRef names a Secret in the NodeSync's namespace with Flux's keys:
	// username and password, or bearerToken, and ca.crt; for ssh identity,
	// identity.pub, known_hosts and, for an encrypted key, password.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// Verify says which signatures a revision needs. Without it the Git host's word
	// is enough.
	// +optional
	Verify *GitVerification `json:"verify,omitempty"`
}

// GitVerification says which signatures a revision needs before anything of it is
// read.
type GitVerification struct {
	// Mode says what has to be signed.
	// +kubebuilder:default=HEAD
	// +optional
	Mode VerificationMode `json:"mode,omitempty"`

	// SecretRef names a Secret in the NodeSync's namespace with the public keys of
	// the trusted signers, one entry each, as Flux has it: armored OpenPGP keys in
	// entries that end in .asc, SSH keys in the form of authorized_keys in entries
	// that end in .sshpub. Allowed signers, as ssh-keygen knows them, are in entries
	// that end in .allowed_signers. All others are read as OpenPGP keys.
	// +required
	SecretRef LocalReference `json:"secretRef"`
}

// VerificationMode says what has to be signed.
//
// +kubebuilder:validation:Enum=HEAD;Tag;Range
type VerificationMode string

// The values of VerificationMode.
const (
	// VerifyHEAD wants the commit signed.
	VerifyHEAD VerificationMode = "HEAD"
	// VerifyTag wants an annotated tag that is signed and names the commit.
	VerifyTag VerificationMode = "Tag"
	// VerifyRange wants the commit signed and every other one since the last
	// verified one, merges and what they bring included.
	VerifyRange VerificationMode = "Range"
)

// ChartAccess is what of the charts may come from Git, and what their hosts are opened
// with.
type ChartAccess struct {
	// Allow is what may come from Git: repositories, versions, digests and values.
	// It is closed by default, to the public repository of Karpenter and to values
	// that change nothing but Karpenter's settings and its place in the cluster.
	// +optional
	Allow *ChartAllow `json:"allow,omitempty"`

	// Registries are the hosts, of OCI registries and of Helm repositories. A host
	// that is not among them is asked as nobody.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=host
	// +optional
	Registries []Registry `json:"registries,omitempty"`

	// Verify says which signatures the charts need. Without it the registry's word
	// is enough for the digest.
	// +optional
	Verify *ChartVerification `json:"verify,omitempty"`
}

// ChartVerification says which signatures the charts need. Only charts in OCI
// registries have some: those from elsewhere are refused.
type ChartVerification struct {
	// Provider is the tool that has signed them.
	// +kubebuilder:validation:Enum=cosign
	// +kubebuilder:default=cosign
	// +optional
	Provider string `json:"provider,omitempty"`

	// SecretRef names a Secret in the NodeSync's namespace with the public keys that
	// are trusted, in PEM form, in entries that end in .pub. A chart needs a
	// signature of one of them.
	// +required
	SecretRef LocalReference `json:"secretRef"`
}

// Registry is one host of charts. What opens it is sent only to it.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) || has(self.certSecretRef)",message="give secretRef, certSecretRef or both"
type Registry struct {
	// Host as in the URL, in lower case, with the port where the URL has one.
	// +kubebuilder:validation:Pattern=`^(\[[0-9a-f:.]+\]|[0-9a-z._-]+)(:[0-9]{1,5})?$`
	// +kubebuilder:validation:MaxLength=255
	// +required
	Host string `json:"host"`

	// SecretRef names a Secret in the NodeSync's namespace: of the type
	// kubernetes.io/dockerconfigjson, or with the keys username and password.
	// +optional
	SecretRef *LocalReference `json:"secretRef,omitempty"`

	// CertSecretRef names a Secret in the NodeSync's namespace whose key ca.crt
	// has authorities in PEM form, which are trusted for this host.
	// +optional
	CertSecretRef *LocalReference `json:"certSecretRef,omitempty"`
}

// GitRef is what to follow. Where several are set, the first of commit, name,
// semver, tag and branch counts, as in Flux. Where none is, branch main.
type GitRef struct {
	// Branch to follow.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Branch string `json:"branch,omitempty"`
	// Tag to follow.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Tag string `json:"tag,omitempty"`
	// SemVer is a range of tags; the highest in it is followed.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	SemVer string `json:"semver,omitempty"`
	// Name is a full reference name, such as refs/pull/1/head.
	// +kubebuilder:validation:MaxLength=255
	// +optional
	Name string `json:"name,omitempty"`
	// Commit is a full SHA-1 of a commit.
	// +kubebuilder:validation:Pattern=`^([0-9a-f]{40})?$`
	// +optional
	Commit string `json:"commit,omitempty"`
}

// LocalReference names an object in the NodeSync's own namespace.
type LocalReference struct {
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name"`
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

// RemovalStrategy says at which pace the NodeClaims of a NodePool are ended.
//
// +kubebuilder:validation:Enum=Paced;AtOnce
type RemovalStrategy string

// The values of RemovalStrategy.
const (
	// RemovalPaced ends MaxUnavailable NodeClaims at a time, and the next when the
	// one before is gone and its pods run elsewhere.
	RemovalPaced RemovalStrategy = "Paced"
	// RemovalAtOnce ends all NodeClaims of a NodePool in one step.
	RemovalAtOnce RemovalStrategy = "AtOnce"
)

// RemovalPolicy says how entries that leave the repository are taken away.
type RemovalPolicy struct {
	// Strategy is the pace at which the NodeClaims of a NodePool are ended.
	// +kubebuilder:default=Paced
	// +optional
	Strategy RemovalStrategy `json:"strategy,omitempty"`

	// Grace is how long a removal stands recorded before anything of it begins.
	// A revert within it costs nothing.
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +optional
	Grace *metav1.Duration `json:"grace,omitempty"`

	// MaxUnavailable is how many NodeClaims may be leaving at a time, in all
	// removals of the NodeSync together as well as in each: a number, or a
	// percentage of the NodeClaims that there were when the removal was recorded,
	// rounded down. It is at least 1. Only for the strategy Paced.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : int(self) >= 1",message="must be a number from 1, or a percentage such as 10%"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// StallAfter is how long a removal may stand still before it is Stalled,
	// with a diagnosis. Nothing is ever forced.
	// +kubebuilder:default="15m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +optional
	StallAfter *metav1.Duration `json:"stallAfter,omitempty"`
}

// Guard limits what a repository can take away without a person's word.
type Guard struct {
	// MaxRemovedPools is how many NodePools may be leaving at a time; those
	// beyond it are held.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +optional
	MaxRemovedPools *int32 `json:"maxRemovedPools,omitempty"`

	// AllowLastPool lets the last NodePool leave.
	// +optional
	AllowLastPool bool `json:"allowLastPool,omitempty"`

	// AllowUnverifiedAccount allows a first install or an adoption of Karpenter
	// while AWS cannot confirm that this is the cluster of that name. It never
	// allows one where AWS says that it is not.
	// +optional
	AllowUnverifiedAccount bool `json:"allowUnverifiedAccount,omitempty"`

	// MaxDisruptedNodes is how many nodes may be disrupted at a time, by removals,
	// replacements and lower replicas that one plan would begin, and those that end
	// already. What is beyond it is held: removals, and changes of definitions. A
	// percentage is of this NodeSync's NodeClaims, and allows at least 3.
	// +kubebuilder:default="25%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(100|[0-9]{1,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0",message="must not be negative"
	// +optional
	MaxDisruptedNodes *intstr.IntOrString `json:"maxDisruptedNodes,omitempty"`
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

// Report is one Git host that gets commit statuses.
type Report struct {
	// Provider is the kind of host.
	// +kubebuilder:validation:Enum=github;gitlab;gitea
	// +required
	Provider string `json:"provider"`

	// SecretRef names a Secret in the NodeSync's namespace with the key token
	// and, if need be, ca.crt.
	// +required
	SecretRef LocalReference `json:"secretRef"`

	// URL of the repository's web page. Default: the source's URL, which has
	// to be http or https for that.
	// +kubebuilder:validation:Pattern=`^https?://.+$`
	// +kubebuilder:validation:MaxLength=2048
	// +optional
	URL string `json:"url,omitempty"`
	// TargetURL is where a commit status links to, such as a dashboard of the
	// cluster. Default: the folder of definitions in that commit, on the host.
	// +kubebuilder:validation:Pattern=`^https?://.+$`
	// +kubebuilder:validation:MaxLength=255
	// +optional
	TargetURL string `json:"targetURL,omitempty"`
}
