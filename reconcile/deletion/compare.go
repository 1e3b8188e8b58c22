package deletion

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/fault"
)

// breakGlass is the variable that lists the groups whose members may delete anyway. Each cluster sets its own.
const breakGlass = "breakGlassGroups"

// Compare describes how one policy and its binding differ from the wanted ones; empty if they do not. altered is false
// if an object is missing.
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
	if field := bindingDifference(want.Binding.Spec, live.Binding.Spec); field != "" {
		return "the " + of(binding) + " was altered: " + field, true
	}
	return "", false
}

// differs names the first field in which a policy differs, with the defaults of the API server.
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

// sameVariable reports whether two variables are equivalent. Each cluster sets its own break-glass groups, Karpenter
// ServiceAccounts, and allowed images and chart values of Karpenter.
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

// isTexts reports whether an expression is a list of strings, in either kind of quotes.
func isTexts(expression string) bool {
	var texts []string
	if json.Unmarshal([]byte(expression), &texts) == nil {
		return true
	}
	return !strings.ContainsAny(expression, `"\`) && json.Unmarshal([]byte(strings.ReplaceAll(expression, "'", `"`)), &texts) == nil
}

// everybody reports whether a group may include everyone who can access the API server.
func everybody(group string) bool {
	return group == "system:authenticated" || group == "system:unauthenticated" || group == "system:serviceaccounts"
}

// matches reports whether a policy matches all requests that it must match, without exclusions.
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

// covers reports whether a rule matches the same requests or, if it has resource names, more of them.
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
	return named && *cmp.Or(want.Scope, &whole) == *cmp.Or(live.Scope, &whole) &&
		same(operations(want.Operations), operations(live.Operations)) &&
		same(want.APIGroups, live.APIGroups) && same(want.APIVersions, live.APIVersions) && same(want.Resources, live.Resources)
}

// bindingDifference names the field because of which a binding does not make its policy deny everywhere.
func bindingDifference(want, live admissionv1.ValidatingAdmissionPolicyBindingSpec) string {
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

// FinalizerPolicy is the policy that denies the removal of Karpenter's finalizers to everyone but Karpenter and plumbline.
const FinalizerPolicy = "plumbline-guard-finalizers"

// karpenterAccounts is the variable of that policy that lists the ServiceAccounts of Karpenter's controller, as user names.
const karpenterAccounts = "karpenterAccounts"

// accountPrefix is the prefix of the user name of a ServiceAccount.
const accountPrefix = "system:serviceaccount:"

// Denial reports whether the deletion guard denies Karpenter's controller the removal of its own finalizers. NodeClaims
// then keep them after their instances are terminated. The zero value means that it does not, or that this was not
// checked.
type Denial struct {
	// Looked is true if the policy and the controller's ServiceAccounts were read.
	Looked bool
	// Accounts are the ServiceAccounts that are denied, as user names.
	Accounts []string
	// Unknown is why it is unknown whether they are denied.
	Unknown string
}

// Message says what is denied to whom, and what to do about it; empty if nothing is denied.
func (d Denial) Message() string {
	const policy = "ValidatingAdmissionPolicy/" + FinalizerPolicy
	switch {
	case d.Unknown != "":
		return "whether " + policy + " denies Karpenter's controller the removal of its own finalizers is unknown: " + d.Unknown
	case len(d.Accounts) > 0:
		return fmt.Sprintf("%s denies %s, under which Karpenter's controller runs, the removal of Karpenter's finalizers, so that NodeClaims would hang after their instances are terminated: "+
			"add the account to the policy's variable %s (Helm: karpenterNamespace and karpenterServiceAccount)", policy, strings.Join(d.Accounts, ", "), karpenterAccounts)
	}
	return ""
}

// Deny compares the live policy with the ServiceAccounts of Karpenter's controller.
func Deny(live Guard, accounts []string) Denial {
	denial := Denial{Looked: true}
	if live.Policy == nil || live.Binding == nil || !slices.Contains(live.Binding.Spec.ValidationActions, admissionv1.Deny) {
		return denial
	}
	at := slices.IndexFunc(live.Policy.Spec.Variables, func(v admissionv1.Variable) bool { return v.Name == karpenterAccounts })
	if at < 0 {
		denial.Unknown = "the policy has no variable " + karpenterAccounts + ": apply manifests/guard of this version again (helm upgrade, or kubectl apply -k)"
		return denial
	}
	allowed, ok := accountList(live.Policy.Spec.Variables[at].Expression)
	if !ok {
		denial.Unknown = "the policy's variable " + karpenterAccounts + ` is not a list of texts such as ["system:serviceaccount:kube-system:karpenter"]`
		return denial
	}
	for _, account := range accounts {
		if !slices.Contains(allowed, account) {
			denial.Accounts = append(denial.Accounts, account)
		}
	}
	return denial
}

// accountList returns the ServiceAccounts that an expression lists; false if it is not such a list.
func accountList(expression string) (accounts []string, ok bool) {
	if json.Unmarshal([]byte(expression), &accounts) != nil {
		return nil, false
	}
	return accounts, !slices.ContainsFunc(accounts, func(account string) bool {
		namespace, name, named := strings.Cut(strings.TrimPrefix(account, accountPrefix), ":")
		return !strings.HasPrefix(account, accountPrefix) || !named || namespace == "" || name == ""
	})
}

// Denied reads the policy from the API server, and compares it with the ServiceAccounts of Karpenter's controller. An
// API server without such policies (before Kubernetes 1.30) denies nothing.
func Denied(ctx context.Context, reader client.Reader, accounts []string) Denial {
	live, err := readGuard(ctx, reader, FinalizerPolicy)
	switch {
	case meta.IsNoMatchError(err): // before Kubernetes 1.30
		return Denial{Looked: true}
	case err != nil:
		return Denial{Looked: true, Unknown: fault.Classify(fmt.Errorf("read the policies of the deletion guard: %w", err)).Error()}
	}
	return Deny(live, accounts)
}

// readGuard reads a policy and its binding; each is nil if there is none.
func readGuard(ctx context.Context, reader client.Reader, name string) (Guard, error) {
	live := Guard{Policy: &admissionv1.ValidatingAdmissionPolicy{}, Binding: &admissionv1.ValidatingAdmissionPolicyBinding{}}
	if err := get(ctx, reader, name, live.Policy); err != nil {
		return Guard{}, err
	}
	if err := get(ctx, reader, name, live.Binding); err != nil {
		return Guard{}, err
	}
	if live.Policy.UID == "" {
		live.Policy = nil
	}
	if live.Binding.UID == "" {
		live.Binding = nil
	}
	return live, nil
}

// Denied reads the policy now, and compares it with the ServiceAccounts of Karpenter's controller. It reads nothing if a is nil.
func (a *Checker) Denied(ctx context.Context, reader client.Reader, accounts []string) Denial {
	if a == nil {
		return Denial{}
	}
	return Denied(ctx, reader, accounts)
}

// DeniedRecently is like Denied, but sends at most one request every 20 seconds for the same accounts.
func (a *Checker) DeniedRecently(ctx context.Context, reader client.Reader, accounts []string, now time.Time) Denial {
	if a == nil {
		return Denial{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	key := strings.Join(accounts, " ")
	last := a.denied[key]
	if age := now.Sub(last.at); !last.at.IsZero() && age >= 0 && age < readInterval {
		return last.denial
	}
	last = denied{at: now, denial: Denied(ctx, reader, accounts)}
	if a.denied == nil {
		a.denied = map[string]denied{}
	}
	a.denied[key] = last
	return last.denial
}

type denied struct {
	at     time.Time
	denial Denial
}
