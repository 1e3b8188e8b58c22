package simulate

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAPlanNamesPoolsThatNoInstanceTypeMeets by what EC2 offers in the region, in this process and in a child process. Where that is
// unknown, so is this; EC2 is queried only if the Plan writes a NodePool.
func TestAPlanNamesPoolsThatNoInstanceTypeMeets(t *testing.T) {
	change := func(action plan.Action, class, instanceType string) plan.Change {
		ref := render.Ref{Kind: render.NodePool, Name: "web"}
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": render.NodePool, "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"nodeClassRef": map[string]any{"group": "karpenter.k8s.aws", "kind": render.EC2NodeClass, "name": class},
			"requirements": []any{map[string]any{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": []any{instanceType}}},
		}}}}}
		return plan.Change{Ref: ref, Action: action, Object: render.Object{Ref: ref, Desired: u, Defaulted: u}}
	}
	const unknown = "unknown whether an instance type of us-east-1 meets NodePool/web: "
	for name, c := range map[string]struct {
		change plan.Change
		region string
		err    error
		asked  int
		want   []string
	}{
		"one fits":          {change: change(plan.Create, "default", "m5.large"), asked: 1},
		"none fits":         {change: change(plan.Update, "default", "m5.huge"), asked: 1, want: []string{"no instance type of us-east-1 meets NodePool/web: it can launch no node"}},
		"it is held":        {change: change(plan.Hold, "default", "m5.huge"), asked: 1, want: []string{"no instance type of us-east-1 meets NodePool/web: it can launch no node"}},
		"a new class":       {change: change(plan.Create, "new", "m5.large"), asked: 1, want: []string{unknown + "the zones of EC2NodeClass/new are unknown until Karpenter has resolved its subnets"}},
		"EC2 is down":       {change: change(plan.Create, "default", "m5.large"), err: errors.New("EC2 is down"), asked: 1, want: []string{unknown + "query EC2 in us-east-1 for its instance types: EC2 is down"}},
		"an unknown region": {change: change(plan.Create, "default", "m5.large"), region: "none", want: []string{"unknown whether an instance type of an unknown region meets NodePool/web: EC2 cannot be queried"}},
		"nothing is new":    {change: change(plan.None, "default", "m5.huge")},
	} {
		for where, runner := range map[string]*confine.Runner{"here": nil, "in a child": children} {
			t.Run(name+" "+where, func(t *testing.T) {
				asked, region := 0, "us-east-1"
				if c.region != "" {
					region = ""
				}
				s := fixture{}.simulator(t, runner, func() error { asked++; return c.err })
				words := s.InstanceTypes(t.Context(), region, &plan.Plan{Changes: []plan.Change{c.change}}, plan.Live{})
				if diff := cmp.Diff(c.want, words); diff != "" || asked != c.asked {
					t.Errorf("asked %d times (-want +got):\n%s", asked, diff)
				}
			})
		}
	}
}

// TestInstanceTypesOfAForkAreUnknown: EC2 is not queried for it.
func TestInstanceTypesOfAForkAreUnknown(t *testing.T) {
	ref := render.Ref{Kind: render.NodePool, Name: "web"}
	made := &plan.Plan{Changes: []plan.Change{{Ref: ref, Action: plan.Create}}}
	want := []string{"unknown whether an instance type of eu-west-1 meets NodePool/web: AWS is not asked"}
	if diff := cmp.Diff(want, NotAsked("AWS is not asked")(t.Context(), "eu-west-1", made, plan.Live{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if words := NotAsked("AWS is not asked")(t.Context(), "eu-west-1", &plan.Plan{}, plan.Live{}); words != nil {
		t.Errorf("a plan that writes no NodePool: %q", words)
	}
}
