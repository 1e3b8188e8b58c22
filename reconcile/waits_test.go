package reconcile

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestNoWaitWithoutAReason shows that, at each step of a change of the charts, a reconcile and each Stage report what
// they wait for, and why.
func TestNoWaitWithoutAReason(t *testing.T) {
	steps := []v1alpha1.ChartStep{
		"", v1alpha1.ChartChecking, v1alpha1.ChartMigrating, v1alpha1.ChartCRDs, v1alpha1.ChartController,
		v1alpha1.ChartRollingOut, v1alpha1.ChartSettling, v1alpha1.ChartRollingBack, v1alpha1.ChartRolledBack,
	}
	for name, objects := range map[string][]client.Object{
		"the controller runs":     append(established(installtest.PoolCRD("weight", "v1")), running("1.14.1")),
		"it is the one before":    append(established(installtest.PoolCRD("weight", "v1")), running("1.8.6")),
		"it is not complete":      append(established(installtest.PoolCRD("weight", "v1")), installtest.Installed()[0]),
		"there is none":           established(installtest.PoolCRD("weight", "v1")),
		"there are no CRDs":       {running("1.14.1")},
		"there is nothing at all": nil,
	} {
		for _, at := range steps {
			t.Run(name+" at "+string(at), func(t *testing.T) {
				b := newBed(t, nodeSync(unchanged), objects...)
				p := b.changing("")
				if at != "" {
					identity, err := p.identityOf(b, "1.14.1")
					if err != nil {
						t.Fatal(err)
					}
					p.sync.Status.Karpenter.Target = &v1alpha1.ChartTarget{Version: "1.14.1", Identity: identity, Step: at, Since: metav1.NewTime(p.now.Add(-time.Second)), Message: "it failed"}
				}
				p.takes(t.Context(), p.resolveCharts, p.render, p.makePlan, p.installCharts, p.applyPlan, p.observe)
				for _, w := range p.Waits {
					if w.On == "" || w.Message == "" {
						t.Errorf("waits for %q: %q", w.On, w.Message)
					}
				}
				if p.Fault == nil {
					for _, stage := range p.conclusion().Stages {
						if !stage.Ready && stage.Message == "" {
							t.Errorf("Stage %s waits, and says no reason", stage.Name)
						}
					}
				}
			})
		}
	}
}
