package reconcile

import (
	"context"
	"fmt"

	"github.com/fluxcd/pkg/runtime/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// configure reads plumbline.yaml and refuses a commit that moves what the first
// install has fixed.
func (p *pass) configure(ctx context.Context) error {
	karpenter, err := render.ReadKarpenter(*p.snapshot, p.sync.Spec.Path)
	if err != nil {
		return err
	}
	if err := p.checkFixed(karpenter); err != nil {
		return err
	}
	if karpenter.Management == render.Managed {
		if err := p.soleManager(ctx); err != nil {
			return err
		}
	}
	p.karpenter, p.files = karpenter, render.NewFiles(*p.snapshot)
	p.fileValues, err = karpenter.ReadValues(p.files, p.sync.Spec.Path)
	return err
}

// soleManager checks that one NodeSync manages the charts of a cluster: two would install
// each its own version over the other's, again and again. Before a first install it reads
// past the cache: two NodeSyncs may begin in the same instant.
func (p *pass) soleManager(ctx context.Context) error {
	var reader client.Reader = p.Client
	if !installs(p.sync) {
		reader = p.Uncached
	}
	all := &v1alpha1.NodeSyncList{}
	if err := reader.List(ctx, all, client.InNamespace(p.sync.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("read the NodeSyncs: %w", err)
	}
	for i := range all.Items {
		other := &all.Items[i]
		if k := other.Status.Karpenter; k == nil || k.Management != string(render.Managed) || !comesBefore(other, p.sync) {
			continue
		}
		return &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonConflict, Err: fmt.Errorf(
			"NodeSync %s/%s installs Karpenter's charts already: set management: External in this one's plumbline.yaml, or delete the other", other.Namespace, other.Name)}
	}
	return nil
}

// installs says that a NodeSync has installed a chart.
func installs(sync *v1alpha1.NodeSync) bool {
	k := sync.Status.Karpenter
	return k != nil && (k.CRDs != nil || k.Controller != nil)
}

// comesBefore says which of two NodeSyncs manages the charts: the one that has installed them,
// else the older one.
func comesBefore(a, b *v1alpha1.NodeSync) bool {
	if installs(a) != installs(b) {
		return installs(a)
	}
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}

// FixedError says that a commit moves what the first install has fixed.
type FixedError struct {
	Field, From, To, Why string
}

// Error names the field and what would happen.
func (e *FixedError) Error() string {
	return fmt.Sprintf("refused: %s is fixed at %q by the first install, the commit says %q: %s", e.Field, e.From, e.To, e.Why)
}

// checkFixed refuses a commit that moves what the first install has fixed. A name
// of the cluster that AWS has never confirmed may be corrected, to one that AWS
// confirms: the copied name of another cluster must not be there for good.
func (p *pass) checkFixed(wanted *render.Karpenter) error {
	k := p.sync.Status.Karpenter
	err := fixedCluster(k, wanted)
	if err != nil && k.ClusterARN == "" {
		p.renamed, err = err, nil
	}
	if err == nil {
		err = fixedInstall(k, wanted)
	}
	if err != nil {
		return &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonRefused, Err: err}
	}
	return nil
}

// checkRename refuses a new name of the cluster that AWS does not confirm.
func (p *pass) checkRename() error {
	if p.renamed == nil || conditions.IsTrue(p.sync, v1alpha1.CloudVerifiedCondition) {
		return nil
	}
	return &fault.Error{Class: fault.Terminal, Reason: v1alpha1.ReasonRefused, Err: p.renamed}
}

// fixedCluster compares the cluster in plumbline.yaml with the one that nodes are
// made for. Before charts are brought there are none, unless others install
// Karpenter.
func fixedCluster(k *v1alpha1.KarpenterStatus, wanted *render.Karpenter) error {
	if k == nil || !upgrade.Begun(k) && k.Management == string(render.Managed) {
		return nil
	}
	return moved(
		FixedError{"cluster.name", k.Cluster, wanted.Cluster.Name, "Karpenter would lose sight of every node it has made"},
		FixedError{"cluster.region", k.Region, wanted.Cluster.Region, "Karpenter would lose sight of every node it has made"},
	)
}

// fixedInstall compares plumbline.yaml with what was installed.
func fixedInstall(k *v1alpha1.KarpenterStatus, wanted *render.Karpenter) error {
	if k == nil || !upgrade.Begun(k) {
		return nil
	}
	return moved(
		FixedError{"management", k.Management, string(wanted.Management), "the charts would change hands"},
		FixedError{"namespace", k.Namespace, wanted.Namespace, "a second controller would be installed"},
	)
}

// moved returns the first field that has changed; nil where none has.
func moved(fields ...FixedError) error {
	for _, f := range fields {
		if f.From != f.To {
			return &f
		}
	}
	return nil
}

// fix records what a first install is about to fix. Until charts are brought, a
// commit may still give them to somebody else, or say where they really are.
func (p *pass) fix() {
	wanted := &v1alpha1.KarpenterStatus{
		Management: string(p.karpenter.Management),
		Namespace:  p.karpenter.Namespace,
		Cluster:    p.karpenter.Cluster.Name,
		Region:     p.karpenter.Cluster.Region,
	}
	k := p.sync.Status.Karpenter
	switch {
	case k == nil, !upgrade.Begun(k) && (k.Management != wanted.Management || k.Namespace != wanted.Namespace || k.Cluster != wanted.Cluster || k.Region != wanted.Region):
		p.sync.Status.Karpenter = wanted
	case p.renamed != nil:
		k.Cluster, k.Region = wanted.Cluster, wanted.Region
	}
}
