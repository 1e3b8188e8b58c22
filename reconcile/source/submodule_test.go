package source_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// A submodule among the nodes is passed over and named; one that is asked for is
// refused.
func TestRenderNamesSubmodules(t *testing.T) {
	s := snapshotOf(t, files{"plumbline.yaml": karpenterFile, "nodes/pool.yaml": poolFile, "nodes/vendor": "submodule"}, source.Options{})
	karpenter, err := render.ReadKarpenter(*s, ".")
	if err != nil {
		t.Fatal(err)
	}
	set, err := render.Render(t.Context(), *s, ".", karpenter, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"nodes/vendor is a submodule, which is not fetched: what is in it is not applied"}
	if diff := cmp.Diff(want, set.Warnings); diff != "" || len(set.Objects) != 1 {
		t.Errorf("%d objects; %s", len(set.Objects), diff)
	}
	karpenter.Nodes = []string{"./nodes/vendor"}
	_, err = render.Render(t.Context(), *s, ".", karpenter, nil)
	var wrong render.Errors
	if !errors.As(err, &wrong) || !strings.Contains(err.Error(), `plumbline.yaml: nodes entry "./nodes/vendor" is a submodule`) {
		t.Errorf("error %v, want one that names the submodule", err)
	}
}
