package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KarpenterStatus is the installation of Karpenter that manages this NodeSync's nodes.
type KarpenterStatus struct {
	// Management is Managed or External.
	Management string `json:"management"`
	// Version of both charts that is in force: that of the last controller that became ready. Empty before the first,
	// and with management External.
	// +optional
	Version string `json:"version,omitempty"`
	// Namespace of the controller.
	Namespace string `json:"namespace"`
	// Cluster is the cluster name by which Karpenter identifies its instances.
	Cluster string `json:"cluster"`
	// Region of the cluster.
	Region string `json:"region"`
	// ClusterARN is the EKS cluster that was verified to be this one: its certificate authority is the API server's.
	// Empty before that.
	// +optional
	ClusterARN string `json:"clusterARN,omitempty"`
	// Identity is a fingerprint of what is in force: both charts and their values.
	// +optional
	Identity string `json:"identity,omitempty"`
	// Charts are what the version in force was resolved to. While Git has the same repository and version and pins no
	// digest, the charts are pulled by these digests: a tag that was moved changes nothing.
	// +optional
	Charts *ResolvedCharts `json:"charts,omitempty"`
	// CRDs is the release of the CRD chart. It may be newer than the controller's, and is never downgraded.
	// +optional
	CRDs *ReleaseStatus `json:"crds,omitempty"`
	// Controller is the release of the main chart that is in force. If a later one does not become ready, it is rolled
	// back to this one.
	// +optional
	Controller *ReleaseStatus `json:"controller,omitempty"`
	// Target is the change of the charts that is in progress or has failed.
	// +optional
	Target *ChartTarget `json:"target,omitempty"`
	// NodeDrift watches for node drift after a change of the controller.
	// +optional
	NodeDrift *NodeDriftWatch `json:"nodeDrift,omitempty"`
}

// NodeDriftWatch records which NodeClaims drift or are deleted during and after a change of the controller, and which
// were expected to.
type NodeDriftWatch struct {
	// From is the version that was in force before, and To that of the change.
	// +optional
	From string `json:"from,omitempty"`
	// +optional
	To string `json:"to,omitempty"`
	// Since is when the change started, and Until when the watch ends: nodes that drift in between are reported. Until
	// is nil while the change is in progress.
	Since metav1.Time `json:"since"`
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// ExpectedPools are the NodePools whose nodes may be replaced: the change is expected to, or a later commit does.
	// +optional
	ExpectedPools []string `json:"expectedPools,omitempty"`
	// Claims is how many NodeClaims existed when the change started, and Newest when the last of them was created.
	// +optional
	Claims int32 `json:"claims,omitempty"`
	// +optional
	Newest *metav1.Time `json:"newest,omitempty"`
	// TouchedClaims is how many of them had drifted or been deleted by the end of the change, and Touched names up to
	// five.
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

// ChartTarget is a change of the charts: an install, an upgrade, or other values.
type ChartTarget struct {
	// Version of both charts.
	Version string `json:"version"`
	// Identity is a fingerprint of both charts and their values.
	Identity string `json:"identity"`
	// Charts are what Version was resolved to when the change started.
	// +optional
	Charts *ResolvedCharts `json:"charts,omitempty"`
	// Step is the current step. It is recorded before it is taken.
	Step ChartStep `json:"step"`
	// Since is when Step last changed.
	Since metav1.Time `json:"since"`
	// Message says why it was rolled back.
	// +optional
	Message string `json:"message,omitempty"`
	// ExpectedPools are the NodePools whose nodes Karpenter may replace because of the change.
	// +optional
	ExpectedPools []string `json:"expectedPools,omitempty"`
}

// ChartStep is a step of a change of the charts.
//
// +kubebuilder:validation:Enum=Checking;Migrating;CRDs;Controller;RollingOut;Settling;RollingBack;RolledBack
type ChartStep string

// The values of ChartStep, in order.
const (
	// ChartChecking: plumbline checks whether the change is possible; nothing has changed yet.
	ChartChecking ChartStep = "Checking"
	// ChartMigrating: objects are rewritten in the storage version of the new CRDs.
	ChartMigrating ChartStep = "Migrating"
	// ChartCRDs: the CRD chart is installed, and every CRD must be Established.
	ChartCRDs ChartStep = "CRDs"
	// ChartController: the main chart is installed.
	ChartController ChartStep = "Controller"
	// ChartRollingOut: the new controller must become ready, and be elected leader.
	ChartRollingOut ChartStep = "RollingOut"
	// ChartSettling: it is in force; definitions must become Ready under it.
	ChartSettling ChartStep = "Settling"
	// ChartRollingBack: it did not become ready; the last good release is reinstalled.
	ChartRollingBack ChartStep = "RollingBack"
	// ChartRolledBack: the last good release is in force again.
	ChartRolledBack ChartStep = "RolledBack"
)

// GetClusterARN returns the EKS cluster that was verified to be this one; empty before that, and if nothing is
// installed.
func (k *KarpenterStatus) GetClusterARN() string {
	if k == nil {
		return ""
	}
	return k.ClusterARN
}
