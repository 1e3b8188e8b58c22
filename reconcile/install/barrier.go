package install

import (
	"fmt"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
)

// Barrier says why the charts may not be changed, given what AWS says of the account; nil
// where they may. Karpenter's controller terminates every instance with its
// cluster's tag that has no NodeClaim here, so none is installed or changed under
// the name of another cluster, and none is installed for the first time, or
// adopted, while AWS cannot confirm the name.
func Barrier(k v1alpha1.KarpenterStatus, verdict cloud.Verdict, allowUnverified bool) error {
	switch {
	case verdict.Reason == cloud.ReasonAuthorityDiffers:
		return fault.Refused(fmt.Errorf(
			"cluster.name %s is another cluster's, so Karpenter's charts are not changed: %s; a controller of that name terminates the other cluster's instances", k.Cluster, verdict.Message))
	case verdict.OK, verdict.Reason == cloud.ReasonInstancesInvisible:
		return nil // the certificate authority is that of the cluster
	case allowUnverified || !firstInstall(k):
		return nil
	}
	return fault.CloudUnverified(fmt.Errorf(
		"EKS cluster %s is not confirmed to be this cluster: %s; Karpenter is installed or adopted once it is, or with spec.guard.allowUnverifiedAccount: true", k.Cluster, verdict.Message))
}

// firstInstall says that no controller of plumbline's was ever installed.
func firstInstall(k v1alpha1.KarpenterStatus) bool {
	if k.Identity != "" {
		return false
	}
	if k.Target == nil {
		return true
	}
	switch k.Target.Step {
	case v1alpha1.ChartChecking, v1alpha1.ChartMigrating, v1alpha1.ChartCRDs, v1alpha1.ChartController:
		return true
	case v1alpha1.ChartRollingOut, v1alpha1.ChartSettling, v1alpha1.ChartRollingBack, v1alpha1.ChartRolledBack:
	}
	return false
}

// changesCharts says whether an action writes to the charts, or prepares that.
func changesCharts(action upgrade.Action) bool {
	switch action.(type) {
	case upgrade.Check, upgrade.Migrate, upgrade.InstallCRDs, upgrade.InstallController, upgrade.RollBack:
		return true
	}
	return false
}
