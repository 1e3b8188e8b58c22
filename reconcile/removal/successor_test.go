package removal

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/render"
)

// growingPool is a NodePool of Git that could take the pods of another.
func growingPool(name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": render.NodePool,
		"spec":   map[string]any{"limits": map[string]any{"cpu": "100"}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}, "resources": map[string]any{"cpu": "99"}},
	}}
	u.SetName(name)
	return u
}

// TestSuccessorGate: a pool goes while another one could take its pods.
func TestSuccessorGate(t *testing.T) {
	set := func(path []string, value any) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		change  func(*unstructured.Unstructured)
		missing bool
		failing bool
		none    bool
		allowed bool
		want    string
	}{
		"it could":                             {},
		"it is not there":                      {missing: true, want: "NodePool/new is not in the cluster"},
		"it is not Ready":                      {change: set([]string{"status", "conditions"}, []any{}), want: "NodePool/new is not Ready"},
		"it is terminating":                    {change: func(u *unstructured.Unstructured) { now := metav1.Now(); u.SetDeletionTimestamp(&now) }, want: "NodePool/new is not Ready"},
		"it has no limits":                     {change: set([]string{"spec", "limits"}, map[string]any{})},
		"its limit is 0":                       {change: set([]string{"spec", "limits", "cpu"}, "0"), want: "NodePool/new may not grow"},
		"it is full":                           {change: set([]string{"status", "resources", "cpu"}, "100"), want: "NodePool/new has reached its limit of cpu"},
		"it is static":                         {change: set([]string{"spec", "replicas"}, int64(3)), want: "NodePool/new may not grow"},
		"it gets no nodes":                     {failing: true, want: "NodePool/new fails to launch nodes"},
		"Git has no other":                     {none: true, want: "Git has no NodePool that could take the pods"},
		"Git has no other, and none is wanted": {none: true, allowed: true},
		"none is wanted, and there is one":     {failing: true, allowed: true, want: "NodePool/new fails to launch nodes"},
		"none is wanted where none could":      {change: set([]string{"spec", "replicas"}, int64(3)), allowed: true},
		"none is wanted, and it is not Ready":  {change: set([]string{"status", "conditions"}, []any{}), allowed: true, want: "NodePool/new is not Ready"},
		"a class needs none":                   {none: true, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			s.Sync.Spec.Guard.AllowLastPool = c.allowed
			if pool := growingPool("new"); !c.none {
				if c.change != nil {
					c.change(pool)
				}
				ref := render.Ref{Kind: render.NodePool, Name: "new"}
				s.Set.Objects = []render.Object{{Ref: ref, Desired: pool}}
				if !c.missing {
					s.Live.Objects[ref], s.Ready[ref] = pool, observe.Ready(pool)
				}
			}
			if c.failing {
				claim := &karpv1.NodeClaim{}
				claim.Name, claim.Labels = "new-1", map[string]string{karpv1.NodePoolLabelKey: "new"}
				now := metav1.Now()
				claim.DeletionTimestamp = &now
				s.Launches.See(claim)
			}
			kind := render.NodePool
			if name == "a class needs none" {
				kind = render.EC2NodeClass
			}
			gate := s.successorGate(v1alpha1.Removal{Kind: kind, Name: "old"})
			if gate.Open != (c.want == "") || !strings.Contains(gate.Message, c.want) {
				t.Errorf("gate %+v, want %q", gate, c.want)
			}
		})
	}
}
