package install

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/install/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAControllerUnderAnotherName is refused where another tool has installed it: its
// instances bear another cluster's tag.
func TestAControllerUnderAnotherName(t *testing.T) {
	const words = `CLUSTER_NAME of deployment/karpenter in kube-system is "old" and cluster.name is "prod"`
	cases := map[string]struct {
		runsAs     string
		management render.Management
		ours       bool
		refused    bool
	}{
		"External":                {runsAs: "old", management: render.External, refused: true},
		"External, the same name": {runsAs: "prod", management: render.External},
		"a name that is not told": {management: render.External},
		"to be adopted":           {runsAs: "old", management: render.Managed, refused: true},
		"to be adopted, the same": {runsAs: "prod", management: render.Managed},
		"installed by plumbline":  {runsAs: "old", management: render.Managed, ours: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			objects := installtest.Installed()
			controller := corev1.Container{Name: "controller"}
			if c.runsAs != "" {
				controller.Env = []corev1.EnvVar{{Name: "CLUSTER_NAME", Value: c.runsAs}}
			}
			objects[0].(*appsv1.Deployment).Spec.Template.Spec.Containers = []corev1.Container{controller}
			b := newBed(t, objects...)
			uncached := b.uncached
			for range 2 {
				s := b.step()
				s.Karpenter.Management, s.Karpenter.Cluster.Name = c.management, "prod"
				if c.ours {
					s.Sync.Status.Karpenter.Controller = &v1alpha1.ReleaseStatus{Revision: 1, Version: "1.14.1"}
				}
				err := s.sameClusterName(t.Context())
				if refused := err != nil && strings.Contains(err.Error(), words); refused != c.refused || err != nil && !refused {
					t.Fatalf("sameClusterName() = %v, want it refused: %t", err, c.refused)
				}
				if f := fault.Classify(err); c.refused && (f.Class != fault.Terminal || f.Reason != v1alpha1.ReasonConflict) {
					t.Errorf("it is %s %s", f.Class, f.Reason)
				}
			}
			if want := 1; !c.ours && uncached.reads != want {
				t.Errorf("the Deployment was read %d times past the cache, want %d", uncached.reads, want)
			}
		})
	}
}
