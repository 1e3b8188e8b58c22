package simulate

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plumbline-dev/plumbline/confine"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// TestAPlanNamesPoolsThatNoInstanceTypeMeets checks this with what EC2 offers in the region, in this process and in a
// child process. If that is unknown, so is the result; EC2 is queried only if the Plan writes a NodePool.
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
				pools, words := s.InstanceTypes(t.Context(), region, &plan.Plan{Changes: []plan.Change{c.change}}, plan.Live{})
				if diff := gocmp.Diff(c.want, words); diff != "" || asked != c.asked {
					t.Errorf("asked %d times (-want +got):\n%s", asked, diff)
				}
				if none := len(words) > 0 && strings.HasPrefix(words[0], "no instance type"); none != slices.Equal(pools, []string{"web"}) || !none && pools != nil {
					t.Errorf("no instance type meets %q", pools)
				}
			})
		}
	}
}

// TestAPlanThatWritesAClassNamesItsPools checks the existing pools that stay, and only if the change affects instance
// types.
func TestAPlanThatWritesAClassNamesItsPools(t *testing.T) {
	const inZoneB = `{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1b]}`
	class := func(name string, spec map[string]any) *unstructured.Unstructured {
		whole := map[string]any{
			"subnetSelectorTerms": []any{map[string]any{"id": "a"}}, "amiSelectorTerms": []any{map[string]any{"alias": "al2023@v1"}}, "role": "nodes",
		}
		maps.Copy(whole, spec)
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": name}, "spec": whole}}
	}
	subnets := func(id string) map[string]any {
		return map[string]any{"subnetSelectorTerms": []any{map[string]any{"id": id}}}
	}
	none := []string{"no instance type of us-east-1 meets NodePool/batch: it can launch no node"}
	batch := render.Ref{Kind: render.NodePool, Name: "batch"}
	for name, c := range map[string]struct {
		class    string
		spec     map[string]any
		action   plan.Action
		isNew    bool
		removals []plan.Candidate
		asked    int
		pools    []string
		words    []string
	}{
		"subnets in one zone":          {spec: subnets("c"), action: plan.Update, asked: 1, pools: []string{"batch"}, words: none},
		"it is held":                   {spec: subnets("c"), action: plan.Hold, asked: 1, pools: []string{"batch"}, words: none},
		"it is created for the pools":  {spec: subnets("c"), action: plan.Create, isNew: true, asked: 1, pools: []string{"batch"}, words: none},
		"the pool is removed":          {spec: subnets("c"), action: plan.Update, removals: []plan.Candidate{{Ref: batch}}, asked: 1},
		"the pool is orphaned":         {spec: subnets("c"), action: plan.Update, removals: []plan.Candidate{{Ref: batch, Orphan: true}}, asked: 1, pools: []string{"batch"}, words: none},
		"other subnets":                {spec: subnets("d"), action: plan.Update, asked: 1, words: []string{"unknown whether an instance type of us-east-1 meets NodePool/batch, NodePool/general: the zones of EC2NodeClass/default are unknown until Karpenter has resolved its subnets"}},
		"another AMI family":           {spec: map[string]any{"amiSelectorTerms": []any{map[string]any{"alias": "bottlerocket@latest"}}}, action: plan.Update, asked: 1},
		"kubelet":                      {spec: map[string]any{"kubelet": map[string]any{"maxPods": int64(20)}}, action: plan.Update, asked: 1},
		"a later AMI":                  {spec: map[string]any{"amiSelectorTerms": []any{map[string]any{"alias": "al2023@v2"}}}, action: plan.Update},
		"tags":                         {spec: map[string]any{"tags": map[string]any{"team": "web"}}, action: plan.Update},
		"no pool references the class": {class: "narrow", spec: subnets("d"), action: plan.Update},
		"nothing is written":           {spec: subnets("c"), action: plan.Drifted},
	} {
		t.Run(name, func(t *testing.T) {
			asked, f := 0, fixture{zone: inZoneB}
			s := f.simulator(t, nil, func() error { asked++; return nil })
			live := plan.Live{Objects: map[render.Ref]*plan.Object{}}
			for _, definition := range f.capture(t).Definitions {
				object := &unstructured.Unstructured{Object: definition}
				live.Objects[render.RefOf(object)] = plan.NewObject(object)
			}
			of := cmp.Or(c.class, "default")
			after := class(of, c.spec)
			change := plan.Change{Ref: render.Ref{Kind: render.EC2NodeClass, Name: of}, Action: c.action, Object: render.Object{Desired: after, Defaulted: after}}
			if !c.isNew {
				change.Live = class(of, nil)
			}
			pools, words := s.InstanceTypes(t.Context(), "us-east-1", &plan.Plan{Changes: []plan.Change{change}, Removals: c.removals}, live)
			if diff := gocmp.Diff(c.words, words); diff != "" || asked != c.asked || !slices.Equal(pools, c.pools) {
				t.Errorf("EC2 is asked %d times, no instance type meets %q (-want +got):\n%s", asked, pools, diff)
			}
		})
	}
}

// TestInstanceTypesOfAForkAreUnknown checks that EC2 is not queried for a fork.
func TestInstanceTypesOfAForkAreUnknown(t *testing.T) {
	ref := render.Ref{Kind: render.NodePool, Name: "web"}
	made := &plan.Plan{Changes: []plan.Change{{Ref: ref, Action: plan.Create}}}
	want := []string{"unknown whether an instance type of eu-west-1 meets NodePool/web: AWS is not asked"}
	pools, words := NotAsked("AWS is not asked")(t.Context(), "eu-west-1", made, plan.Live{})
	if diff := gocmp.Diff(want, words); diff != "" || pools != nil {
		t.Errorf("no instance type meets %q (-want +got):\n%s", pools, diff)
	}
	if _, words := NotAsked("AWS is not asked")(t.Context(), "eu-west-1", &plan.Plan{}, plan.Live{}); words != nil {
		t.Errorf("a plan that writes no NodePool: %q", words)
	}
}
