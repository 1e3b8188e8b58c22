package reconcile

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade"
	"github.com/plumbline-dev/plumbline/render"
)

// TestExternalWaitsForItsVersion: with a version in Git, the CRDs and the controller
// that somebody else brings have to be of it before a definition is written.
func TestExternalWaitsForItsVersion(t *testing.T) {
	up := observe.Readiness{Ready: true}
	cases := map[string]struct {
		version     string
		field       string
		established observe.Readiness
		rollout     observe.Readiness
		crds        string
		changing    bool
	}{
		"any version will do":         {field: "height", established: up, rollout: up},
		"no CRDs yet":                 {version: "1.14.1", established: observe.Readiness{Message: "crd x is not there yet"}, crds: "crd x is not there yet; management is External"},
		"CRDs of another":             {version: "1.14.1", field: "height", established: up, rollout: up, crds: "crd nodepools.karpenter.sh is not that of Karpenter 1.14.1; management is External"},
		"the CRDs, and no controller": {version: "1.14.1", field: "weight", established: up, changing: true},
		"both":                        {version: "1.14.1", field: "weight", established: up, rollout: up},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(unchanged), poolCRD(c.field, "v1"))
			p := b.awaiting(t, c.version)
			if err := p.awaitCharts(t.Context(), upgrade.Seen{Established: c.established, Rollout: c.rollout}); err != nil {
				t.Fatal(err)
			}
			if got := p.stages.crds; got.Ready != (c.crds == "") || !strings.Contains(got.Message, c.crds) {
				t.Errorf("CRDs are %+v, want %q", got, c.crds)
			}
			if p.stages.changing != c.changing {
				t.Errorf("definitions wait: %v", p.stages.changing)
			}
			want := ""
			if c.crds == "" && c.rollout.Ready {
				want = c.version
			}
			if got := p.sync.Status.Karpenter.Version; got != want {
				t.Errorf("version in force is %q, want %q", got, want)
			}
		})
	}
}

func (b *bed) awaiting(t *testing.T, version string) *pass {
	t.Helper()
	p := b.pass()
	p.karpenter = &render.Karpenter{Management: render.External, Version: version, Namespace: "kube-system"}
	p.charts = chartFolder(t, "1.14.1", poolCRD("weight", "v1"))
	p.charts.CRDDigest = "sha256:c"
	p.sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Namespace: "kube-system"}
	return p
}

// TestExternalCRDsAreComparedOnce, while they are right and nobody changes them; what
// is not right is looked at again at the pace of retries.
func TestExternalCRDsAreComparedOnce(t *testing.T) {
	b := newBed(t, nodeSync(unchanged), poolCRD("height", "v1"))
	uncached := &readsCounted{Reader: b.client}
	b.Uncached = uncached
	looks := func(what string, reads int, right bool) {
		t.Helper()
		uncached.reads = 0
		unlike, err := b.awaiting(t, "1.14.1").unlikeTheChart(t.Context())
		if err != nil || (unlike == "") != right || uncached.reads != reads {
			t.Errorf("%s: %q, %v, %d reads past the cache, want %d", what, unlike, err, uncached.reads, reads)
		}
	}
	looks("at first", 1, false)
	looks("at once again", 0, false)
	b.clock.forward(b.pass().retryInterval())
	looks("when a retry is due", 1, false)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := b.client.Get(t.Context(), client.ObjectKey{Name: "nodepools.karpenter.sh"}, crd); err != nil {
		t.Fatal(err)
	}
	crd.Spec, crd.Generation = poolCRD("weight", "v1").Spec, 2
	if err := b.client.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	looks("somebody has brought it", 1, true)
	b.clock.forward(b.pass().retryInterval())
	looks("it stands", 0, true)
}
