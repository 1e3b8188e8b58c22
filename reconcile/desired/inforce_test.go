package desired

import (
	"testing"

	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestChartsInForce: a tag means the same chart until a commit asks for another version or repository.
func TestChartsInForce(t *testing.T) {
	const repository, mirror = "oci://public.ecr.aws/karpenter", "oci://mirror.example.com/karpenter"
	resolved := func(from, crd, main string) *v1alpha1.ResolvedCharts {
		return &v1alpha1.ResolvedCharts{Repository: from, CRDDigest: crd, Digest: main}
	}
	installed := v1alpha1.KarpenterStatus{Version: "1.14.1", Charts: resolved(repository, "c1", "m1")}
	changing := installed
	changing.Target = &v1alpha1.ChartTarget{Version: "1.15.0", Step: v1alpha1.ChartRolledBack, Charts: resolved(repository, "c2", "m2")}
	moving := installed
	moving.Target = &v1alpha1.ChartTarget{Version: "1.14.1", Step: v1alpha1.ChartChecking, Charts: resolved(mirror, "c3", "m3")}
	before := v1alpha1.KarpenterStatus{
		Version: "1.14.1",
		CRDs:    &v1alpha1.ReleaseStatus{Version: "1.15.0", Digest: "c2"}, Controller: &v1alpha1.ReleaseStatus{Version: "1.14.1", Digest: "m1"},
	}
	for name, c := range map[string]struct {
		status              *v1alpha1.KarpenterStatus
		repository, version string
		want                charts.Digests
	}{
		"nothing is installed":              {nil, repository, "1.14.1", charts.Digests{}},
		"the same":                          {&installed, repository, "1.14.1", charts.Digests{CRD: "c1", Controller: "m1"}},
		"another version":                   {&installed, repository, "1.15.0", charts.Digests{}},
		"another repository":                {&installed, mirror, "1.14.1", charts.Digests{}},
		"a change that has begun":           {&changing, repository, "1.15.0", charts.Digests{CRD: "c2", Controller: "m2"}},
		"back from a change that has begun": {&changing, repository, "1.14.1", charts.Digests{CRD: "c1", Controller: "m1"}},
		"a change of the repository":        {&moving, mirror, "1.14.1", charts.Digests{CRD: "c3", Controller: "m3"}},
		"back from another repository":      {&moving, repository, "1.14.1", charts.Digests{CRD: "c1", Controller: "m1"}},
		"a status without them":             {&before, repository, "1.14.1", charts.Digests{Controller: "m1"}},
		"a status without them, newer CRDs": {&before, repository, "1.15.0", charts.Digests{CRD: "c2"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := inForce(c.status, c.repository, c.version); got != c.want {
				t.Errorf("inForce() = %+v, want %+v", got, c.want)
			}
		})
	}
}
