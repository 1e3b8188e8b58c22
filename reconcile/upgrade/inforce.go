package upgrade

import (
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// InForce is the version whose release goes on serving while a change of the charts
// is refused, has failed, or is being taken back. It is empty where plumbline has
// installed none yet, and while a change is under way.
func InForce(k v1alpha1.KarpenterStatus) string {
	if k.Identity == "" || k.Controller == nil {
		return ""
	}
	if k.Target == nil {
		return k.Version
	}
	switch k.Target.Step {
	case v1alpha1.ChartChecking, v1alpha1.ChartSettling, v1alpha1.ChartRollingBack, v1alpha1.ChartRolledBack:
		return k.Version
	case v1alpha1.ChartMigrating, v1alpha1.ChartCRDs, v1alpha1.ChartController, v1alpha1.ChartRollingOut:
	}
	return ""
}

// UnderWay says that a change has begun, and that neither its controller nor the one before is in
// force for good yet.
func UnderWay(t v1alpha1.ChartTarget) bool {
	return !back(&t) && t.Step != v1alpha1.ChartSettling
}

// CRDsAhead says that the CRDs in the cluster are newer than a version: the controller
// has gone back to it, or is about to.
func CRDsAhead(k *v1alpha1.KarpenterStatus, version string) bool {
	return k != nil && k.CRDs != nil && charts.Ahead(k.CRDs.Version, version)
}

// Begun says that plumbline has installed charts, or may have.
func Begun(k *v1alpha1.KarpenterStatus) bool {
	if k.Identity != "" {
		return true
	}
	return k.Target != nil && k.Target.Step != v1alpha1.ChartChecking && k.Target.Step != v1alpha1.ChartMigrating
}
