package v1alpha1

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Promotion is this cluster's ring in a fleet. A commit of the branch is taken once the clusters of the rings before
// have succeeded on it. The rings themselves are in rings.yaml, at the root of the repository; what is set here cannot be
// changed by a commit.
type Promotion struct {
	// Cluster is the name of this cluster in rings.yaml. The name of the NodeSync there is that of this object.
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`
	// +required
	Cluster string `json:"cluster"`

	// Ring is the ring that rings.yaml must have this cluster in.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Ring string `json:"ring"`

	// MinSoak is how long a commit must at least have been good in each ring before, whatever rings.yaml says. Default:
	// no minimum. A ring that waits for no other ring must not set it.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +optional
	MinSoak *metav1.Duration `json:"minSoak,omitempty"`

	// Clusters have the public keys of the clusters in this ring and in the rings before it, and of this cluster. The
	// record of a cluster that is not listed, or that none of its keys has signed, proves nothing.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +listType=atomic
	// +required
	Clusters []PromotionCluster `json:"clusters"`

	// SigningKey names the Secret in the NodeSync's namespace with the private SSH key of this cluster, in the entry
	// identity: plumbline signs the record of this cluster with it. An encrypted key has its password in the entry
	// password.
	// +required
	SigningKey LocalReference `json:"signingKey"`

	// EmergencySigners names a Secret with public keys, in the form of spec.source.git.verify.secretRef. A commit that
	// one of them has signed, and whose message has the trailer "Plumbline-Emergency: REASON", needs no soak and no
	// window. The rings before must still have succeeded on it. Default: none.
	// +optional
	EmergencySigners *LocalReference `json:"emergencySigners,omitempty"`
}

// PromotionCluster has the public keys of a cluster.
type PromotionCluster struct {
	// Name of the cluster in rings.yaml.
	// +kubebuilder:validation:Pattern=`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`
	// +required
	Name string `json:"name"`

	// NodeSync is the name of its NodeSync. Default: the name of the cluster.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	NodeSync string `json:"nodeSync,omitempty"`

	// Keys are its public SSH keys, in the format of authorized_keys. While a key is replaced, the old and the new one
	// are listed.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MaxLength=1024
	// +kubebuilder:validation:items:Pattern=`^(ssh-|ecdsa-|sk-)[^\n]+$`
	// +listType=set
	// +required
	Keys []string `json:"keys"`
}

// GetNodeSync returns the name of its NodeSync.
func (c PromotionCluster) GetNodeSync() string { return cmp.Or(c.NodeSync, c.Name) }

// GetMinSoak returns how long a commit must at least have been good in each ring before.
func (p *Promotion) GetMinSoak() time.Duration {
	if p == nil || p.MinSoak == nil {
		return 0
	}
	return p.MinSoak.Duration
}

// PromotionStatus is which commit this cluster has taken, and what newer ones wait for.
type PromotionStatus struct {
	// Taken is the full hash of the commit that this cluster has taken last. The rings.yaml of this commit decides which
	// commit comes next.
	// +optional
	Taken string `json:"taken,omitempty"`
	// TakenAt is when that was.
	// +optional
	TakenAt *metav1.Time `json:"takenAt,omitempty"`
	// By is why it was taken: Rings, Revert or Emergency; empty if it was applied before spec.promotion was set.
	// +optional
	By string `json:"by,omitempty"`
	// EmergencySigner has signed it, if it was taken as an emergency.
	// +optional
	EmergencySigner string `json:"emergencySigner,omitempty"`
	// Waits has what the newest commits wait for that were not taken, newest first, at most ten.
	// +listType=atomic
	// +optional
	Waits []PromotionWait `json:"waits,omitempty"`
	// Serials are the serials of the records that were seen: an older record proves nothing. They may lag behind by an
	// hour while the verdicts of a record do not change.
	// +listType=map
	// +listMapKey=cluster
	// +listMapKey=nodeSync
	// +optional
	Serials []PromotionSerial `json:"serials,omitempty"`
	// RecordRef is the Git reference that the record of this cluster was last pushed to.
	// +optional
	RecordRef string `json:"recordRef,omitempty"`
	// RecordFailure is why the record of this cluster could not be pushed; empty if the last push succeeded.
	// +optional
	RecordFailure string `json:"recordFailure,omitempty" redact:"hide"`
}

// PromotionWait is what a commit waits for.
type PromotionWait struct {
	// Commit is its full hash.
	Commit string `json:"commit"`
	// Reason is one word: WaitsForRing, FailedInRing, ClusterSilent, NeverRun, Soaking, WindowClosed, WaitsForTurn,
	// RingPaused, RingsInvalid or NothingBefore.
	Reason string `json:"reason"`
	// Message describes it.
	Message string `json:"message"`
	// Ring is the ring that it waits for.
	// +optional
	Ring string `json:"ring,omitempty"`
	// Since and Until are when the wait began and ends, if that is known.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// PromotionSerial is the serial of the newest record of a cluster.
type PromotionSerial struct {
	Cluster  string `json:"cluster"`
	NodeSync string `json:"nodeSync"`
	Serial   int64  `json:"serial"`
}
