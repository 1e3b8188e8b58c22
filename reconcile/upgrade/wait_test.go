package upgrade

import (
	"testing"
	"time"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// TestAWaitHasAReason checks this at every step, whatever was observed: a daemon that was killed after it installed a
// chart finds a rollout that is already complete.
func TestAWaitHasAReason(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	release := &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.1"}
	want := Want{Version: "1.14.1", Identity: "b"}
	waits := 0
	for _, step := range []v1alpha1.ChartStep{
		v1alpha1.ChartChecking, v1alpha1.ChartMigrating, v1alpha1.ChartCRDs, v1alpha1.ChartController, v1alpha1.ChartRollingOut,
		v1alpha1.ChartSettling, v1alpha1.ChartRollingBack, v1alpha1.ChartRolledBack,
	} {
		for _, rollout := range []cluster.Readiness{{Ready: true}, {Message: "0 of 2 replicas"}} {
			for _, established := range []cluster.Readiness{{Ready: true}, {Message: "a CRD is not Established yet"}} {
				k := at(v1alpha1.KarpenterStatus{Version: "1.8.6", Identity: "a", Controller: release}, step, now)
				k.Target.Version, k.Target.Identity = want.Version, want.Identity
				s := Seen{Checked: true, Migrated: true, CRDs: release, Controller: release, RolledBack: release, Established: established, Rollout: rollout}
				_, action := Next(k, want, s, now, time.Minute)
				if wait, ok := action.(Wait); ok {
					waits++
					if wait.Message == "" {
						t.Errorf("%s with rollout %+v, CRDs %+v: waits for %s, and says no reason", step, rollout, established, wait.On)
					}
				}
			}
		}
	}
	if waits < 5 {
		t.Errorf("only %d waits were looked at", waits)
	}
}
