package removal

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
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
		// approved says that people have approved that it is the last one.
		approved bool
		want     string
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
		"no node of it registers":              {change: set([]string{"status", "conditions"}, []any{map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "NodeRegistrationHealthy", "status": "False"}}), want: "NodePool/new has nodes that do not register"},
		"Git has no other":                     {none: true, want: "Git has no NodePool that could take the pods"},
		"Git has no other, and none is wanted": {none: true, allowed: true},
		"Git has no other, as was approved":    {none: true, approved: true},
		"as was approved, and there is one":    {failing: true, approved: true, want: "NodePool/new fails to launch nodes"},
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
					living := plan.NewObject(pool)
					s.Live.Objects[ref], s.Ready[ref] = living, observe.Ready(living)
				}
			}
			if c.failing {
				claim := &karpv1.NodeClaim{}
				claim.Name, claim.Labels = "new-1", map[string]string{karpv1.NodePoolLabelKey: "new"}
				now := metav1.Now()
				claim.DeletionTimestamp = &now
				s.Nodes.Launches.See(claim)
			}
			kind := render.NodePool
			if name == "a class needs none" {
				kind = render.EC2NodeClass
			}
			gate := s.successorGate()(v1alpha1.Removal{Kind: kind, Name: "old", LastPool: c.approved})
			if gate.Open != (c.want == "") || !strings.Contains(gate.Message, c.want) {
				t.Errorf("gate %+v, want %q", gate, c.want)
			}
		})
	}
}

// TestASuccessorWhoseNodesDoNotRegister: its instances run, and no pod does.
func TestASuccessorWhoseNodesDoNotRegister(t *testing.T) {
	claim := func(name string, age time.Duration, node string) plan.NodeClaim {
		return plan.NodeClaim{Name: name, Pool: "new", ProviderID: "aws:///a/i-" + name, Node: node, Created: now.Add(-age)}
	}
	launching := claim("a", time.Hour, "")
	launching.ProviderID = ""
	for name, c := range map[string]struct {
		claims []plan.NodeClaim
		want   string
	}{
		"one is young":              {claims: []plan.NodeClaim{claim("a", 4*time.Minute, "")}},
		"one has no instance yet":   {claims: []plan.NodeClaim{launching}},
		"the newest is late":        {claims: []plan.NodeClaim{claim("a", time.Hour, "a"), claim("b", 5*time.Minute, "")}, want: "NodePool/new has nodes that do not register: NodeClaim/b"},
		"a newer one has":           {claims: []plan.NodeClaim{claim("b", 5*time.Minute, "b"), claim("a", time.Hour, "")}},
		"two are late":              {claims: []plan.NodeClaim{claim("b", 6*time.Minute, ""), claim("a", time.Hour, "")}, want: "NodeClaim/a"},
		"it is of another NodePool": {claims: []plan.NodeClaim{{Name: "a", Pool: "old", ProviderID: "1", Created: now.Add(-time.Hour)}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			pool, ref := growingPool("new"), render.Ref{Kind: render.NodePool, Name: "new"}
			s.Set.Objects = []render.Object{{Ref: ref, Desired: pool}}
			s.Live.Objects[ref], s.Ready[ref], s.Live.NodeClaims = plan.NewObject(pool), observe.Ready(plan.NewObject(pool)), c.claims
			gate := s.successorGate()(v1alpha1.Removal{Kind: render.NodePool, Name: "old"})
			if gate.Open != (c.want == "") || !strings.Contains(gate.Message, c.want) {
				t.Errorf("gate %+v, want %q", gate, c.want)
			}
		})
	}
}

// TestTheRoomOfSuccessors is that of all together, and has no bound where one of them has none.
func TestTheRoomOfSuccessors(t *testing.T) {
	for name, c := range map[string]struct {
		limits []map[string]any
		want   string
	}{
		"one":                        {[]map[string]any{{"cpu": "100", "memory": "10Gi"}}, "NodePool/new-0 has: 5 cpu, 10Gi memory"},
		"two":                        {[]map[string]any{{"cpu": "100"}, {"cpu": "200"}}, "the NodePools of Git together have: 110 cpu, - memory"},
		"two, by different limits":   {[]map[string]any{{"cpu": "100"}, {"memory": "10Gi"}}, ""},
		"one of two without a limit": {[]map[string]any{{"cpu": "100"}, {}}, ""},
		"one of two is full":         {[]map[string]any{{"cpu": "95"}, {"cpu": "200"}}, "NodePool/new-1 has: 105 cpu, - memory"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			for i, limits := range c.limits {
				pool, ref := growingPool(fmt.Sprint("new-", i)), render.Ref{Kind: render.NodePool, Name: fmt.Sprint("new-", i)}
				pool.Object["spec"] = map[string]any{"limits": limits}
				pool.Object["status"].(map[string]any)["resources"] = map[string]any{"cpu": "95"}
				s.Set.Objects = append(s.Set.Objects, render.Object{Ref: ref, Desired: pool})
				s.Live.Objects[ref], s.Ready[ref] = plan.NewObject(pool), observe.Ready(plan.NewObject(pool))
			}
			gate, got := s.successorGate()(v1alpha1.Removal{Kind: render.NodePool, Name: "old"}), ""
			if room := gate.Room; room != nil {
				of := func(name corev1.ResourceName) string {
					if quantity, limited := room.Left[name]; limited {
						return quantity.String()
					}
					return "-"
				}
				got = fmt.Sprintf("%s: %s cpu, %s memory", room.Pools, of(corev1.ResourceCPU), of(corev1.ResourceMemory))
			}
			if !gate.Open || got != c.want {
				t.Errorf("open %t, room %q, want %q", gate.Open, got, c.want)
			}
		})
	}
}

// TestAPoolWaitsForWhereItsPodsGo, as long as that is asked, and no removal that has begun.
func TestAPoolWaitsForWhereItsPodsGo(t *testing.T) {
	r := v1alpha1.Removal{Kind: render.NodePool, Name: "old", UID: "old"}
	for name, c := range map[string]struct {
		of    plan.Candidate
		asks  bool
		waits bool
	}{
		"it is asked":     {plan.Candidate{UID: "old"}, true, true},
		"it was answered": {plan.Candidate{UID: "old"}, false, false},
		"of another pool": {plan.Candidate{UID: "other"}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBed(t).step()
			pool := growingPool("new")
			ref := render.Ref{Kind: render.NodePool, Name: "new"}
			s.Set.Objects = []render.Object{{Ref: ref, Desired: pool}}
			s.Live.Objects[ref] = plan.NewObject(pool)
			s.Ready[ref] = observe.Ready(s.Live.Objects[ref])
			s.Plan = &plan.Plan{Removals: []plan.Candidate{c.of}, Landing: plan.Landing{Asking: c.asks}}
			if gate := s.successorGate()(r); gate.Open == c.waits {
				t.Errorf("%+v", gate)
			}
		})
	}
}
