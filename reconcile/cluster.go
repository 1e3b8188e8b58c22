package reconcile

import (
	"github.com/plumbline-dev/plumbline/reconcile/account"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/deletion"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/reconcile/simulate"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// Cluster is a cluster whose nodes are managed: everything that a reconcile reads or writes there, and in its AWS account.
type Cluster struct {
	cluster.Clients
	// Helm installs Karpenter's charts, and Logs reads the end of a container's log; nil Logs reads none.
	Helm upgrade.Helm
	Logs upgrade.Logs
	// Clouds are the clients of AWS.
	Clouds *account.Clouds
	// Landing simulates where pods can be scheduled; nil simulates nothing.
	Landing *simulate.Simulator
	// DeletionGuard looks for the policies of the deletion guard; nil does not look.
	DeletionGuard *deletion.Asker
	// KarpenterNamespaces are the namespaces in which Karpenter's objects may be read; none: all.
	KarpenterNamespaces []string
	// CertificateAuthority is the bundle, in PEM, that the API server's certificate is checked against.
	CertificateAuthority []byte
}

// CABundle is the CertificateAuthority as Karpenter has it in its hash of an EC2NodeClass.
func (c Cluster) CABundle() string { return plan.CABundle(c.CertificateAuthority) }
