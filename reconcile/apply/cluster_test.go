package apply_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

const (
	class = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
`
	pool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  limits: {cpu: "100"}
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
`
	poolWithoutLimits = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
`
	staticPool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  replicas: 3
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
`
)

var (
	general    = render.Ref{Kind: render.NodePool, Name: "general"}
	defaultRef = render.Ref{Kind: render.EC2NodeClass, Name: "default"}
	owner      = plan.OwnerOf("plumbline-system", "prod")
)

// cluster is a Server to which a NodeSync has applied a revision.
type cluster struct {
	*applytest.Server
	policy   plan.Policy
	removals []v1alpha1.Removal
}

func newCluster(t *testing.T, definitions ...string) *cluster {
	t.Helper()
	c := &cluster{Server: applytest.New(t), policy: plan.Policy{Owner: owner, Adopt: v1alpha1.AdoptIfIdentical, NewRevision: true}}
	if len(definitions) > 0 {
		if err := c.sync(t, definitions...).Err(); err != nil {
			t.Fatal(err)
		}
		c.Writes()
	}
	return c
}

func (c *cluster) plan(t *testing.T, definitions ...string) *plan.Plan {
	t.Helper()
	set := &render.Set{Revision: "main@sha1:1"}
	for _, text := range definitions {
		set.Objects = append(set.Objects, c.Definition(t, text))
	}
	p, err := plan.Make(t.Context(), set, plan.Live{Objects: plan.NewObjects(c.Objects()), Removals: c.removals}, c.policy, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (c *cluster) sync(t *testing.T, definitions ...string) apply.Result {
	t.Helper()
	return apply.Apply(t.Context(), c, c.plan(t, definitions...).Changes, apply.Options{Uncached: c, Arrivals: &apply.Arrivals{}, Owner: c.policy.Owner, Concurrency: 8})
}

// settled fails if another plan still has Changes.
func (c *cluster) settled(t *testing.T, definitions ...string) {
	t.Helper()
	if p := c.plan(t, definitions...); len(p.Changes) > 0 {
		t.Errorf("not settled: %s %s: %s", p.Changes[0].Action, p.Changes[0].Ref, p.Changes[0].Message)
	}
}

// stopGrowth changes a pool like the first step of a removal.
func (c *cluster) stopGrowth(t *testing.T, spec map[string]any) {
	t.Helper()
	growth := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	growth.SetAPIVersion("karpenter.sh/v1")
	growth.SetKind(render.NodePool)
	growth.SetName(general.Name)
	if err := c.ApplyAs(t.Context(), growth, v1alpha1.RemovalFieldManager, true); err != nil {
		t.Fatal(err)
	}
	c.removals = []v1alpha1.Removal{{Kind: general.Kind, Name: general.Name, UID: c.Object(general).GetUID(), Phase: v1alpha1.RemovalPacing}}
	c.Writes()
}

func applied(ref render.Ref, force bool) applytest.Write {
	return applytest.Write{Ref: ref, Type: types.ApplyPatchType, Manager: v1alpha1.FieldManager, Force: force}
}

func spec(t *testing.T, object *unstructured.Unstructured, path ...string) any {
	t.Helper()
	value, _, err := unstructured.NestedFieldCopy(object.Object, append([]string{"spec"}, path...)...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func set(t *testing.T, value any, path ...string) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	}
}
