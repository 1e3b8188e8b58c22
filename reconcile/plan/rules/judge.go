package rules

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

// budget is what all policies over one Plan may cost, in Kubernetes' units: about a second. To look at
// one field of each of 10,000 nodes costs 60,000.
const budget = 2 * celconfig.PerCallLimit

// Hold is what a policy holds.
type Hold struct {
	Policy  string
	Message string
	// Change and Removal are the index of what it holds; both nil if that is all of the Plan.
	Change, Removal *int
}

// Asked reports whether policies are asked about a Change. To correct what another client changed
// brings nothing new; nor does what is taken back from a removal as it was.
func Asked(c *planjson.Change) bool { return !c.Drift && !c.Restores }

// asked reports whether they are asked about a removal: of what another client has deleted nothing is
// left to decide.
func asked(r *planjson.Removal) bool { return !r.Terminating }

// subject is what one evaluation is about.
type subject struct {
	object          string
	change, removal *int
}

// Judge asks each policy about a Plan, and returns what is held. A Plan that has nothing new breaks
// no policy. An error is an *InvalidError or a *DeniedError, or that of the context.
func (r *Rules) Judge(ctx context.Context, p *planjson.Plan) ([]Hold, error) {
	j := &judge{left: budget}
	j.subjects[ofChange], j.subjects[ofRemoval] = changesOf(p), removalsOf(p)
	if r == nil || len(r.all) == 0 || len(j.subjects[ofChange])+len(j.subjects[ofRemoval]) == 0 {
		return nil, nil
	}
	j.subjects[ofPlan] = []subject{{}}
	j.plan, _ = values(reflect.ValueOf(p).Elem()).(map[string]any)
	j.changes, _ = j.plan["changes"].([]any)
	j.removals, _ = j.plan["removals"].([]any)
	for i := range r.all {
		if err := j.ask(ctx, &r.all[i]); err != nil {
			return nil, err
		}
	}
	return j.holds, nil
}

// judge is what the asking about one Plan carries along.
type judge struct {
	// plan is the whole as CEL reads it, and changes and removals are parts of it.
	plan              map[string]any
	changes, removals []any

	subjects [3][]subject
	// left is what the evaluations may cost yet.
	left  uint64
	holds []Hold
}

// ask asks one policy.
func (j *judge) ask(ctx context.Context, r *rule) error {
	var denied *DeniedError
	for _, s := range j.subjects[r.scope] {
		ok, err := j.evaluate(ctx, r, s)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && r.Action == v1alpha1.PolicyDeny:
			return &InvalidError{Policy: r.Name, Object: s.object, Problem: err.Error()}
		case err != nil:
			j.hold(r, s, fmt.Sprintf("it cannot be evaluated%s: %v", of(s.object), err))
		case ok:
		case r.Action == v1alpha1.PolicyHold:
			j.hold(r, s, j.message(ctx, r, s))
		case denied == nil:
			denied = &DeniedError{Policy: r.Name, Object: s.object, Message: j.message(ctx, r, s)}
		default:
			denied.More++
		}
	}
	if denied != nil {
		return denied
	}
	return nil
}

func (j *judge) hold(r *rule, s subject, message string) {
	j.holds = append(j.holds, Hold{
		Policy: r.Name, Change: s.change, Removal: s.removal,
		Message: fmt.Sprintf("policy %s: %s: change the commit, or spec.policies of the NodeSync", r.Name, message),
	})
}

// evaluate reports whether a policy is true for a subject.
func (j *judge) evaluate(ctx context.Context, r *rule, s subject) (bool, error) {
	value, err := j.run(ctx, r.holds, s)
	if err != nil {
		return false, err
	}
	ok, isBool := value.(bool)
	if !isBool {
		return false, fmt.Errorf("it is a %T, and must be a bool", value)
	}
	return ok, nil
}

// message is what a policy says of a subject.
func (j *judge) message(ctx context.Context, r *rule, s subject) string {
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

var errBudget = errors.New("the policies cost too much over this plan: have them look at fewer lists within lists")

// run evaluates a program, and pays for it.
func (j *judge) run(ctx context.Context, program cel.Program, s subject) (any, error) {
	known := map[string]any{"plan": j.plan}
	if s.change != nil {
		known["change"] = j.changes[*s.change]
	}
	if s.removal != nil {
		known["removal"] = j.removals[*s.removal]
	}
	value, details, err := program.ContextEval(ctx, known)
	cost := uint64(budget)
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	if cost >= j.left {
		j.left = 0
		return nil, errBudget
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

func changesOf(p *planjson.Plan) []subject {
	var found []subject
	for i := range p.Changes {
		if Asked(&p.Changes[i]) {
			found = append(found, subject{object: p.Changes[i].Object, change: &i})
		}
	}
	return found
}

func removalsOf(p *planjson.Plan) []subject {
	var found []subject
	for i := range p.Removals {
		if asked(&p.Removals[i]) {
			found = append(found, subject{object: p.Removals[i].Object, removal: &i})
		}
	}
	return found
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
