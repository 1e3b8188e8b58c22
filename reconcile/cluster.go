package reconcile

import (
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/deletion"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// Cluster is the cluster whose nodes plumbline manages: everything that a reconcile reads or writes there, and in its
// AWS account.
type Cluster struct {
	cluster.Clients
	// Helm installs Karpenter's charts, and Logs reads the end of a container's log; if Logs is nil, none is read.
	Helm upgrade.Helm
	Logs upgrade.Logs
	// Clouds are the clients of AWS.
	Clouds *account.Clouds
	// Terminations returns the instances of the cluster that another client has terminated recently; nil if that is
	// unknown.
	Terminations func() []account.Termination
	// Landing simulates where pods can be scheduled; if nil, nothing is simulated.
	Landing *simulate.Simulator
	// DeletionGuard looks for the policies of the deletion guard; if nil, they are not checked.
	DeletionGuard *deletion.Checker
	// KarpenterNamespaces are the namespaces in which Karpenter's objects may be read; if empty, all.
	KarpenterNamespaces []string
	// CertificateAuthority is the bundle, in PEM, that the API server's certificate is checked against.
	CertificateAuthority []byte
}

// CABundle returns the CertificateAuthority in the form that Karpenter includes in its hash of an EC2NodeClass.
func (c Cluster) CABundle() string { return plan.CABundle(c.CertificateAuthority) }
