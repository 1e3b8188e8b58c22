package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/version"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan/planjson"
)

// Rules are the policies of a NodeSync, compiled. Nil has none.
type Rules struct {
	from []v1alpha1.Policy
	all  []rule
}

// rule is one policy.
type rule struct {
	v1alpha1.Policy
	scope scope
	holds cel.Program
	// message is nil if the policy has no messageExpression.
	message cel.Program
}

// scope is what an expression is asked for.
type scope int

const (
	ofPlan scope = iota
	ofChange
	ofRemoval
)

// Of reports whether the Rules are compiled from these policies.
func (r *Rules) Of(policies []v1alpha1.Policy) bool {
	return r != nil && slices.Equal(r.from, policies)
}

// Compile compiles policies. An error is an *InvalidError.
func Compile(policies []v1alpha1.Policy) (*Rules, error) {
	r := &Rules{from: slices.Clone(policies)}
	if len(policies) == 0 {
		return r, nil
	}
	envs, err := environments()
	if err != nil {
		return nil, fmt.Errorf("prepare CEL for spec.policies: %w", err)
	}
	for _, policy := range policies {
		compiled, err := envs.compile(policy)
		if err != nil {
			return nil, err
		}
		r.all = append(r.all, compiled)
	}
	return r, nil
}

// known are the environments of expressions: with all variables, and with those of each scope.
type known struct {
	all     *cel.Env
	byScope [3]*cel.Env
}

func environments() (*known, error) {
	whole, change, removal := variableOf[planjson.Plan]("plan"), variableOf[planjson.Change]("change"), variableOf[planjson.Removal]("removal")
	envs := &known{}
	for env, variables := range map[**cel.Env][]variable{
		&envs.all:                {whole, change, removal},
		&envs.byScope[ofPlan]:    {whole},
		&envs.byScope[ofChange]:  {whole, change},
		&envs.byScope[ofRemoval]: {whole, removal},
	} {
		options := environment.VersionedOptions{IntroducedVersion: version.MajorMinor(1, 0)}
		for _, v := range variables {
			options.DeclTypes = append(options.DeclTypes, v.shape)
			options.EnvOptions = append(options.EnvOptions, cel.Variable(v.name, v.shape.CelType()))
		}
		set, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Extend(options)
		if err != nil {
			return nil, err
		}
		if *env, err = set.Env(environment.NewExpressions); err != nil {
			return nil, err
		}
	}
	return envs, nil
}

// variable is one that expressions may know.
type variable struct {
	name  string
	shape *apiservercel.DeclType
}

func variableOf[T any](name string) variable { return variable{name, declare(reflect.TypeFor[T]())} }

func (k *known) compile(policy v1alpha1.Policy) (rule, error) {
	r := rule{Policy: policy}
	invalid := func(field, problem string) (rule, error) {
		return r, &InvalidError{Policy: policy.Name, Field: field, Problem: problem}
	}
	// One that does not compile is reported by what it could have known.
	if _, problem := compile(k.all, policy.Expression, cel.BoolType); problem != "" {
		return invalid("expression", problem)
	}
	ast := (*cel.Ast)(nil)
	for of, env := range k.byScope {
		var problem string
		if ast, problem = compile(env, policy.Expression, cel.BoolType); problem == "" {
			r.scope = scope(of)
			break
		}
	}
	if ast == nil {
		return invalid("expression", "it mentions both change and removal: write a policy for each")
	}
	env := k.byScope[r.scope]
	var err error
	if r.holds, err = program(env, ast); err != nil {
		return invalid("expression", err.Error())
	}
	if policy.MessageExpression == "" {
		return r, nil
	}
	said, problem := compile(env, policy.MessageExpression, cel.StringType)
	if problem != "" {
		return invalid("messageExpression", problem)
	}
	if r.message, err = program(env, said); err != nil {
		return invalid("messageExpression", err.Error())
	}
	return r, nil
}

// compile returns what is wrong with an expression; empty if nothing is.
func compile(env *cel.Env, expression string, want *cel.Type) (ast *cel.Ast, problem string) {
	ast, issues := env.Compile(expression)
	if issues != nil && len(issues.Errors()) > 0 {
		var found []string
		for _, one := range issues.Errors() {
			found = append(found, fmt.Sprintf("%d:%d: %s", one.Location.Line(), one.Location.Column()+1, strings.Join(strings.Fields(one.Message), " ")))
		}
		return nil, strings.Join(found, "; ")
	}
	// A field of a spec has no type before it is read: that it is a bool is seen then.
	if got := ast.OutputType(); !got.IsExactType(want) && !got.IsExactType(cel.DynType) {
		return nil, fmt.Sprintf("it is a %s, and must be a %s", got, want)
	}
	return ast, ""
}

func program(env *cel.Env, ast *cel.Ast) (cel.Program, error) {
	return env.Program(ast,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(budget),
		cel.CostTracking(&library.CostEstimator{}),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
}
