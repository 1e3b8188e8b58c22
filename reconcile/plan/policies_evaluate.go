package plan

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
)

// policyBudget limits the cost of all policies for one Plan, in Kubernetes' units: about a second. Reading one field of
// each of 10,000 nodes costs 60,000.
const policyBudget = 2 * celconfig.PerCallLimit

// PolicyHold is what a policy holds.
type PolicyHold struct {
	Policy  string
	Message string
	// Change and Removal are the index of the held object; both are nil if the whole Plan is held.
	Change, Removal *int
}

// appliesToChange reports whether policies are evaluated for a Change. Correcting an edit of another client brings
// nothing new; nor does reverting a removal without changes.
func appliesToChange(c *planjson.Change) bool { return !c.Drift && !c.Restores }

// appliesToRemoval reports whether policies are evaluated for a removal: if another client has deleted the object,
// nothing is left to decide.
func appliesToRemoval(r *planjson.Removal) bool { return !r.Terminating }

// policySubject is what one evaluation is about.
type policySubject struct {
	object          string
	change, removal *int
}

// Evaluate evaluates each policy for a Plan, and returns what is held. A Plan with nothing new violates no policy. An
// error is an *InvalidPolicyError or a *PolicyDeniedError, or that of the context.
func (r *CompiledPolicies) Evaluate(ctx context.Context, p *planjson.Plan) ([]PolicyHold, error) {
	j := &policyEvaluation{left: policyBudget}
	j.subjects[scopeChange], j.subjects[scopeRemoval] = changeSubjects(p), removalSubjects(p)
	if r == nil || len(r.all) == 0 || len(j.subjects[scopeChange])+len(j.subjects[scopeRemoval]) == 0 {
		return nil, nil
	}
	j.subjects[scopePlan] = []policySubject{{}}
	j.plan, _ = celValues(reflect.ValueOf(p).Elem()).(map[string]any)
	j.changes, _ = j.plan["changes"].([]any)
	j.removals, _ = j.plan["removals"].([]any)
	for i := range r.all {
		if err := j.evaluatePolicy(ctx, &r.all[i]); err != nil {
			return nil, err
		}
	}
	return j.holds, nil
}

// policyEvaluation holds the state while the policies of one Plan are evaluated.
type policyEvaluation struct {
	// plan is the whole Plan as CEL values, and changes and removals are parts of it.
	plan              map[string]any
	changes, removals []any

	subjects [3][]policySubject
	// left is the remaining cost budget.
	left  uint64
	holds []PolicyHold
}

// evaluatePolicy evaluates one policy.
func (j *policyEvaluation) evaluatePolicy(ctx context.Context, r *compiledPolicy) error {
	var denied *PolicyDeniedError
	for _, s := range j.subjects[r.scope] {
		ok, err := j.evaluate(ctx, r, s)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && r.Action == v1alpha1.PolicyDeny:
			return &InvalidPolicyError{Policy: r.Name, Object: s.object, Problem: err.Error()}
		case err != nil:
			j.hold(r, s, fmt.Sprintf("it cannot be evaluated%s: %v", forObject(s.object), err))
		case ok:
		case r.Action == v1alpha1.PolicyHold:
			j.hold(r, s, j.message(ctx, r, s))
		case denied == nil:
			denied = &PolicyDeniedError{Policy: r.Name, Object: s.object, Message: j.message(ctx, r, s)}
		default:
			denied.More++
		}
	}
	if denied != nil {
		return denied
	}
	return nil
}

func (j *policyEvaluation) hold(r *compiledPolicy, s policySubject, message string) {
	j.holds = append(j.holds, PolicyHold{
		Policy: r.Name, Change: s.change, Removal: s.removal,
		Message: fmt.Sprintf("policy %s: %s: change the commit, or spec.policies of the NodeSync", r.Name, message),
	})
}

// evaluate reports whether a policy is true for a subject.
func (j *policyEvaluation) evaluate(ctx context.Context, r *compiledPolicy, s policySubject) (bool, error) {
	value, err := j.run(ctx, r.holds, s)
	if err != nil {
		return false, err
	}
	ok, isBool := value.(bool)
	if !isBool {
		return false, fmt.Errorf("it is a %T, but must be a bool", value)
	}
	return ok, nil
}

// message returns the message of a policy for a subject.
func (j *policyEvaluation) message(ctx context.Context, r *compiledPolicy, s policySubject) string {
	if r.message != nil {
		if value, err := j.run(ctx, r.message, s); err == nil {
			if text, isText := value.(string); isText && strings.TrimSpace(text) != "" {
				return oneLine(text)
			}
		}
	}
	if strings.TrimSpace(r.Message) != "" {
		return oneLine(r.Message)
	}
	return "it is false: " + oneLine(r.Expression)
}

var errPolicyBudget = errors.New("the CEL cost budget is exceeded for this plan: use fewer nested list operations in spec.policies")

// run evaluates a program, and subtracts its cost from the budget.
func (j *policyEvaluation) run(ctx context.Context, program cel.Program, s policySubject) (any, error) {
	known := map[string]any{"plan": j.plan}
	if s.change != nil {
		known["change"] = j.changes[*s.change]
	}
	if s.removal != nil {
		known["removal"] = j.removals[*s.removal]
	}
	value, details, err := program.ContextEval(ctx, known)
	cost := uint64(policyBudget)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	if cost >= j.left {
		j.left = 0
		return nil, errPolicyBudget
	}
	j.left -= cost
	switch {
	case err != nil:
		return nil, errors.New(oneLine(err.Error()))
	case types.IsError(value):
		return nil, fmt.Errorf("%v", value)
	}
	return value.Value(), nil
}

func changeSubjects(p *planjson.Plan) []policySubject {
	var found []policySubject
	for i := range p.Changes {
		if appliesToChange(&p.Changes[i]) {
			found = append(found, policySubject{object: p.Changes[i].Object, change: &i})
		}
	}
	return found
}

func removalSubjects(p *planjson.Plan) []policySubject {
	var found []policySubject
	for i := range p.Removals {
		if appliesToRemoval(&p.Removals[i]) {
			found = append(found, policySubject{object: p.Removals[i].Object, removal: &i})
		}
	}
	return found
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
