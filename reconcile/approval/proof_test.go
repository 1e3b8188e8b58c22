package approval_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/plumbline-dev/plumbline/reconcile/approval"
)

// shipped reads the policy and its binding from a file of the base, or of the chart, which has no
// value in it but in its first line.
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

// TestWhatIsShippedProvesTheAuthor, from the base and from the chart; and what is altered does not.
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

// TestSinceWhenTheAuthorIsChecked is since the last change of either: one that let forged Approvals
// pass, and was put back, is one.
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
