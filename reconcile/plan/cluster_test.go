package plan_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

var (
	owner = plan.OwnerOf("plumbline-system", "prod")
	other = plan.OwnerOf("plumbline-system", "other")
)

func poolRef(name string) render.Ref  { return render.Ref{Kind: render.NodePool, Name: name} }
func classRef(name string) render.Ref { return render.Ref{Kind: render.EC2NodeClass, Name: name} }

func pool(name, class string, more ...string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: %s}
      requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [spot]}]
  %s
`, name, class, strings.Join(more, "\n  "))
}

func class(name string, more ...string) string {
	return fmt.Sprintf(`
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: %s}
spec:
  role: KarpenterNodeRole-demo
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: demo}}]
  %s
`, name, strings.Join(more, "\n  "))
}

// drawnCluster is what a Plan is made against.
type drawnCluster struct {
	*applytest.Server
	policy plan.Policy
	live   plan.Live
	inputs render.Inputs
}

func newCluster(t *testing.T) *drawnCluster {
	t.Helper()
	return &drawnCluster{
		Server: applytest.New(t),
		policy: plan.Policy{Owner: owner, OtherSyncs: []plan.OtherSync{{Owner: other}}, Adopt: v1alpha1.AdoptIfIdentical, Drift: v1alpha1.DriftCorrect, NewRevision: true},
	}
}

// have applies a definition for an owner, as an apply of a Change does.
func (c *drawnCluster) have(t *testing.T, by plan.Owner, definitions ...string) {
	t.Helper()
	for _, text := range definitions {
		if err := c.ApplyAs(t.Context(), plan.Desired(c.Definition(t, text), by), v1alpha1.FieldManager, true); err != nil {
			t.Fatal(err)
		}
	}
}

// byHand creates an object without an owner.
func (c *drawnCluster) byHand(t *testing.T, manager, text string) {
	t.Helper()
	object := c.Definition(t, text)
	c.Edit(t, object.Ref, manager, func(o *unstructured.Unstructured) { o.Object["spec"] = object.Desired.Object["spec"] })
}

func (c *drawnCluster) edit(t *testing.T, ref render.Ref, manager string, value any, path ...string) {
	t.Helper()
	c.Edit(t, ref, manager, func(o *unstructured.Unstructured) {
		if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	})
}

// disown removes a manager's managedFields entry, so that nobody owns its fields, as with fields that a webhook adds.
func (c *drawnCluster) disown(t *testing.T, ref render.Ref, manager string) {
	t.Helper()
	c.Edit(t, ref, manager, func(o *unstructured.Unstructured) {
		o.SetManagedFields(slices.DeleteFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager }))
	})
}

// removal records that an object is being removed.
func (c *drawnCluster) removal(ref render.Ref, phase v1alpha1.RemovalPhase, revision string) {
	c.live.Removals = append(c.live.Removals, v1alpha1.Removal{
		Kind: ref.Kind, Name: ref.Name, UID: c.Object(ref).GetUID(), Phase: phase, Revision: revision, Definition: plan.Definition(c.Object(ref)),
	})
}

func (c *drawnCluster) set(t *testing.T, definitions ...string) *render.Set {
	t.Helper()
	set := &render.Set{Revision: "main@sha1:new", Inputs: c.inputs}
	for _, text := range definitions {
		set.Objects = append(set.Objects, c.Definition(t, text))
	}
	return set
}

func (c *drawnCluster) plan(t *testing.T, definitions ...string) *plan.Plan {
	t.Helper()
	var set *render.Set
	if !c.policy.Deleting {
		set = c.set(t, definitions...)
	}
	live := c.live
	live.Objects = plan.NewObjects(c.Objects())
	p, err := plan.Make(t.Context(), set, live, c.policy, c)
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range live.Objects {
		if err := plan.PackManagedFields(object.Unstructured); err != nil {
			t.Fatal(err)
		}
	}
	packed, err := plan.Make(t.Context(), set, live, c.policy, c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(script(p), script(packed)); diff != "" || p.Digest != packed.Digest {
		t.Errorf("another Plan where managedFields are packed:\n%s", diff)
	}
	return p
}

// script formats a Plan for comparison.
func script(p *plan.Plan) []string {
	lines := []string{}
	for _, c := range p.Changes {
		line := fmt.Sprintf("%s %s %s", c.Action, c.Ref, c.Reason)
		for _, f := range c.Fields {
			line += fmt.Sprintf(" %s:%s→%s", f.Path, f.From, f.To)
		}
		if len(c.Editors) > 0 {
			line += " by " + strings.Join(c.Editors, ",")
		}
		if c.WaitsFor != "" {
			line += " on " + c.WaitsFor
		}
		switch c.Effect {
		case plan.EffectReplace:
			line += fmt.Sprintf(" replaces %d", c.Nodes)
		case plan.EffectDrain:
			line += fmt.Sprintf(" drains %d", c.Nodes)
		case plan.EffectConsolidate:
			line += fmt.Sprintf(" consolidates up to %d", c.Nodes)
		case plan.EffectNone, plan.EffectBlocked:
		}
		if c.Takeover && c.Action.Writes() {
			line += " takeover"
		}
		lines = append(lines, line)
	}
	for _, r := range p.Removals {
		line := "Remove " + r.Ref.String()
		if r.Held {
			line = "Hold " + r.Ref.String() + " " + r.Reason
		}
		if r.Queued {
			line = "Queue " + r.Ref.String() + " " + r.Reason
		}
		lines = append(lines, line)
	}
	for _, k := range p.Kept {
		word := "Await "
		if k.HandedOver {
			word = "Handover "
		}
		lines = append(lines, word+k.Ref.String()+" by "+k.By)
	}
	for _, e := range p.Extra {
		lines = append(lines, "Extra "+e.String())
	}
	for _, r := range p.Returned {
		lines = append(lines, "Returned "+r.Kind+"/"+r.Name)
	}
	return lines
}
