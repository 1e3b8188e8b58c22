package deletion

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// breakGlass is the variable that lists the groups whose members may delete all the same: they are the
// cluster's.
const breakGlass = "breakGlassGroups"

// Compare says what of one policy is not as it has to be; empty where all is. altered is false where
// an object is missing.
func Compare(want, live Guard) (words string, altered bool) {
	of := func(kind string) string { return kind + " " + want.Policy.Name }
	const policy, binding = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
	switch {
	case live.Policy == nil:
		return "the " + of(policy) + " is missing", false
	case live.Binding == nil:
		return "the " + of(binding) + " is missing", false
	}
	if field := differs(want.Policy.Spec, live.Policy.Spec); field != "" {
		return "the " + of(policy) + " was altered: " + field, true
	}
	if field := unbound(want.Binding.Spec, live.Binding.Spec); field != "" {
		return "the " + of(binding) + " was altered: " + field, true
	}
	return "", false
}

// differs names the first field in which a policy is another one, with the defaults of the API server.
func differs(want, live admissionv1.ValidatingAdmissionPolicySpec) string {
	switch {
	case live.FailurePolicy != nil && *live.FailurePolicy != admissionv1.Fail:
		return "spec.failurePolicy is " + string(*live.FailurePolicy)
	case live.ParamKind != nil:
		return "spec.paramKind"
	case !matches(want.MatchConstraints, live.MatchConstraints):
		return "spec.matchConstraints"
	case !slices.Equal(want.MatchConditions, live.MatchConditions):
		return "spec.matchConditions"
	case !slices.EqualFunc(want.Variables, live.Variables, sameVariable):
		return "spec.variables"
	case !slices.EqualFunc(want.Validations, live.Validations, func(a, b admissionv1.Validation) bool { return a.Expression == b.Expression }):
		return "spec.validations"
	}
	return ""
}

// sameVariable reports whether two variables mean the same. The groups of the break glass, the ServiceAccounts of Karpenter, its
// images and the values of its chart that are allowed are the cluster's.
func sameVariable(want, live admissionv1.Variable) bool {
	switch {
	case want.Name != live.Name:
		return false
	case want.Expression == live.Expression:
		return true
	case want.Name == breakGlass:
		var groups []string
		return json.Unmarshal([]byte(live.Expression), &groups) == nil && !slices.ContainsFunc(groups, everybody)
	case want.Name == "images" || want.Name == "allowed":
		return isTexts(live.Expression)
	case want.Name == karpenterAccounts:
		_, ok := accountList(live.Expression)
		return ok
	}
	return false
}

// isTexts reports whether an expression is a list of texts, in either kind of quotes.
func isTexts(expression string) bool {
	var texts []string
	if json.Unmarshal([]byte(expression), &texts) == nil {
		return true
	}
	return !strings.ContainsAny(expression, `"\`) && json.Unmarshal([]byte(strings.ReplaceAll(expression, "'", `"`)), &texts) == nil
}

// everybody says of a group that all who speak to the API server may be in it.
func everybody(group string) bool {
	return group == "system:authenticated" || group == "system:unauthenticated" || group == "system:serviceaccounts"
}

// matches says whether a policy is asked about all that it is to be asked about, and leaves nothing out.
func matches(want, live *admissionv1.MatchResources) bool {
	if want == nil || live == nil {
		return want == live
	}
	if live.MatchPolicy != nil && *live.MatchPolicy != admissionv1.Equivalent || len(live.ExcludeResourceRules) > 0 {
		return false
	}
	if !sameSelector(want.NamespaceSelector, live.NamespaceSelector) || !sameSelector(want.ObjectSelector, live.ObjectSelector) {
		return false
	}
	return slices.EqualFunc(want.ResourceRules, live.ResourceRules, covers)
}

func sameSelector(want, live *metav1.LabelSelector) bool {
	none := &metav1.LabelSelector{}
	return apiequality.Semantic.DeepEqual(cmp.Or(want, none), cmp.Or(live, none))
}

// covers says whether a rule is about the same requests, or, where it has names, about more of them.
func covers(want, live admissionv1.NamedRuleWithOperations) bool {
	whole := admissionv1.AllScopes
	same := func(a, b []string) bool {
		return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
	}
	operations := func(all []admissionv1.OperationType) (words []string) {
		for _, o := range all {
			words = append(words, string(o))
		}
		return words
	}
	left := func(name string) bool { return !slices.Contains(live.ResourceNames, name) }
	named := len(live.ResourceNames) == 0 || len(want.ResourceNames) > 0 && !slices.ContainsFunc(want.ResourceNames, left)
	return named && *cmp.Or(want.Scope, &whole) == *cmp.Or(live.Scope, &whole) && same(operations(want.Operations), operations(live.Operations)) &&
		same(want.APIGroups, live.APIGroups) && same(want.APIVersions, live.APIVersions) && same(want.Resources, live.Resources)
}

// unbound names the field by which a binding does not have its policy deny everywhere.
func unbound(want, live admissionv1.ValidatingAdmissionPolicyBindingSpec) string {
	switch {
	case live.PolicyName != want.PolicyName:
		return "spec.policyName is " + live.PolicyName
	case live.ParamRef != nil:
		return "spec.paramRef"
	case live.MatchResources != nil && !matches(&admissionv1.MatchResources{}, live.MatchResources):
		return "spec.matchResources"
	case !slices.Contains(live.ValidationActions, admissionv1.Deny):
		var actions []string
		for _, a := range live.ValidationActions {
			actions = append(actions, string(a))
		}
		return "spec.validationActions is [" + strings.Join(actions, ", ") + "]"
	}
	return ""
}
