package simulate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/confine"
)

// fuse is a NodeOverlay that adds a resource to nodes of an instance type that EC2 does not report.
const fuse = `
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: fuse}
spec: {capacity: {example.com/fuse: "1"}, requirements: [{key: node.kubernetes.io/instance-type, operator: In, values: [TYPE]}]}
`

// TestOverlaysGivePodsAPlace checks that what a NodeOverlay adds to nodes counts before a removal starts if Karpenter's
// feature gate is enabled, in this process and in a child process.
func TestOverlaysGivePodsAPlace(t *testing.T) {
	const gate = "NodeRepair=false,NodeOverlay=true"
	for name, c := range map[string]struct {
		overlaid, gates string
		more            int64
		lands           bool
	}{
		"without an overlay":                  {gates: gate},
		"with one":                            {overlaid: "m5.large", gates: gate, lands: true},
		"with one of another instance type":   {overlaid: "m5.xlarge", gates: gate},
		"with one, where the gate is closed":  {overlaid: "m5.large", gates: "NodeOverlay=false"},
		"with one, in a large cluster":        {overlaid: "m5.large", gates: gate, more: 2 * largestCluster, lands: true},
		"without an overlay, a large cluster": {gates: gate, more: 2 * largestCluster},
	} {
		for where, runner := range map[string]*confine.Runner{"": nil, ", in a child": children} {
			t.Run(name+where, func(t *testing.T) {
				f := fixture{}
				s, all := f.simulator(t, runner, never), f.capture(t)
				all.Pods[0].Spec.Containers[0].Resources.Requests["example.com/fuse"] = resource.MustParse("1")
				all.Pods[0].Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/fuse": resource.MustParse("1")}
				if c.overlaid != "" {
					overlay := map[string]any{}
					if err := yaml.Unmarshal([]byte(strings.Replace(fuse, "TYPE", c.overlaid, 1)), &overlay); err != nil {
						t.Fatal(err)
					}
					all.Definitions = append(all.Definitions, overlay)
				}
				reader, err := NewCaptureClient(all)
				if err != nil {
					t.Fatal(err)
				}
				s.Reader = served{Reader: reader, more: c.more, gates: c.gates}
				made, live := removing()
				found, err := s.Ask(t.Context(), made, live)
				if err != nil || len(found["general"]) != map[bool]int{true: 0, false: 1}[c.lands] {
					t.Errorf("%+v, %v", found, err)
				}
			})
		}
	}
}
