package plan_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// governed returns a cluster with three pools of two nodes each, and a policy.
func governed(t *testing.T, action v1alpha1.PolicyAction, expression string) *drawnCluster {
	t.Helper()
	c := newCluster(t)
	c.have(t, owner, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
	for _, of := range []string{"a", "b", "c"} {
		for i := range 2 {
			name := fmt.Sprintf("%s-%d", of, i)
			c.live.NodeClaims = append(c.live.NodeClaims, plan.NodeClaim{Name: name, UID: types.UID(name), Pool: of, Class: "default"})
		}
	}
	c.policy.Policies = []v1alpha1.Policy{{Name: "p", Expression: expression, Message: "not so", Action: action}}
	return c
}

func taints(of string) string {
	return strings.Replace(pool(of, "default"), "requirements:", "taints: [{key: x, effect: NoSchedule}]\n      requirements:", 1)
}

func TestAPolicyHolds(t *testing.T) {
	for name, c := range map[string]struct {
		expression string
		git        []string
		want       []string
	}{
		"the change that it was asked for": {
			"change.name != 'b'",
			[]string{class("default"), taints("a"), taints("b"), pool("c", "default")},
			[]string{"Update NodePool/a Differs", "Hold NodePool/b Policy"},
		},
		"the removal that it was asked for, and the guard weighs without it": {
			"removal.name != 'b'",
			[]string{class("default"), taints("c")},
			[]string{"Update NodePool/c Differs", "Remove NodePool/a", "Hold NodePool/b MaxDisruptedNodes"},
		},
		"all of the plan": {
			"plan.totals.disruptedNodes < 2",
			[]string{class("default"), taints("a"), pool("b", "default"), pool("new", "default")},
			[]string{"Hold NodePool/a Policy", "Hold NodePool/new Policy", "Hold NodePool/c Policy"},
		},
		"a class, and with it the pool that names it": {
			"change.kind != 'EC2NodeClass'",
			[]string{class("default"), class("new"), pool("a", "new"), pool("b", "default"), pool("c", "default"), pool("d", "new")},
			[]string{"Hold EC2NodeClass/new Policy", "Wait NodePool/a ClassNotMade on EC2NodeClass/new", "Wait NodePool/d ClassNotMade on EC2NodeClass/new"},
		},
		"nothing where it is true": {
			"change.spec.template.spec.taints.all(t, t.key == 'x')",
			[]string{class("default"), taints("a"), pool("b", "default"), pool("c", "default")},
			[]string{"Update NodePool/a Differs"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := governed(t, v1alpha1.PolicyHold, c.expression)
			pools, nodes := int32(2), intstr.FromInt32(4)
			cluster.policy.Guard = v1alpha1.Guard{MaxRemovedPools: &pools, MaxDisruptedNodes: &nodes}
			p := cluster.plan(t, c.git...)
			var got []string
			for _, line := range script(p) {
				words := strings.Fields(line)
				if i := strings.Index(line, " on "); i >= 0 {
					got = append(got, strings.Join(words[:3], " ")+line[i:])
				} else {
					got = append(got, strings.Join(words[:min(3, len(words))], " "))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for i := range p.Changes {
				if change := &p.Changes[i]; change.Action == plan.Hold && !strings.HasPrefix(change.Message, "policy p: not so: change the commit, or spec.policies") {
					t.Errorf("%s: %s", change.Ref, change.Message)
				}
			}
		})
	}
}

// TestAPolicyHoldsRemovalsThatHaveNotBegun: a removal that was recorded before is held, but not one that has terminated
// a node.
func TestAPolicyHoldsRemovalsThatHaveNotBegun(t *testing.T) {
	for phase, want := range map[v1alpha1.RemovalPhase][]string{
		v1alpha1.RemovalPacing:   {"Hold NodePool/b Policy"},
		v1alpha1.RemovalHeld:     {"Hold NodePool/b Policy"},
		v1alpha1.RemovalDraining: {},
	} {
		c := governed(t, v1alpha1.PolicyHold, "plan.nodeSync == ''")
		c.removal(poolRef("b"), phase, "main@sha1:old")
		if diff := cmp.Diff(want, script(c.plan(t, class("default"), pool("a", "default"), pool("c", "default")))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", phase, diff)
		}
	}
}

// TestAPolicyLeavesWhatIsNotNew: drift is corrected and removals are reverted, whatever a policy says; and policies are
// not evaluated if a NodeSync is deleted.
func TestAPolicyLeavesWhatIsNotNew(t *testing.T) {
	for _, action := range []v1alpha1.PolicyAction{v1alpha1.PolicyHold, v1alpha1.PolicyDeny} {
		c := governed(t, action, "plan.nodeSync == ''")
		c.policy.NewRevision = false
		c.edit(t, poolRef("a"), "kubectl-edit", "5", "spec", "limits", "cpu")
		c.removal(poolRef("b"), v1alpha1.RemovalDraining, "main@sha1:old")
		p := c.plan(t, class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default"))
		if len(p.Changes) != 2 || p.Changes[0].Action != plan.Update || p.Changes[1].Action != plan.TakeBack {
			t.Errorf("%s: %v", action, script(p))
		}
		c = governed(t, action, "plan.nodeSync == ''")
		c.policy.Deleting = true
		for _, line := range script(c.plan(t)) {
			if strings.HasPrefix(line, "Hold") {
				t.Errorf("%s, deleting: %s", action, line)
			}
		}
	}
}

// TestAPolicyIsAskedAboutWhatComesBackChanged: removing an object and adding it back with changes does not bypass a
// policy.
func TestAPolicyIsAskedAboutWhatComesBackChanged(t *testing.T) {
	for _, phase := range []v1alpha1.RemovalPhase{v1alpha1.RemovalHeld, v1alpha1.RemovalPacing, v1alpha1.RemovalDraining} {
		c := governed(t, v1alpha1.PolicyHold, "change.name != 'b'")
		c.removal(poolRef("b"), phase, "main@sha1:old")
		p := c.plan(t, class("default"), pool("a", "default"), taints("b"), pool("c", "default"))
		if len(p.Changes) != 1 || p.Changes[0].Action != plan.Hold || p.Changes[0].Reason != plan.ReasonPolicy {
			t.Errorf("%s: %v", phase, script(p))
		}
	}
}

// TestAPolicyIsAskedAboutWhatComesBackWithOtherLabels: this holds for labels and annotations, too, which policies read.
// Those that other clients have added do not count.
func TestAPolicyIsAskedAboutWhatComesBackWithOtherLabels(t *testing.T) {
	with := func(metadata string) string {
		return strings.Replace(pool("b", "default"), "{name: b}", "{name: b, "+metadata+"}", 1)
	}
	for name, test := range map[string]struct {
		was, comes string
		asks       bool
	}{
		"as it was":                 {was: pool("b", "default"), comes: pool("b", "default")},
		"with the same":             {was: with("labels: {team: a}, annotations: {note: x}"), comes: with("labels: {team: a}, annotations: {note: x}")},
		"with another label":        {was: with("labels: {team: a}"), comes: with("labels: {team: b}"), asks: true},
		"with a label":              {was: pool("b", "default"), comes: with("labels: {team: b}"), asks: true},
		"without its label":         {was: with("labels: {team: a}"), comes: pool("b", "default"), asks: true},
		"with another annotation":   {was: with("annotations: {note: x}"), comes: with("annotations: {note: y1}"), asks: true},
		"with it as the other kind": {was: with("annotations: {note: x}"), comes: with("labels: {note: x}"), asks: true},
	} {
		for _, action := range []v1alpha1.PolicyAction{v1alpha1.PolicyHold, v1alpha1.PolicyDeny} {
			t.Run(name+", "+string(action), func(t *testing.T) {
				c := governed(t, action, "change.name != 'b'")
				c.have(t, owner, test.was)
				c.Edit(t, poolRef("b"), "karpenter", func(o *unstructured.Unstructured) {
					annotations := maps.Clone(o.GetAnnotations())
					if annotations == nil {
						annotations = map[string]string{}
					}
					annotations["example.com/seen"] = "1"
					o.SetAnnotations(annotations)
				})
				c.removal(poolRef("b"), v1alpha1.RemovalPacing, "main@sha1:old")
				live := c.live
				live.Objects = plan.NewObjects(c.Objects())
				p, err := plan.Make(t.Context(), c.set(t, class("default"), pool("a", "default"), test.comes, pool("c", "default")), live, c.policy, c)
				if err != nil {
					t.Fatal(err)
				}
				if len(p.Changes) != 1 {
					t.Fatal(script(p))
				}
				held := p.Changes[0].Action == plan.Hold
				if action == v1alpha1.PolicyDeny {
					held = p.Refused != nil
				}
				if held != test.asks || p.Changes[0].Restores == test.asks {
					t.Errorf("%v, refused: %v", script(p), p.Refused)
				}
			})
		}
	}
}

// TestNoPlan: there is no plan if a policy denies it, does not compile, or a Deny cannot be evaluated; if one does not
// compile, even without changes.
func TestNoPlan(t *testing.T) {
	for name, c := range map[string]struct {
		action     v1alpha1.PolicyAction
		expression string
		git        []string
		want       any
	}{
		"denied":              {v1alpha1.PolicyDeny, "change.name != 'a'", []string{class("default"), taints("a"), pool("b", "default"), pool("c", "default")}, new(*plan.PolicyDeniedError)},
		"denied for a wait":   {v1alpha1.PolicyDeny, "change.name != 'd'", []string{class("default"), class("bad-class"), pool("a", "default"), pool("b", "default"), pool("c", "default"), pool("d", "bad-class")}, new(*plan.PolicyDeniedError)},
		"not compiled":        {v1alpha1.PolicyHold, "change.nme != 'a'", []string{class("default"), pool("a", "default"), pool("b", "default"), pool("c", "default")}, new(*plan.InvalidPolicyError)},
		"not to be evaluated": {v1alpha1.PolicyDeny, "change.spec.nothing > 1", []string{class("default"), taints("a"), pool("b", "default"), pool("c", "default")}, new(*plan.InvalidPolicyError)},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := governed(t, c.action, c.expression)
			live := cluster.live
			live.Objects = plan.NewObjects(cluster.Objects())
			p, err := plan.Make(t.Context(), cluster.set(t, c.git...), live, cluster.policy, cluster)
			if p != nil {
				err = p.Refused
			}
			if !errors.As(err, c.want) {
				t.Errorf("%v, want a %T", err, c.want)
			}
		})
	}
}

// TestApprovedUnderAPolicyAfterTheGuard: a change that was approved for the guard, and that a policy holds since,
// proceeds once that is approved, too, in either order.
func TestApprovedUnderAPolicyAfterTheGuard(t *testing.T) {
	c := governed(t, v1alpha1.PolicyHold, "change.name != 'b'")
	git := []string{class("default"), pool("a", "default"), taints("b"), pool("c", "default")}
	held := c.plan(t, git...)
	approved := func(digest string, policies ...string) v1alpha1.ApprovedPlan {
		one := held.Approvable.Entries[0]
		one.Policies = policies
		return v1alpha1.ApprovedPlan{Digest: digest, WeighedBy: held.Approvable.WeighedBy, Entries: []v1alpha1.ApprovedEntry{one}}
	}
	guard, policy := approved("sha256:1"), approved("sha256:2", held.Approvable.Entries[0].Policies...)
	for name, test := range map[string]struct {
		approved []v1alpha1.ApprovedPlan
		want     string
	}{
		"for the guard only": {[]v1alpha1.ApprovedPlan{guard}, "Hold NodePool/b Policy"},
		"for another":        {[]v1alpha1.ApprovedPlan{approved("sha256:2", "another")}, "Hold NodePool/b Policy"},
		"for both":           {[]v1alpha1.ApprovedPlan{guard, policy}, "Update NodePool/b Differs"},
		"the other way":      {[]v1alpha1.ApprovedPlan{policy, guard}, "Update NodePool/b Differs"},
	} {
		c.policy.Approved = test.approved
		if got := script(c.plan(t, git...)); len(got) != 1 || !strings.HasPrefix(got[0], test.want) {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
	}
}
