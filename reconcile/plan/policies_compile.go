package plan

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

// CompiledPolicies are the compiled policies of a NodeSync. Nil has none.
type CompiledPolicies struct {
	from []v1alpha1.Policy
	all  []compiledPolicy
}

// compiledPolicy is one policy.
type compiledPolicy struct {
	v1alpha1.Policy
	scope policyScope
	holds cel.Program
	// message is nil if the policy has no messageExpression.
	message cel.Program
}

// policyScope is what an expression is evaluated for.
type policyScope int

const (
	scopePlan policyScope = iota
	scopeChange
	scopeRemoval
)

// Of reports whether these policies were compiled.
func (r *CompiledPolicies) Of(policies []v1alpha1.Policy) bool {
	return r != nil && slices.Equal(r.from, policies)
}

// CompilePolicies compiles policies. An error is an *InvalidPolicyError.
func CompilePolicies(policies []v1alpha1.Policy) (*CompiledPolicies, error) {
	r := &CompiledPolicies{from: slices.Clone(policies)}
	if len(policies) == 0 {
		return r, nil
	}
	envs, err := newPolicyEnvironments()
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

// policyEnvironments are the CEL environments: with all variables, and with those of each scope.
type policyEnvironments struct {
	all     *cel.Env
	byScope [3]*cel.Env
}

func newPolicyEnvironments() (*policyEnvironments, error) {
	whole, change, removal := celVariableOf[planjson.Plan]("plan"), celVariableOf[planjson.Change]("change"), celVariableOf[planjson.Removal]("removal")
	envs := &policyEnvironments{}
	for env, variables := range map[**cel.Env][]celVariable{
		&envs.all:                   {whole, change, removal},
		&envs.byScope[scopePlan]:    {whole},
		&envs.byScope[scopeChange]:  {whole, change},
		&envs.byScope[scopeRemoval]: {whole, removal},
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

// celVariable is a variable of an expression.
type celVariable struct {
	name  string
	shape *apiservercel.DeclType
}

func celVariableOf[T any](name string) celVariable {
	return celVariable{name, declareType(reflect.TypeFor[T]())}
}

func (k *policyEnvironments) compile(policy v1alpha1.Policy) (compiledPolicy, error) {
	r := compiledPolicy{Policy: policy}
	invalid := func(field, problem string) (compiledPolicy, error) {
		return r, &InvalidPolicyError{Policy: policy.Name, Field: field, Problem: problem}
	}
	// Compile with all variables first, for the best error message.
	if _, problem := compileExpression(k.all, policy.Expression, cel.BoolType); problem != "" {
		return invalid("expression", problem)
	}
	ast := (*cel.Ast)(nil)
	for of, env := range k.byScope {
		var problem string
		if ast, problem = compileExpression(env, policy.Expression, cel.BoolType); problem == "" {
			r.scope = policyScope(of)
			break
		}
	}
	if ast == nil {
		return invalid("expression", "it uses both change and removal: write one policy for each")
	}
	env := k.byScope[r.scope]
	var err error
	if r.holds, err = newProgram(env, ast); err != nil {
		return invalid("expression", err.Error())
	}
	if policy.MessageExpression == "" {
		return r, nil
	}
	said, problem := compileExpression(env, policy.MessageExpression, cel.StringType)
	if problem != "" {
		return invalid("messageExpression", problem)
	}
	if r.message, err = newProgram(env, said); err != nil {
		return invalid("messageExpression", err.Error())
	}
	return r, nil
}

// compileExpression returns the problem with an expression; empty if there is none.
func compileExpression(env *cel.Env, expression string, want *cel.Type) (ast *cel.Ast, problem string) {
	ast, issues := env.Compile(expression)
	if issues != nil && len(issues.Errors()) > 0 {
		var found []string
		for _, one := range issues.Errors() {
			found = append(found,
				fmt.Sprintf("%d:%d: %s", one.Location.Line(), one.Location.Column()+1, strings.Join(strings.Fields(one.Message), " ")))
		}
		return nil, strings.Join(found, "; ")
	}
	// A field of a spec is dynamically typed: its type is checked at evaluation.
	if got := ast.OutputType(); !got.IsExactType(want) && !got.IsExactType(cel.DynType) {
		return nil, fmt.Sprintf("it is a %s, but must be a %s", got, want)
	}
	return ast, ""
}

func newProgram(env *cel.Env, ast *cel.Ast) (cel.Program, error) {
	return env.Program(ast,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(policyBudget),
		cel.CostTracking(&library.CostEstimator{}),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	)
}

// unlimitedLength is the length of a list or map without a known limit.
const unlimitedLength = -1

// declareType returns the CEL type of a Go type of planjson, so that a misspelled field does not compile. Arbitrary
// values, as in a spec, are dynamically typed.
func declareType(of reflect.Type) *apiservercel.DeclType {
	switch of.Kind() {
	case reflect.Bool:
		return apiservercel.BoolType
	case reflect.Int:
		return apiservercel.IntType
	case reflect.String:
		return apiservercel.StringType
	case reflect.Slice:
		return apiservercel.NewListType(declareType(of.Elem()), unlimitedLength)
	case reflect.Map:
		return apiservercel.NewMapType(apiservercel.StringType, declareType(of.Elem()), unlimitedLength)
	case reflect.Struct:
		fields := map[string]*apiservercel.DeclField{}
		for i := range of.NumField() {
			name := jsonName(of.Field(i))
			fields[name] = apiservercel.NewDeclField(name, declareType(of.Field(i).Type), true, nil, nil)
		}
		return apiservercel.NewObjectType(of.Name(), fields)
	default:
		return apiservercel.DynType
	}
}

// celValues converts a Go value of planjson to CEL values: maps with every field, so that a field without a value is
// empty instead of an error.
func celValues(of reflect.Value) any {
	switch of.Kind() {
	case reflect.Int:
		return of.Int()
	case reflect.Slice:
		list := make([]any, of.Len())
		for i := range list {
			list[i] = celValues(of.Index(i))
		}
		return list
	case reflect.Struct:
		fields := make(map[string]any, of.NumField())
		for i := range of.NumField() {
			fields[jsonName(of.Type().Field(i))] = celValues(of.Field(i))
		}
		return fields
	default:
		return of.Interface()
	}
}

// jsonName returns the JSON name of a field.
func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
