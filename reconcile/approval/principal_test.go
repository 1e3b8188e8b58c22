package approval_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/approval"
)

const (
	account = "111122223333"
	ops     = "arn:aws:iam::" + account + ":role/ops"
	sso     = "arn:aws:iam::" + account + ":role/AWSReservedSSO_Admin_0123456789abcdef"
	ssoDev  = "arn:aws:iam::" + account + ":role/AWSReservedSSO_Dev_0123456789abcdef"
)

// as returns an Approval by a user whom EKS has authenticated through IAM, under the user name of a mapping.
func as(user, canonical, session string) v1alpha1.Approval {
	a := by(user)
	a.Name += "-" + session
	a.Spec.AuthorUID = "aws-iam-authenticator:" + account + ":" + canonical
	a.Spec.AuthorExtra = map[string]v1alpha1.AuthorExtraValue{"canonicalArn": {canonical}, "principalId": {"AROA" + canonical}, "accessKeyId": {"ASIA" + session}}
	if session != "" {
		a.Spec.AuthorExtra["sessionName"] = v1alpha1.AuthorExtraValue{session}
	}
	return a
}

// session returns a session of a role with an access entry without a user name: EKS uses the session's ARN.
func session(role, name string) v1alpha1.Approval {
	_, short, _ := strings.Cut(role, ":role/")
	return as("arn:aws:sts::"+account+":assumed-role/"+short+"/"+name, role, name)
}

// TestPrincipalsCount: another name, or another session, of the same person does not count again.
func TestPrincipalsCount(t *testing.T) {
	withUID := func(name, uid string) v1alpha1.Approval {
		a := by(name)
		a.Spec.AuthorUID = uid
		return a
	}
	withoutCanonical := func(user, session string) v1alpha1.Approval {
		a := by(user)
		a.Spec.AuthorExtra = map[string]v1alpha1.AuthorExtraValue{"arn": {"arn:aws:sts::" + account + ":assumed-role/ops/" + session}}
		return a
	}
	trusted := []string{"arn:aws:iam::" + account + ":role/aws-reserved/sso.amazonaws.com/eu-west-1/AWSReservedSSO_Admin_0123456789abcdef", ssoDev}
	for name, c := range map[string]struct {
		of      []v1alpha1.Approval
		trusted []string
		by      []string
		says    string
	}{
		"two users of OIDC":             {of: []v1alpha1.Approval{by("ann"), by("ben")}, by: []string{"ann", "ben"}},
		"two users of IAM":              {of: []v1alpha1.Approval{as("ann", "arn:aws:iam::"+account+":user/ann", ""), as("ben", "arn:aws:iam::"+account+":user/ben", "")}, by: []string{"ann", "ben"}},
		"one UID, two names":            {of: []v1alpha1.Approval{withUID("ann", "7"), withUID("ann@corp", "7")}, by: []string{"ann"}, says: "Approval ann-yes by ann and Approval ann@corp-yes by ann@corp count once: both are one user"},
		"two UIDs, one name":            {of: []v1alpha1.Approval{withUID("ann", "7"), withUID("Ann", "8")}, by: []string{"Ann"}},
		"two UIDs, two names":           {of: []v1alpha1.Approval{withUID("ann", "7"), withUID("ben", "8")}, by: []string{"ann", "ben"}},
		"two sessions of a role":        {of: []v1alpha1.Approval{session(ops, "ann"), session(ops, "ben")}, by: []string{"arn:aws:sts::" + account + ":assumed-role/ops/ann"}, says: "both are " + ops + ", whose sessions count as one unless spec.guard.trustedSessions lists the role"},
		"sessions of two roles":         {of: []v1alpha1.Approval{session(ops, "ann"), session(sso, "ann")}, by: []string{"arn:aws:sts::" + account + ":assumed-role/AWSReservedSSO_Admin_0123456789abcdef/ann", "arn:aws:sts::" + account + ":assumed-role/ops/ann"}},
		"another role is trusted":       {of: []v1alpha1.Approval{session(ops, "ann"), session(ops, "ben")}, trusted: trusted, by: []string{"arn:aws:sts::" + account + ":assumed-role/ops/ann"}, says: "count once"},
		"a role of another account":     {of: []v1alpha1.Approval{session(ssoDev, "ann"), session(ssoDev, "ben")}, trusted: []string{strings.Replace(ssoDev, account, "999999999999", 1)}, by: []string{"arn:aws:sts::" + account + ":assumed-role/AWSReservedSSO_Dev_0123456789abcdef/ann"}, says: "count once"},
		"aws-auth names the sessions":   {of: []v1alpha1.Approval{as("ops:ann", ops, "ann"), as("ops:ben", ops, "ben")}, by: []string{"ops:ann"}, says: "Approval ops:ann-yes-ann by ops:ann and Approval ops:ben-yes-ben by ops:ben count once"},
		"two persons of a trusted role": {of: []v1alpha1.Approval{as("sso:ann", sso, "ann@corp"), as("sso:ben", sso, "ben@corp")}, trusted: trusted, by: []string{"sso:ann (session ann@corp)", "sso:ben (session ben@corp)"}},
		"all of one user name":          {of: []v1alpha1.Approval{as("admin", sso, "ann"), as("admin", sso, "ben")}, trusted: trusted, by: []string{"admin (session ann)", "admin (session ben)"}},
		"one user name, not trusted":    {of: []v1alpha1.Approval{as("admin", sso, "ann"), as("admin", sso, "ben")}, by: []string{"admin"}},
		"one person in two of them":     {of: []v1alpha1.Approval{as("a", sso, "ann@corp"), as("d", ssoDev, "Ann@corp")}, trusted: trusted, by: []string{"a (session ann@corp)"}, says: "both are one user"},
		"one person, by OIDC as well":   {of: []v1alpha1.Approval{as("a", sso, "ann@corp"), by("ann@corp")}, trusted: trusted, by: []string{"a (session ann@corp)"}, says: "both are one user"},
		"a name of federated users":     {of: []v1alpha1.Approval{as("f1", "arn:aws:sts::"+account+":federated-user/ann", ""), as("f2", "arn:aws:sts::"+account+":federated-user/ben", "")}, by: []string{"f1"}, says: "both are arn:aws:iam::" + account + ":federated-user"},
		"only the ARN of the session":   {of: []v1alpha1.Approval{withoutCanonical("ann", "ann"), withoutCanonical("ben", "ben")}, by: []string{"ann"}, says: "both are " + ops},
		"no extra fields":               {of: []v1alpha1.Approval{by("arn:aws:sts::" + account + ":assumed-role/ops/ann"), by("arn:aws:sts::" + account + ":assumed-role/ops/ben")}, trusted: []string{ops}, by: []string{"arn:aws:sts::" + account + ":assumed-role/ops/ann"}, says: "count once"},
		"one who has two others' names": {of: []v1alpha1.Approval{withUID("ann", "7"), withUID("ben", "8"), withUID("ben", "7")}, by: []string{"ann"}, says: "count once"},
	} {
		t.Run(name, func(t *testing.T) {
			held := &v1alpha1.HeldPlan{Digest: full, Needed: 2}
			for i := range c.of {
				c.of[i].UID = ""
			}
			enough := approval.Count(held, approval.MayCount(held, c.of, nil, now), approval.Proof{Since: now.Add(-time.Hour)}, c.trusted)
			diff := cmp.Diff(c.by, held.Approvers)
			if enough != (len(c.by) > 1) || diff != "" || !strings.Contains(held.Message, c.says) || c.says == "" && held.Message != "" {
				t.Errorf("enough: %t, says %q, by (-want +got):\n%s", enough, held.Message, diff)
			}
		})
	}
}

// shipped reads the policy and its binding from a file of the base, or of the chart, which only has a template value in
// its first line.
func shipped(t *testing.T, path string) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if line, rest, _ := bytes.Cut(raw, []byte("\n")); bytes.HasPrefix(line, []byte("{{- /*")) {
		raw = rest
	}
	policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for _, into := range []any{policy, binding} {
		if err := decoder.Decode(into); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if err := decoder.Decode(&metav1.PartialObjectMetadata{}); !errors.Is(err, io.EOF) {
		t.Fatalf("%s: more than two objects: %v", path, err)
	}
	return policy, binding
}

// TestWhatIsShippedProvesTheAuthor, from the base and from the chart, unless it is altered.
func TestWhatIsShippedProvesTheAuthor(t *testing.T) {
	for _, path := range []string{"../../manifests/guard/approvals.yaml", "../../manifests/chart/templates/guard/approvals.yaml"} {
		policy, binding := shipped(t, path)
		if proof := approval.Prove(policy, binding); proof.Missing != "" {
			t.Errorf("%s: %s", path, proof.Missing)
		}
	}
	type policyOf = admissionv1.ValidatingAdmissionPolicy
	type bindingOf = admissionv1.ValidatingAdmissionPolicyBinding
	for name, alter := range map[string]func(*policyOf, *bindingOf){
		"failures are ignored":   func(p *policyOf, _ *bindingOf) { ignore := admissionv1.Ignore; p.Spec.FailurePolicy = &ignore },
		"the author is free":     func(p *policyOf, _ *bindingOf) { p.Spec.Validations = p.Spec.Validations[1:] },
		"its UID is free":        func(p *policyOf, _ *bindingOf) { p.Spec.Validations = slices.Delete(p.Spec.Validations, 1, 2) },
		"its role is free":       func(p *policyOf, _ *bindingOf) { p.Spec.Validations = slices.Delete(p.Spec.Validations, 2, 3) },
		"a program may approve":  func(p *policyOf, _ *bindingOf) { p.Spec.Validations = slices.Delete(p.Spec.Validations, 3, 4) },
		"it can be changed":      func(p *policyOf, _ *bindingOf) { p.Spec.Validations = slices.Delete(p.Spec.Validations, 4, 5) },
		"an expression is other": func(p *policyOf, _ *bindingOf) { p.Spec.Validations[0].Expression += " || true" },
		"updates go past it": func(p *policyOf, _ *bindingOf) {
			p.Spec.MatchConstraints.ResourceRules[0].Operations = []admissionv1.OperationType{admissionv1.Create}
		},
		"a condition lets some past it": func(p *policyOf, _ *bindingOf) {
			p.Spec.MatchConditions = []admissionv1.MatchCondition{{Name: "a", Expression: "false"}}
		},
		"a label lets some past it": func(p *policyOf, _ *bindingOf) {
			p.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"it only warns": func(_ *policyOf, b *bindingOf) {
			b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
		},
		"it binds another one": func(_ *policyOf, b *bindingOf) { b.Spec.PolicyName = "plumbline-guard-crds" },
		"it binds in some namespaces": func(_ *policyOf, b *bindingOf) {
			b.Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			policy, binding := shipped(t, "../../manifests/guard/approvals.yaml")
			alter(policy, binding)
			if approval.Prove(policy, binding).Missing == "" {
				t.Error("it counts as unaltered")
			}
		})
	}
	if approval.Prove(nil, nil).Missing == "" {
		t.Error("none counts as one")
	}
}

// TestSinceWhenTheAuthorIsChecked: since the last change of either, including one that let forged Approvals pass and
// was reverted.
func TestSinceWhenTheAuthorIsChecked(t *testing.T) {
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	changed := func(object metav1.Object, after time.Duration, subresource string, generation int64) {
		at := metav1.NewTime(created.Add(after))
		object.SetGeneration(generation)
		object.SetManagedFields(append(object.GetManagedFields(), metav1.ManagedFieldsEntry{Manager: "kubectl-edit", Time: &at, Subresource: subresource}))
	}
	for name, c := range map[string]struct {
		change func(*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding)
		want   time.Duration
	}{
		"the younger of the two": {func(_ *admissionv1.ValidatingAdmissionPolicy, b *admissionv1.ValidatingAdmissionPolicyBinding) {
			b.CreationTimestamp = metav1.NewTime(created.Add(time.Minute))
		}, time.Minute},
		"the policy was changed and put back": {func(p *admissionv1.ValidatingAdmissionPolicy, _ *admissionv1.ValidatingAdmissionPolicyBinding) {
			changed(p, time.Hour, "", 3)
		}, time.Hour},
		"the binding was changed": {func(_ *admissionv1.ValidatingAdmissionPolicy, b *admissionv1.ValidatingAdmissionPolicyBinding) {
			changed(b, time.Hour, "", 2)
		}, time.Hour},
		"a label was set": {func(p *admissionv1.ValidatingAdmissionPolicy, _ *admissionv1.ValidatingAdmissionPolicyBinding) {
			changed(p, time.Hour, "", 1)
		}, 0},
		"its status was written": {func(p *admissionv1.ValidatingAdmissionPolicy, _ *admissionv1.ValidatingAdmissionPolicyBinding) {
			changed(p, time.Hour, "status", 2)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			policy, binding := shipped(t, "../../manifests/guard/approvals.yaml")
			policy.CreationTimestamp, binding.CreationTimestamp = metav1.NewTime(created), metav1.NewTime(created)
			c.change(policy, binding)
			if since := approval.Prove(policy, binding).Since; !since.Equal(created.Add(c.want)) {
				t.Errorf("since %s", since)
			}
		})
	}
}
