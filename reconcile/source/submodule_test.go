package source_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/source"
	"github.com/plumbline-dev/plumbline/render"
)

const karpenterFile = `apiVersion: config.plumbline.dev/v1alpha1
kind: Karpenter
cluster: {name: demo, region: eu-west-1}
version: 1.14.1
`

const poolFile = `apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec: {template: {spec: {nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}, requirements: []}}}
`

// A submodule among the nodes is refused: otherwise the files that it replaces would look removed. A submodule outside
// the folders in nodes is ignored.
func TestRenderRefusesSubmodules(t *testing.T) {
	cases := map[string]struct {
		nodes []string
		want  string
	}{
		"in a folder of definitions": {[]string{"."}, "nodes/vendor: it is a submodule, which is not fetched: put its files into this repository"},
		"asked for by name":          {[]string{"./nodes/vendor"}, `plumbline.yaml: nodes entry "./nodes/vendor" is a submodule`},
		"beside the definitions":     {[]string{"./nodes/pool.yaml"}, ""},
	}
	s := snapshotOf(t, files{"plumbline.yaml": karpenterFile, "nodes/pool.yaml": poolFile, "nodes/vendor": "submodule"}, source.Options{})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			karpenter, err := render.ReadKarpenter(*s, ".")
			if err != nil {
				t.Fatal(err)
			}
			karpenter.Nodes = c.nodes
			set, err := render.Render(t.Context(), *s, ".", karpenter, nil)
			var wrong render.Errors
			switch {
			case c.want == "" && (err != nil || len(set.Objects) != 1):
				t.Errorf("rendered %v: %v", set, err)
			case c.want != "" && (!errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error %v, want %q in it", err, c.want)
			}
		})
	}
}
