package plan_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// TestWhatDoesNotCompile: the error contains the policy, the field and the position.
func TestWhatDoesNotCompile(t *testing.T) {
	for name, c := range map[string]struct{ expression, message, want string }{
		"no CEL":              {expression: "plan.", want: "policy p: expression does not compile: 1:6: Syntax error"},
		"a misspelt field":    {expression: "size(plan.chnages) == 0", want: "expression does not compile: 1:10: undefined field 'chnages'"},
		"a misspelt variable": {expression: "plan.cluster == 'a' && chnage.nodes == 0", want: "undeclared reference to 'chnage'"},
		"another type":        {expression: "plan.totals.nodes > '5'", want: "found no matching overload"},
		"not a bool":          {expression: "plan.totals.nodes", want: "it is a int, but must be a bool"},
		"change and removal":  {expression: "change.nodes < removal.nodes", want: "it uses both change and removal: write one policy for each"},
		"a wrong message":     {expression: "plan.cluster == ''", message: "plan.cluster + 1", want: "messageExpression does not compile"},
		"no text as message":  {expression: "plan.cluster == ''", message: "plan.totals.nodes", want: "messageExpression does not compile: it is a int, but must be a string"},
		"a message of more":   {expression: "plan.cluster == ''", message: "change.name", want: "undeclared reference to 'change'"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plan.CompilePolicies([]v1alpha1.Policy{{Name: "p", Expression: c.expression, MessageExpression: c.message, Action: v1alpha1.PolicyHold}})
			var invalid *plan.InvalidPolicyError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "nothing is written or removed until spec.policies") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestCompiledOnce: Of is true for the same policies, and false for others.
func TestCompiledOnce(t *testing.T) {
	policies := []v1alpha1.Policy{{Name: "p", Expression: "plan.cluster == ''", Action: v1alpha1.PolicyHold}}
	r := compile(t, policies...)
	policies[0].Action = v1alpha1.PolicyDeny
	if r.Of(policies) || (*plan.CompiledPolicies)(nil).Of(nil) {
		t.Error("others count as compiled")
	}
	policies[0].Action = v1alpha1.PolicyHold
	if !r.Of(policies) {
		t.Error("the same ones do not")
	}
}
