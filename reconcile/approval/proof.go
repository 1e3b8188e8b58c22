package approval

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// PolicyName is that of the ValidatingAdmissionPolicy which has each Approval name its author, and
// of its binding.
const PolicyName = "plumbline-guard-approvals"

// expressions are what that policy has to check. It may check more.
var expressions = []string{
	"request.operation != 'CREATE' || object.spec.author == request.userInfo.username",
	"request.operation != 'CREATE' || !request.userInfo.username.startsWith('system:serviceaccount:')",
	"request.operation != 'CREATE' || object.spec.?authorUID.orValue('') == request.userInfo.?uid.orValue('')",
	"request.operation != 'CREATE' || ['arn', 'canonicalArn', 'principalId', 'sessionName', 'accessKeyId'].all(key, object.spec.?authorExtra[key].orValue([]) == request.userInfo.?extra[key].orValue([]))",
	"request.operation != 'UPDATE' || object.spec == oldObject.spec",
}

// Settled is how long after a change of the policy an Approval may not have been checked by it yet:
// each API server takes a new one up by a watch, and looks each second
// (k8s.io/apiserver pkg/admission/plugin/policy/generic/policy_source.go).
const Settled = 30 * time.Second

// Proof is what the API server enforces of Approvals.
type Proof struct {
	// Since is when the policy or its binding was created or changed last. Missing is why the API server
	// does not check the author of each, and what to do about it; empty where it does.
	Since   time.Time
	Missing string
}

// restore is what is to be done where the policy is not as it should be.
const restore = ": apply manifests/guard of this version of plumbline again (helm upgrade, or kubectl apply -k), then approve again"

// Nothing begins the message where no Approval can count, and NotServed is that where plumbline was
// upgraded in part.
const (
	Nothing   = "nothing can be approved: "
	NotServed = Nothing + "the CRD " + v1alpha1.ApprovalCRD + " is missing: apply manifests/crd of this version of plumbline (helm upgrade, or kubectl apply -k)"
)

// refuses says why nobody knows who has made an Approval; empty where that is known.
func (p Proof) refuses(a *v1alpha1.Approval) string {
	switch {
	case p.Missing != "":
		return p.Missing
	case a.CreationTimestamp.Time.Before(p.Since.Add(Settled)):
		return fmt.Sprintf("it is not %s younger than the last change of the ValidatingAdmissionPolicy %s or its binding, so that its author may not have been checked: delete it, and approve again", Settled, PolicyName)
	}
	return ""
}

// Wait is how long it takes until an Approval can count; zero where it can.
func (p Proof) Wait(now time.Time) time.Duration {
	if age := now.Sub(p.Since); age >= 0 && age < Settled {
		return Settled - age
	}
	return 0
}

// Prove says what the policy and its binding enforce; nil where there is none.
func Prove(policy *admissionv1.ValidatingAdmissionPolicy, binding *admissionv1.ValidatingAdmissionPolicyBinding) Proof {
	switch {
	case policy == nil:
		return Proof{Missing: "the ValidatingAdmissionPolicy " + PolicyName + " is missing" + restore}
	case binding == nil:
		return Proof{Missing: "the ValidatingAdmissionPolicyBinding " + PolicyName + " is missing" + restore}
	case !enforces(&policy.Spec):
		return Proof{Missing: "the ValidatingAdmissionPolicy " + PolicyName + " was altered" + restore}
	case !binds(&binding.Spec):
		return Proof{Missing: "the ValidatingAdmissionPolicyBinding " + PolicyName + " was altered" + restore}
	}
	since := changedAt(policy)
	if other := changedAt(binding); other.After(since) {
		since = other
	}
	return Proof{Since: since}
}

// changedAt is when an object was created, or its spec may have been changed last. A
// change of the spec counts up the generation, and its manager's entry has the time.
func changedAt(object metav1.Object) time.Time {
	at := object.GetCreationTimestamp().Time
	if object.GetGeneration() <= 1 {
		return at
	}
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" && entry.Time != nil && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}

// enforces says whether a policy checks the author of each Approval, and lets none past.
func enforces(spec *admissionv1.ValidatingAdmissionPolicySpec) bool {
	match := spec.MatchConstraints
	if match == nil || spec.ParamKind != nil || len(spec.MatchConditions) > 0 || spec.FailurePolicy != nil && *spec.FailurePolicy != admissionv1.Fail {
		return false
	}
	if len(match.ExcludeResourceRules) > 0 || selects(match.NamespaceSelector) || selects(match.ObjectSelector) || !slices.ContainsFunc(match.ResourceRules, approvals) {
		return false
	}
	for _, expression := range expressions {
		if !slices.ContainsFunc(spec.Validations, func(v admissionv1.Validation) bool { return v.Expression == expression }) {
			return false
		}
	}
	return true
}

// approvals says whether a rule is about each write of an Approval.
func approvals(rule admissionv1.NamedRuleWithOperations) bool {
	has := func(list []string, one string) bool { return slices.Contains(list, one) || slices.Contains(list, "*") }
	does := func(one admissionv1.OperationType) bool {
		return slices.Contains(rule.Operations, one) || slices.Contains(rule.Operations, admissionv1.OperationAll)
	}
	anyScope := rule.Scope == nil || *rule.Scope != admissionv1.ClusterScope
	return len(rule.ResourceNames) == 0 && anyScope && does(admissionv1.Create) && does(admissionv1.Update) &&
		has(rule.APIGroups, v1alpha1.GroupVersion.Group) && has(rule.APIVersions, v1alpha1.GroupVersion.Version) && has(rule.Resources, "approvals")
}

// selects says whether a selector leaves anything out.
func selects(s *metav1.LabelSelector) bool {
	return s != nil && (len(s.MatchLabels) > 0 || len(s.MatchExpressions) > 0)
}

// binds says whether a binding has the policy deny, everywhere.
func binds(spec *admissionv1.ValidatingAdmissionPolicyBindingSpec) bool {
	return spec.PolicyName == PolicyName && spec.ParamRef == nil && spec.MatchResources == nil && slices.Contains(spec.ValidationActions, admissionv1.Deny)
}
