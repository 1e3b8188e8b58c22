package upgrade

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/fault"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
)

// TestExternalWaitsForItsVersion checks that, with a version in Git, the CRDs and the controller that another tool
// installs must have it before a definition is written.
func TestExternalWaitsForItsVersion(t *testing.T) {
	up := cluster.Readiness{Ready: true}
	cases := map[string]struct {
		version     string
		field       string
		established cluster.Readiness
		rollout     cluster.Readiness
		crds        string
		changing    bool
	}{
		"any version will do":         {field: "height", established: up, rollout: up},
		"no CRDs yet":                 {version: "1.14.1", established: cluster.Readiness{Message: "crd x is not there yet"}, crds: "crd x is not there yet; management is External"},
		"CRDs of another":             {version: "1.14.1", field: "height", established: up, rollout: up, crds: "crd nodepools.karpenter.sh is not that of Karpenter 1.14.1; management is External"},
		"the CRDs, and no controller": {version: "1.14.1", field: "weight", established: up, changing: true},
		"both":                        {version: "1.14.1", field: "weight", established: up, rollout: up},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, installtest.PoolCRD(c.field, "v1"))
			s := b.awaiting(t, c.version)
			if err := s.awaitCharts(t.Context(), Seen{Established: c.established, Rollout: c.rollout}); err != nil {
				t.Fatal(err)
			}
			if got := s.out.CRDs; got.Ready != (c.crds == "") || !strings.Contains(got.Message, c.crds) {
				t.Errorf("CRDs are %+v, want %q", got, c.crds)
			}
			if s.out.Changing != c.changing {
				t.Errorf("definitions wait: %v", s.out.Changing)
			}
			want := ""
			if c.crds == "" && c.rollout.Ready {
				want = c.version
			}
			if got := s.Sync.Status.Karpenter.Version; got != want {
				t.Errorf("version in force is %q, want %q", got, want)
			}
		})
	}
}

// TestCRDsOfEKSStay: a change of the charts leaves the CRDs that EKS keeps as they are, and they are no reason to wait for
// another tool.
func TestCRDsOfEKSStay(t *testing.T) {
	kept := installtest.PoolCRD("weight", "v1")
	kept.Labels = map[string]string{"app.kubernetes.io/managed-by": "eks"}
	kept.Status.StoredVersions = []string{"v1"}
	b := newBed(t, kept)
	s := b.step()
	s.Charts = installtest.ChartFolder(t, "1.15.0", installtest.PoolCRD("height", "v1"))
	live, next, migrations, err := s.changeOfCRDs(t.Context())
	if err != nil || len(live) != 1 || len(next) != 1 || next[0] != live[0] || len(migrations) > 0 {
		t.Errorf("changeOfCRDs() = %v, %v, %v, %v", live, next, migrations, err)
	}
	s = b.awaiting(t, "1.14.1")
	s.Charts = installtest.ChartFolder(t, "1.14.1", installtest.PoolCRD("height", "v1"))
	if unlike, err := s.differsFromChart(t.Context()); err != nil || unlike != "" {
		t.Errorf("differsFromChart() = %q, %v", unlike, err)
	}
}

// awaiting returns the step of a reconcile in which another tool installs the charts.
func (b *bed) awaiting(t *testing.T, version string) *Step {
	t.Helper()
	s := b.step()
	s.Karpenter.Management, s.Karpenter.Version = render.External, version
	s.Charts = installtest.ChartFolder(t, "1.14.1", installtest.PoolCRD("weight", "v1"))
	s.Charts.CRDDigest = "sha256:c"
	s.View.Cached = unwatched{s.View.Cached}
	return s
}

// unwatched is a watch cache without permission to read the objects of the main chart, as with manifests/external: the
// real one would wait forever.
type unwatched struct{ client.Reader }

func (u unwatched) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, charted := list.(*metav1.PartialObjectMetadataList); charted {
		return errors.New("services is forbidden")
	}
	return u.Reader.List(ctx, list, options...)
}

// TestExternalCRDsAreComparedOnce checks that they are compared once while they are right and unchanged; wrong ones are
// compared again at the retry interval.
func TestExternalCRDsAreComparedOnce(t *testing.T) {
	b := newBed(t, installtest.PoolCRD("height", "v1"))
	uncached := b.uncached
	looks := func(what string, reads int, right bool) {
		t.Helper()
		uncached.reads = 0
		unlike, err := b.awaiting(t, "1.14.1").differsFromChart(t.Context())
		if err != nil || (unlike == "") != right || uncached.reads != reads {
			t.Errorf("%s: %q, %v, %d reads past the cache, want %d", what, unlike, err, uncached.reads, reads)
		}
	}
	looks("at first", 1, false)
	looks("at once again", 0, false)
	b.now = b.now.Add(retry)
	looks("when a retry is due", 1, false)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Name: "nodepools.karpenter.sh"}, crd); err != nil {
		t.Fatal(err)
	}
	crd.Spec, crd.Generation = installtest.PoolCRD("weight", "v1").Spec, 2
	if err := b.client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	looks("somebody has brought it", 1, true)
	b.now = b.now.Add(retry)
	looks("it stands", 0, true)
}

// TestAControllerUnderAnotherName checks that it is refused if another tool has installed it: its instances have
// another cluster's tag.
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
