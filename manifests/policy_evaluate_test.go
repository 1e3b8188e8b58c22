package manifests

import (
	"context"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"sigs.k8s.io/yaml"
)

// policies are those of the base by name, compiled as in the API server.
type policies struct {
	t    *testing.T
	byOf map[string]compiled
}

type compiled struct {
	policy    admissionregistrationv1.ValidatingAdmissionPolicy
	compiler  *plugincel.CompositedCompiler
	validates plugincel.ConditionEvaluator
	// conditions are its match conditions.
	conditions plugincel.ConditionEvaluator
}

func compile(t *testing.T) policies {
	t.Helper()
	return compileOf(t, build(t, "."))
}

// compileOf compiles the policies among the objects.
func compileOf(t *testing.T, objects []object) policies {
	t.Helper()
	all := policies{t, map[string]compiled{}}
	bound := map[string]bool{}
	for _, o := range objects {
		switch o.Kind {
		case "ValidatingAdmissionPolicyBinding":
			var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
			if err := yaml.UnmarshalStrict(o.text, &binding); err != nil {
				t.Fatal(err)
			}
			bound[binding.Spec.PolicyName] = len(binding.Spec.ValidationActions) == 1 && binding.Spec.ValidationActions[0] == admissionregistrationv1.Deny && binding.Spec.MatchResources == nil
		case "ValidatingAdmissionPolicy":
			var c compiled
			if err := yaml.UnmarshalStrict(o.text, &c.policy); err != nil {
				t.Fatal(err)
			}
			c.compile(t)
			all.byOf[c.policy.Name] = c
		}
	}
	for name := range all.byOf {
		if !bound[name] {
			t.Errorf("policy %s is not bound so that it denies", name)
		}
	}
	return all
}

// reserved are names that variables must not have: https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax
var reserved = map[string]bool{
	"as": true, "break": true, "const": true, "continue": true, "else": true, "for": true, "function": true, "if": true, "import": true, "let": true,
	"loop": true, "namespace": true, "package": true, "return": true, "var": true, "void": true, "while": true, "in": true, "true": true, "false": true, "null": true,
}

// declared is what an expression may use besides the objects.
var declared = plugincel.OptionalVariableDeclarations{HasAuthorizer: true}

func (c *compiled) compile(t *testing.T) {
	t.Helper()
	var err error
	if c.compiler, err = plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())); err != nil {
		t.Fatal(err)
	}
	for _, v := range c.policy.Spec.Variables {
		if reserved[v.Name] {
			t.Errorf("policy %s: the variable %s has a name that CEL keeps for itself", c.policy.Name, v.Name)
		}
		result := c.compiler.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, declared, environment.NewExpressions)
		if result.Error != nil {
			t.Fatalf("policy %s, variable %s: %v", c.policy.Name, v.Name, result.Error)
		}
	}
	var expressions, conditions []plugincel.ExpressionAccessor
	for _, v := range c.policy.Spec.Validations {
		expressions = append(expressions, &validating.ValidationCondition{Expression: v.Expression, Message: v.Message})
		if v.MessageExpression != "" {
			expressions = append(expressions, &validating.MessageExpressionCondition{MessageExpression: v.MessageExpression})
		}
	}
	for _, m := range c.policy.Spec.MatchConditions {
		conditions = append(conditions, &validating.ValidationCondition{Expression: m.Expression})
	}
	c.validates = c.compiler.CompileCondition(expressions, declared, environment.NewExpressions)
	c.conditions = c.compiler.CompileCondition(conditions, declared, environment.NewExpressions)
	for _, err := range slices.Concat(c.validates.CompilationErrors(), c.conditions.CompilationErrors()) {
		t.Fatalf("policy %s: %v", c.policy.Name, err)
	}
}

// write is a request to change an object; old is nil if there was none.
type write struct {
	operation   admission.Operation
	resource    string
	object, old *unstructured.Unstructured
	subresource string
	// mayUse is the one IAM role that RBAC lets plumbline use.
	mayUse string
	// declares is the one user that RBAC allows to declare an emergency of the NodeSync prod.
	declares string
	// by is the user; nil is plumbline.
	by user.Info
}

// Authorize allows the use of that role, and the emergency.
func (w write) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	asked := strings.Join([]string{a.GetUser().GetName(), a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetName()}, " ")
	if w.mayUse != "" && asked == plumbline.Name+" use plumbline.dev controllerroles "+w.mayUse {
		return authorizer.DecisionAllow, "", nil
	}
	if w.declares != "" && asked == w.declares+" declare-emergency plumbline.dev nodesyncs prod" && a.GetNamespace() == "plumbline-system" {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// plumbline is the user that the policies apply to.
var plumbline = &user.DefaultInfo{Name: "system:serviceaccount:plumbline-system:plumbline"}

// denied returns the messages of the policies that deny a write.
func (p policies) denied(w write) []string {
	p.t.Helper()
	var messages []string
	matched := false
	for _, c := range p.byOf {
		if !c.matches(w) {
			continue
		}
		matched = true
		if c.applies(p.t, w) {
			messages = append(messages, c.evaluate(p.t, w)...)
		}
	}
	if !matched {
		p.t.Errorf("no policy is about %s %s", w.operation, w.resource)
	}
	return messages
}

func (w write) any() *unstructured.Unstructured {
	if w.object == nil {
		return w.old
	}
	return w.object
}

// matches reports whether the policy's constraints match the request.
func (c compiled) matches(w write) bool {
	resource := w.resource
	if w.subresource != "" {
		resource += "/" + w.subresource
	}
	if selector := c.policy.Spec.MatchConstraints.ObjectSelector; selector != nil {
		// As in the API server, for the object before and after the change.
		labelled, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil || !selected(labelled, w.object) && !selected(labelled, w.old) {
			return false
		}
	}
	for _, rule := range c.policy.Spec.MatchConstraints.ResourceRules {
		if contains(rule.Resources, resource) && contains(rule.Operations, admissionregistrationv1.OperationType(w.operation)) && contains(rule.APIGroups, w.any().GroupVersionKind().Group) &&
			(len(rule.ResourceNames) == 0 || contains(rule.ResourceNames, w.any().GetName())) {
			return true
		}
	}
	return false
}

func selected(by labels.Selector, object *unstructured.Unstructured) bool {
	return object != nil && by.Matches(labels.Set(object.GetLabels()))
}

func contains[T comparable](list []T, one T) bool {
	for _, item := range list {
		if item == one {
			return true
		}
	}
	return false
}

// applies reports whether the policy's conditions are true.
func (c compiled) applies(t *testing.T, w write) bool {
	t.Helper()
	for i, result := range c.ask(t, c.conditions, w) {
		if result.Error != nil {
			t.Fatalf("policy %s, condition %s: %v", c.policy.Name, c.policy.Spec.MatchConditions[i].Name, result.Error)
		}
		if result.EvalResult.Value() != true {
			return false
		}
	}
	return true
}

// evaluate returns the messages of the validations that fail.
func (c compiled) evaluate(t *testing.T, w write) []string {
	t.Helper()
	results := c.ask(t, c.validates, w)
	var messages []string
	for _, v := range c.policy.Spec.Validations {
		result, message := results[0], v.Message
		results = results[1:]
		if v.MessageExpression != "" {
			if worded := results[0]; worded.Error == nil {
				message = worded.EvalResult.Value().(string)
			}
			results = results[1:]
		}
		if result.Error != nil {
			messages = append(messages, "error: "+result.Error.Error()) // failurePolicy Fail
		} else if result.EvalResult.Value() != true {
			messages = append(messages, message)
		}
	}
	return messages
}

// ask evaluates expressions of a policy for a write.
func (c compiled) ask(t *testing.T, evaluator plugincel.ConditionEvaluator, w write) []plugincel.EvaluationResult {
	t.Helper()
	by := w.by
	if by == nil {
		by = plumbline
	}
	kind := w.any().GroupVersionKind()
	gvr := schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: w.resource}
	attributes := &admission.VersionedAttributes{VersionedKind: kind, Attributes: admission.NewAttributesRecord(nil, nil, kind, w.any().GetNamespace(), w.any().GetName(), gvr, w.subresource, w.operation, nil, false, by)}
	if w.object != nil {
		attributes.VersionedObject.Set(w.object)
	}
	if w.old != nil {
		attributes.VersionedOldObject.Set(w.old)
	}
	request := &admissionv1.AdmissionRequest{
		Kind: metav1.GroupVersionKind(kind), Resource: metav1.GroupVersionResource(gvr), Operation: admissionv1.Operation(w.operation),
		Name: w.any().GetName(), Namespace: w.any().GetNamespace(), SubResource: w.subresource,
		UserInfo: authenticationv1.UserInfo{Username: by.GetName(), UID: by.GetUID(), Groups: by.GetGroups(), Extra: extraOf(by)},
	}
	ctx := c.compiler.CreateContext(context.WithoutCancel(t.Context()))
	results, _, err := evaluator.ForInput(ctx, attributes, request, plugincel.OptionalVariableBindings{Authorizer: w}, nil, apiservercel.RuntimeCELCostBudget)
	if err != nil {
		t.Fatalf("policy %s: %v", c.policy.Name, err)
	}
	return results
}

// extraOf returns the extra fields of a user as in an admission request.
func extraOf(by user.Info) map[string]authenticationv1.ExtraValue {
	extra := map[string]authenticationv1.ExtraValue{}
	for key, values := range by.GetExtra() {
		extra[key] = values
	}
	return extra
}
