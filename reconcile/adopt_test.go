package reconcile

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// TestWhatWasToBeTakenOverIsGone shows that an installation that no longer exists does not restrict the upgrade path.
func TestWhatWasToBeTakenOverIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"it is there": {objects: installtest.Installed()[:1], want: "set version 1.0."},
		"it is gone":  {},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged), c.objects...)
			p := b.upgrading(installtest.ChartFolder(t, "1.14.1", installtest.PoolCRD("weight", "v1")), "1.0.1")
			k := p.sync.Status.Karpenter
			k.Management, k.Identity = string(render.Managed), "" // plumbline has never put anything in force
			err := p.installCharts(t.Context())
			if got := fmtErr(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
				t.Errorf("installCharts() = %q, want %q", got, c.want)
			}
			if k = p.sync.Status.Karpenter; (k.Version == "") != (c.want == "") || (k.Controller == nil) != (c.want == "") {
				t.Errorf("in force is %q, %v", k.Version, k.Controller)
			}
		})
	}
}
