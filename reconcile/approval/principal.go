package approval

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Keys of the extra fields of a user that authenticates through IAM, as EKS sets them
// (sigs.k8s.io/aws-iam-authenticator, pkg/server).
const (
	canonicalARN = "canonicalArn"
	callersARN   = "arn"
	sessionName  = "sessionName"
)

// ExtraKeys are the extra fields of a user that an Approval records and the policy checks.
func ExtraKeys() []string {
	return []string{callersARN, canonicalARN, "principalId", sessionName, "accessKeyId"}
}

// principal is one person or role that counts once: the Approvals that share an identity.
type principal struct {
	identities sets.Set[string]
	approvals  []*v1alpha1.Approval
}

// name returns the author for display. If the role's sessions are persons and the user name does not distinguish them,
// it includes the session's name.
func (p principal) name(trusted []string) string {
	spec := &p.approvals[0].Spec
	if session := trustedSession(spec, trusted); session != "" && !strings.Contains(spec.Author, session) {
		return fmt.Sprintf("%s (session %s)", spec.Author, session)
	}
	return spec.Author
}

// principals groups Approvals by principal.
func principals(of []*v1alpha1.Approval, trusted []string) []principal {
	of = slices.SortedFunc(slices.Values(of), func(a, b *v1alpha1.Approval) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Spec.Author), strings.ToLower(b.Spec.Author)), cmp.Compare(a.Spec.Author, b.Spec.Author),
			cmp.Compare(a.Name, b.Name))
	})
	var all []principal
	for _, a := range of {
		joined := principal{identities: sets.New(identities(&a.Spec, trusted)...)}
		var others []principal
		for _, p := range all {
			if !p.identities.HasAny(joined.identities.UnsortedList()...) {
				others = append(others, p)
				continue
			}
			joined.identities = joined.identities.Union(p.identities)
			joined.approvals = append(joined.approvals, p.approvals...)
		}
		joined.approvals = append(joined.approvals, a)
		all = append(others, joined)
	}
	return all
}

// identities returns the names by which the author of an Approval is recognized. User and session names are
// case-insensitive: identity providers spell the name of one person in several ways.
//   - A session of a trusted role is the person in its name, whatever the role and the authenticator.
//   - A caller through IAM is the user or the role. The holder of a role chooses the session name, which is part of the
//     user name, so the session name does not count.
//   - All except trusted sessions are also their user name, and the UID of the authenticator.
func identities(spec *v1alpha1.ApprovalSpec, trusted []string) []string {
	person := func(name string) string { return "user " + strings.ToLower(name) }
	if session := trustedSession(spec, trusted); session != "" {
		return []string{person(session)}
	}
	all := []string{person(spec.Author)}
	if spec.AuthorUID != "" {
		all = append(all, "uid "+spec.AuthorUID)
	}
	if arn := iamPrincipal(spec); arn != "" {
		all = append(all, "iam "+arn)
	}
	return all
}

// trustedSession returns the session name of an author whose role's sessions are persons; empty for others.
func trustedSession(spec *v1alpha1.ApprovalSpec, trusted []string) string {
	session, arn := first(spec.AuthorExtra[sessionName]), iamPrincipal(spec)
	if session == "" || arn == "" || !slices.ContainsFunc(trusted, func(role string) bool { return principalOf(role) == arn }) {
		return ""
	}
	return session
}

// iamPrincipal returns the IAM user or role of an author; empty if the author does not authenticate through IAM.
func iamPrincipal(spec *v1alpha1.ApprovalSpec) string {
	return principalOf(cmp.Or(first(spec.AuthorExtra[canonicalARN]), first(spec.AuthorExtra[callersARN]), spec.Author))
}

// principalOf returns the IAM user or role of an ARN, without the parts that its holder can choose: the session name of
// a role, and the name of a federated user, which the caller of GetFederationToken chooses. A role's path is omitted:
// sessions do not contain it, and role names are unique in an account without it. It is empty for any other text.
func principalOf(arn string) string {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) != 6 || parts[0] != "arn" {
		return ""
	}
	of := func(resource string) string {
		return strings.Join([]string{"arn", parts[1], "iam", "", parts[4], resource}, ":")
	}
	path := strings.Split(parts[5], "/")
	switch {
	case parts[2] == "sts" && path[0] == "assumed-role" && len(path) > 1:
		return of("role/" + path[1])
	case parts[2] == "sts" && path[0] == "federated-user":
		return of("federated-user")
	case parts[2] == "iam" && path[0] == "role":
		return of("role/" + path[len(path)-1])
	case parts[2] == "iam":
		return arn
	}
	return ""
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// countsOnce explains why Approvals of several users are of one principal; empty if they are of one user.
func (p principal) countsOnce() string {
	a := p.approvals[0]
	for _, b := range p.approvals[1:] {
		if strings.EqualFold(a.Spec.Author, b.Spec.Author) {
			continue
		}
		both := "both are one user"
		if arn := iamPrincipal(&a.Spec); arn != "" && arn == iamPrincipal(&b.Spec) {
			both = "both are " + arn + ", whose sessions count as one unless spec.guard.trustedSessions lists the role"
		}
		return fmt.Sprintf("Approval %s by %s and Approval %s by %s count once: %s", a.Name, a.Spec.Author, b.Name, b.Spec.Author, both)
	}
	return ""
}

// PolicyName is the name of the ValidatingAdmissionPolicy that checks the author of each Approval, and of its binding.
const PolicyName = "plumbline-guard-approvals"

// requiredExpressions are the checks that this policy must contain. It may contain more.
var requiredExpressions = []string{
	"request.operation != 'CREATE' || object.spec.author == request.userInfo.username",
	"request.operation != 'CREATE' || !request.userInfo.username.startsWith('system:serviceaccount:')",
	"request.operation != 'CREATE' || object.spec.?authorUID.orValue('') == request.userInfo.?uid.orValue('')",
	"request.operation != 'CREATE' || ['arn', 'canonicalArn', 'principalId', 'sessionName', 'accessKeyId'].all(key, object.spec.?authorExtra[key].orValue([]) == request.userInfo.?extra[key].orValue([]))",
	"request.operation != 'UPDATE' || object.spec == oldObject.spec",
}

// Settled is how long after a change of the policy Approvals may not be checked by it yet: each API server learns of a
// policy by a watch, and refreshes each second (k8s.io/apiserver pkg/admission/plugin/policy/generic/policy_source.go).
const Settled = 30 * time.Second

// Proof is what the API server enforces for Approvals.
type Proof struct {
	// Since is when the policy or its binding was last created or changed. Missing is why the API server does not check
	// the author of each Approval, and what to do about it; empty if it does.
	Since   time.Time
	Missing string
}

// restoreInstruction is what to do if the policy is missing or altered.
const restoreInstruction = ": apply manifests/guard of this version of plumbline again (helm upgrade, or kubectl apply -k), then approve again"

// Nothing is the prefix of the message if no Approval can count, and NotServed is the message if plumbline was only
// partly upgraded.
const (
	Nothing   = "nothing can be approved: "
	NotServed = Nothing + "the CRD " + v1alpha1.ApprovalCRD + " is missing: apply manifests/crd of this version of plumbline (helm upgrade, or kubectl apply -k)"
)

// refuses returns why the author of an Approval is unknown; empty if it is known.
func (p Proof) refuses(a *v1alpha1.Approval) string {
	switch {
	case p.Missing != "":
		return p.Missing
	case a.CreationTimestamp.Time.Before(p.Since.Add(Settled)):
		return fmt.Sprintf("it is not %s younger than the last change of the ValidatingAdmissionPolicy %s or its binding, so that its author may not have been checked: delete it, and approve again", Settled, PolicyName)
	}
	return ""
}

// Wait returns how long it takes until an Approval can count; zero if it can.
func (p Proof) Wait(now time.Time) time.Duration {
	if age := now.Sub(p.Since); age >= 0 && age < Settled {
		return Settled - age
	}
	return 0
}

// Prove returns what the policy and its binding enforce; either is nil if it does not exist.
func Prove(policy *admissionv1.ValidatingAdmissionPolicy, binding *admissionv1.ValidatingAdmissionPolicyBinding) Proof {
	switch {
	case policy == nil:
		return Proof{Missing: "the ValidatingAdmissionPolicy " + PolicyName + " is missing" + restoreInstruction}
	case binding == nil:
		return Proof{Missing: "the ValidatingAdmissionPolicyBinding " + PolicyName + " is missing" + restoreInstruction}
	case !enforces(&policy.Spec):
		return Proof{Missing: "the ValidatingAdmissionPolicy " + PolicyName + " was altered" + restoreInstruction}
	case !binds(&binding.Spec):
		return Proof{Missing: "the ValidatingAdmissionPolicyBinding " + PolicyName + " was altered" + restoreInstruction}
	}
	since := changedAt(policy)
	if other := changedAt(binding); other.After(since) {
		since = other
	}
	return Proof{Since: since}
}

// changedAt returns when an object was created, or when its spec may have last changed. A change of the spec increments
// the generation, and its manager's entry has the time.
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

// enforces reports whether a policy checks the author of every Approval.
func enforces(spec *admissionv1.ValidatingAdmissionPolicySpec) bool {
	match := spec.MatchConstraints
	if match == nil || spec.ParamKind != nil || len(spec.MatchConditions) > 0 ||
		spec.FailurePolicy != nil && *spec.FailurePolicy != admissionv1.Fail {
		return false
	}
	if len(match.ExcludeResourceRules) > 0 || selects(match.NamespaceSelector) || selects(match.ObjectSelector) ||
		!slices.ContainsFunc(match.ResourceRules, approvals) {
		return false
	}
	for _, expression := range requiredExpressions {
		if !slices.ContainsFunc(spec.Validations, func(v admissionv1.Validation) bool { return v.Expression == expression }) {
			return false
		}
	}
	return true
}

// approvals reports whether a rule matches every write of an Approval.
func approvals(rule admissionv1.NamedRuleWithOperations) bool {
	has := func(list []string, one string) bool { return slices.Contains(list, one) || slices.Contains(list, "*") }
	does := func(one admissionv1.OperationType) bool {
		return slices.Contains(rule.Operations, one) || slices.Contains(rule.Operations, admissionv1.OperationAll)
	}
	anyScope := rule.Scope == nil || *rule.Scope != admissionv1.ClusterScope
	return len(rule.ResourceNames) == 0 && anyScope && does(admissionv1.Create) && does(admissionv1.Update) &&
		has(rule.APIGroups, v1alpha1.GroupVersion.Group) && has(rule.APIVersions, v1alpha1.GroupVersion.Version) &&
		has(rule.Resources, "approvals")
}

// selects reports whether a selector excludes anything.
func selects(s *metav1.LabelSelector) bool {
	return s != nil && (len(s.MatchLabels) > 0 || len(s.MatchExpressions) > 0)
}

// binds reports whether a binding makes the policy deny, everywhere.
func binds(spec *admissionv1.ValidatingAdmissionPolicyBindingSpec) bool {
	return spec.PolicyName == PolicyName && spec.ParamRef == nil && spec.MatchResources == nil &&
		slices.Contains(spec.ValidationActions, admissionv1.Deny)
}
