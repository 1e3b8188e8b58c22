package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KarpenterStatus is the installation that this NodeSync's nodes hang on.
type KarpenterStatus struct {
	// Management is Managed or External.
	Management string `json:"management"`
	// Version of both charts that is in force: that of the last controller that
	// came up. Empty before the first, and with management External.
	// +optional
	Version string `json:"version,omitempty"`
	// Namespace of the controller.
	Namespace string `json:"namespace"`
	// Cluster is the name by which Karpenter knows its instances.
	Cluster string `json:"cluster"`
	// Region of the cluster.
	Region string `json:"region"`
	// ClusterARN is the EKS cluster that was verified to be this one: its
	// certificate authority is the API server's. Empty until it was.
	// +optional
	ClusterARN string `json:"clusterARN,omitempty"`
	// Identity is a fingerprint of what is in force: both charts and their values.
	// +optional
	Identity string `json:"identity,omitempty"`
	// Charts are what the version in force was resolved to. While Git asks for the same
	// repository and version and pins no digest, the charts are pulled by these digests: a tag
	// that was moved changes nothing.
	// +optional
	Charts *ResolvedCharts `json:"charts,omitempty"`
	// CRDs is the release of the CRD chart. It may be newer than the controller's,
	// and never goes back.
	// +optional
	CRDs *ReleaseStatus `json:"crds,omitempty"`
	// Controller is the release of the main chart that is in force: the one that is
	// gone back to where a later one does not come up.
	// +optional
	Controller *ReleaseStatus `json:"controller,omitempty"`
	// Target is what the charts are being changed to, or could not be changed to.
	// +optional
	Target *ChartTarget `json:"target,omitempty"`
	// NodeDrift is the watch for node drift after a change of the controller.
	// +optional
	NodeDrift *NodeDriftWatch `json:"nodeDrift,omitempty"`
}

// NodeDriftWatch looks for NodeClaims that drift after a change of the controller,
// against what was expected, and for what becomes of nodes meanwhile.
type NodeDriftWatch struct {
	// From is the version that was in force before, and To that of the change.
	// +optional
	From string `json:"from,omitempty"`
	// +optional
	To string `json:"to,omitempty"`
	// Since is when the change began, and Until when the watch ends: what drifts in
	// between is looked at. It has no end while the change is in progress.
	Since metav1.Time `json:"since"`
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// ExpectedPools are the NodePools whose nodes may be replaced, as the change is
	// expected to, or as a commit has wanted since.
	// +optional
	ExpectedPools []string `json:"expectedPools,omitempty"`
	// Claims is how many NodeClaims there were when the change began, and Newest when
	// the last of them was created.
	// +optional
	Claims int32 `json:"claims,omitempty"`
	// +optional
	Newest *metav1.Time `json:"newest,omitempty"`
	// TouchedClaims is how many of them have drifted or been deleted by the end of the
	// change, and Touched names up to five.
	// +optional
	TouchedClaims int32 `json:"touchedClaims,omitempty"`
	// +optional
	Touched []string `json:"touched,omitempty"`
}

// ReleaseStatus is a Helm release.
type ReleaseStatus struct {
	// Revision of the release.
	Revision int32 `json:"revision"`
	// Version of its chart.
	Version string `json:"version"`
	// Digest of its chart.
	// +optional
	Digest string `json:"digest,omitempty"`
}

// ResolvedCharts are the two charts that a version was resolved to.
type ResolvedCharts struct {
	// Repository they were pulled from: oci://host/path, https://host/path, or a folder of the
	// Git repository.
	Repository string `json:"repository"`
	// CRDDigest is that of karpenter-crd, as sha256:<hex>: of the manifest in an OCI registry, of
	// the archive everywhere else.
	CRDDigest string `json:"crdDigest"`
	// Digest is that of karpenter.
	Digest string `json:"digest"`
}

// ChartTarget is a change of the charts: an install, an upgrade, other values.
type ChartTarget struct {
	// Version of both charts.
	Version string `json:"version"`
	// Identity is a fingerprint of both charts and their values.
	Identity string `json:"identity"`
	// Charts are what Version was resolved to when the change began.
	// +optional
	Charts *ResolvedCharts `json:"charts,omitempty"`
	// Step is how far it has come. It is written before it is taken.
	Step ChartStep `json:"step"`
	// Since is when Step last changed.
	Since metav1.Time `json:"since"`
	// Message says why it was rolled back.
	// +optional
	Message string `json:"message,omitempty"`
	// ExpectedPools are the NodePools whose nodes the change may have Karpenter replace.
	// +optional
	ExpectedPools []string `json:"expectedPools,omitempty"`
}

// ChartStep is how far a change of the charts has come.
//
// +kubebuilder:validation:Enum=Checking;Migrating;CRDs;Controller;RollingOut;Settling;RollingBack;RolledBack
type ChartStep string

// The values of ChartStep, in order.
const (
	// ChartChecking: whether it may be done is being found out; nothing has moved.
	ChartChecking ChartStep = "Checking"
	// ChartMigrating: objects are rewritten in the version that the new CRDs store.
	ChartMigrating ChartStep = "Migrating"
	// ChartCRDs: the CRD chart is installed, and every CRD must be Established.
	ChartCRDs ChartStep = "CRDs"
	// ChartController: the main chart is installed.
	ChartController ChartStep = "Controller"
	// ChartRollingOut: the new controller must become ready, and the leader.
	ChartRollingOut ChartStep = "RollingOut"
	// ChartSettling: it is in force; definitions must be Ready under it.
	ChartSettling ChartStep = "Settling"
	// ChartRollingBack: it did not come up; the last good release is reinstalled.
	ChartRollingBack ChartStep = "RollingBack"
	// ChartRolledBack: the last good release is in force again.
	ChartRolledBack ChartStep = "RolledBack"
)

// GetClusterARN is the EKS cluster that was verified to be this one; empty until it was, and
// where nothing is installed.
func (k *KarpenterStatus) GetClusterARN() string {
	if k == nil {
		return ""
	}
	return k.ClusterARN
}
