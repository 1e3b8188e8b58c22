package upgrade

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestAnOlderRevisionChangesNoCharts checks that no change starts for it. A change that a newer revision has started
// completes, or is rolled back, as far as that needs no charts of its own.
func TestAnOlderRevisionChangesNoCharts(t *testing.T) {
	const older = "HEAD is, or may be, older than the applied revision"
	newer := func(step v1alpha1.ChartStep, since time.Duration) *v1alpha1.ChartTarget {
		return &v1alpha1.ChartTarget{Version: "1.15.0", Identity: "newer", Step: step, Since: metav1.NewTime(time.Unix(1_000_000, 0).Add(-since))}
	}
	inForce := func(k *v1alpha1.KarpenterStatus, identity string) {
		k.Version, k.Identity = "1.14.0", identity
		k.CRDs, k.Controller = &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.0"}, &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.0"}
	}
	for name, c := range map[string]struct {
		identity string
		target   *v1alpha1.ChartTarget
		own      v1alpha1.ChartStep
		up       bool
		// held reports whether nothing starts; then is the step of the newer change afterwards, and version is in
		// force.
		held    bool
		then    v1alpha1.ChartStep
		version string
		// back is how often the previous release was reinstalled.
		back int
	}{
		"other charts are in force":           {identity: "newer", held: true, version: "1.14.0"},
		"a newer change is refused":           {identity: "before", target: newer(v1alpha1.ChartChecking, 0), held: true, then: v1alpha1.ChartChecking, version: "1.14.0"},
		"a newer change was rolled back":      {identity: "before", target: newer(v1alpha1.ChartRolledBack, 0), held: true, then: v1alpha1.ChartRolledBack, version: "1.14.0"},
		"a newer change settles":              {identity: "newer", target: newer(v1alpha1.ChartSettling, 0), held: true, then: v1alpha1.ChartSettling, version: "1.14.0"},
		"a newer change has written its CRDs": {identity: "before", target: newer(v1alpha1.ChartCRDs, 0), held: true, then: v1alpha1.ChartCRDs, version: "1.14.0"},
		"a newer change rolls out":            {identity: "before", target: newer(v1alpha1.ChartRollingOut, 0), held: true, then: v1alpha1.ChartRollingOut, version: "1.14.0"},
		"a newer change is up":                {identity: "before", target: newer(v1alpha1.ChartRollingOut, 0), up: true, held: true, then: v1alpha1.ChartSettling, version: "1.15.0"},
		"a newer change does not come up":     {identity: "before", target: newer(v1alpha1.ChartRollingOut, time.Hour), held: true, then: v1alpha1.ChartRollingBack, version: "1.14.0"},
		"a newer change is taken back":        {identity: "before", target: newer(v1alpha1.ChartRollingBack, 0), up: true, held: true, then: v1alpha1.ChartRollingBack, back: 1, version: "1.14.0"},
		"it is taken back to these":           {identity: "own", target: newer(v1alpha1.ChartRollingBack, 0), up: true, held: true, then: v1alpha1.ChartRollingBack, back: 1, version: "1.14.0"},
		"these are in force":                  {identity: "own", version: "1.14.0"},
		"its own change is in progress":       {identity: "before", own: v1alpha1.ChartCRDs, version: "1.14.0"},
		"its own change has not begun":        {identity: "before", own: v1alpha1.ChartChecking, held: true, then: v1alpha1.ChartChecking, version: "1.14.0"},
		"nothing is installed":                {},
	} {
		t.Run(name, func(t *testing.T) {
			objects := installtest.Installed()
			d := objects[0].(*appsv1.Deployment)
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: []corev1.EnvVar{{Name: "DISABLE_LEADER_ELECTION", Value: "true"}}}}
			if c.up {
				d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
			}
			b := newBed(t, append([]client.Object{}, objects...)...)
			if c.up {
				b.helm.Known.Controller.Mark = release.Mark{Version: charts.Label("1.15.0")}
			}
			s := b.step()
			s.Older = true
			own, err := s.Identity()
			if err != nil {
				t.Fatal(err)
			}
			k := s.karpenterStatus()
			if c.identity != "" {
				inForce(k, strings.Replace(c.identity, "own", own, 1))
			}
			if k.Target = c.target; c.own != "" {
				k.Target = &v1alpha1.ChartTarget{Version: "1.14.1", Identity: own, Step: c.own}
			}
			if !c.held {
				if err := s.refuseOlder(own); err != nil {
					t.Errorf("held: %v", err)
				}
				return
			}
			if _, err = s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), older) {
				t.Fatalf("Run() = %v, want it held", err)
			}
			if got := s.karpenterStatus(); got.Version != c.version || got.Target != nil && got.Target.Step != c.then || got.Target == nil && c.then != "" {
				t.Errorf("in force %s, target %+v; want %s, at %q", got.Version, got.Target, c.version, c.then)
			}
			if goesOn := c.then == v1alpha1.ChartRollingOut || c.then == v1alpha1.ChartRollingBack; goesOn && s.WakeAt.IsZero() {
				t.Error("the next look is not planned")
			}
			if b.helm.Asked["rollback"] != c.back {
				t.Errorf("the release before was reinstalled %d times, want %d", b.helm.Asked["rollback"], c.back)
			}
			if b.helm.Asked[charts.CRDChart]+b.helm.Asked[charts.ControllerChart] > 0 {
				t.Errorf("Helm has installed %v", b.helm.Asked)
			}
		})
	}
}
