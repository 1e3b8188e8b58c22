package reconcile

import (
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
)

// TestTheSchemaInForceIsHeldToDigests shows that charts that are pulled only for the schema of what is in force must
// have digests that the NodeSync allows, too. Otherwise only the CRDs in the cluster decide.
func TestTheSchemaInForceIsHeldToDigests(t *testing.T) {
	for name, c := range map[string]struct {
		digests []string
		taken   bool
		warned  string
	}{
		"any":       {nil, true, ""},
		"allowed":   {[]string{"sha256:crds-1.8.6", "sha256:1.8.6"}, true, ""},
		"not these": {[]string{"sha256:crds-1.14.1", "sha256:1.14.1"}, false, "a chart with digest sha256:crds-1.8.6 is none of those that this NodeSync names"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, nodeSync(func(n *v1alpha1.NodeSync) {
				n.Spec.Charts = &v1alpha1.ChartAccess{Allow: &v1alpha1.ChartAllow{Digests: c.digests}}
			}), append(established(installtest.PoolCRD("weight", "v1")), running("1.8.6"))...)
			p := b.changing("")
			p.sync.Status.Karpenter.CRDs.Version = "1.14.1"
			step := p.desiredStep()
			if err := step.UseSchemaInForce(t.Context()); err != nil {
				t.Fatal(err)
			}
			if taken := p.want.Older != nil; taken != c.taken {
				t.Errorf("the schema of what is in force is taken: %t", taken)
			}
			said := ""
			for _, event := range step.Notes {
				said += event.Message + "\n"
			}
			if (said == "") != (c.warned == "") || !strings.Contains(said, c.warned) {
				t.Errorf("warned of %q, want %q", said, c.warned)
			}
		})
	}
}
