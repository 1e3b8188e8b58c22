package desired

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/provision/allowance"
	"github.com/plumbline-dev/plumbline/provision/charts"
	"github.com/plumbline-dev/plumbline/provision/charts/release"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// TestWhatIsExcludedIsNotBroughtBack: the owner of a NodeSync excludes a version, or all
// charts but some, and then a rollback and a repair do not install it either.
func TestWhatIsExcludedIsNotBroughtBack(t *testing.T) {
	half := strings.Repeat("a", 32)
	whole := "sha256:" + half + strings.Repeat("b", 32)
	for name, c := range map[string]struct {
		allow   v1alpha1.ChartAllow
		chart   string
		digest  string
		refused string
	}{
		"no limits":                    {v1alpha1.ChartAllow{}, charts.ControllerChart, "sha256:" + half, ""},
		"a version that is allowed":    {v1alpha1.ChartAllow{Versions: ">=1.14"}, charts.ControllerChart, "sha256:" + half, ""},
		"a version that is excluded":   {v1alpha1.ChartAllow{Versions: ">=1.14.2"}, charts.ControllerChart, "sha256:" + half, "version 1.14.1 is not in the range >=1.14.2"},
		"CRDs of that version":         {v1alpha1.ChartAllow{Versions: ">=1.14.2", Digests: []string{"sha256:cc"}}, charts.CRDChart, "sha256:" + half, ""},
		"a digest that is allowed":     {v1alpha1.ChartAllow{Digests: []string{"sha256:cc", whole}}, charts.ControllerChart, "sha256:" + half, ""},
		"the whole of it":              {v1alpha1.ChartAllow{Digests: []string{whole}}, charts.ControllerChart, whole, ""},
		"a digest that is not allowed": {v1alpha1.ChartAllow{Digests: []string{"sha256:cc"}}, charts.ControllerChart, "sha256:" + half, "whose digest begins with sha256:" + half},
		"a digest that is not known":   {v1alpha1.ChartAllow{Digests: []string{whole}}, charts.ControllerChart, "", "whose digest is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) { n.Spec.Charts = &v1alpha1.ChartAccess{Allow: &c.allow} }))
			err := b.step().Permit(release.Rendered{Chart: c.chart, Version: "1.14.1", Digest: c.digest, Namespace: "kube-system"})
			var refused *allowance.RefusedError
			if !errors.As(err, &refused) && c.refused != "" || c.refused != "" && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%v, want %q", err, c.refused)
			}
			// It has no objects, which is refused as well.
			if c.refused == "" && err != nil && (strings.Contains(err.Error(), "range") || strings.Contains(err.Error(), "digest")) {
				t.Error(err)
			}
		})
	}
}
