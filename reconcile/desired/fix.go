package desired

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// Fixed is the status of Karpenter with what a first install is about to fix. Until charts
// are installed, a commit may still give them to another tool, or say where they really are.
func (d *Desired) Fixed(k *v1alpha1.KarpenterStatus) *v1alpha1.KarpenterStatus {
	wanted := &v1alpha1.KarpenterStatus{
		Management: string(d.Karpenter.Management),
		Namespace:  d.Karpenter.Namespace,
		Cluster:    d.Karpenter.Cluster.Name,
		Region:     d.Karpenter.Cluster.Region,
	}
	switch {
	case k == nil, !upgrade.Begun(k) && (k.Management != wanted.Management || k.Namespace != wanted.Namespace || k.Cluster != wanted.Cluster || k.Region != wanted.Region):
		return wanted
	case d.Renamed != nil:
		k.Cluster, k.Region = wanted.Cluster, wanted.Region
	}
	return k
}

// CheckRename refuses a new name of the cluster, unless AWS has verified it.
func (d *Desired) CheckRename(verified bool) error {
	if d.Renamed == nil || verified {
		return nil
	}
	return fault.Refused(d.Renamed)
}

// InForce says why the charts are not changed, and what goes on meanwhile.
func (d *Desired) InForce(why error) error {
	return fmt.Errorf("%w; definitions are still applied under Karpenter %s, which is in force", why, d.Serving)
}
