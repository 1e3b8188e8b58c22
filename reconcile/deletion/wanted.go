package deletion

import (
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"

	"github.com/plumbline-dev/plumbline/manifests/guard"
	rbaccharts "github.com/plumbline-dev/plumbline/manifests/rbac-charts"
)

// Names of the manifests that the Helm chart has values for.
const (
	manifestNamespace = "plumbline-system"
	manifestKarpenter = "kube-system"
)

// chartPolicies is what the names of the policies begin with that limit what plumbline itself may write.
const chartPolicies = "plumbline-charts-"

// Setup is what the policies of a cluster depend on.
type Setup struct {
	// Namespace is plumbline's, and Karpenter that of Karpenter.
	Namespace, Karpenter string
	// Charts is true if plumbline installs Karpenter's charts: Helm's records of them are guarded too, and policies limit
	// what plumbline writes.
	Charts bool
	// WithoutGuard is true if the deletion guard is not installed on purpose.
	WithoutGuard bool
}

// Guard is one policy with its binding; nil is what a cluster does not have.
type Guard struct {
	Policy  *admissionv1.ValidatingAdmissionPolicy
	Binding *admissionv1.ValidatingAdmissionPolicyBinding
}

// Wanted are the policies that this version of plumbline installs, by name, in the order of the manifests.
func Wanted(s Setup) ([]Guard, error) {
	var files []string
	if !s.WithoutGuard {
		files = guard.Policies()
		if s.Charts {
			files = append(files, rbaccharts.Policies()...)
		}
	}
	if s.Charts {
		files = append(files, rbaccharts.Limits())
	}
	var found []Guard
	for _, file := range files {
		file = strings.NewReplacer(manifestNamespace, s.Namespace, manifestKarpenter, s.Karpenter).Replace(file)
		for document := range strings.SplitSeq(file, "\n---\n") {
			one, err := decode(document, found)
			if err != nil {
				return nil, fmt.Errorf("read the manifests of the deletion guard: %w", err)
			}
			found = one
		}
	}
	return found, nil
}

// decode adds a document to the policies before it: a binding follows its policy.
func decode(document string, before []Guard) ([]Guard, error) {
	kind := struct {
		Kind string `json:"kind"`
	}{}
	if err := yaml.Unmarshal([]byte(document), &kind); err != nil {
		return nil, err
	}
	switch {
	case kind.Kind == "": // a comment
		return before, nil
	case kind.Kind == "ValidatingAdmissionPolicy":
		policy := &admissionv1.ValidatingAdmissionPolicy{}
		err := yaml.UnmarshalStrict([]byte(document), policy)
		return append(before, Guard{Policy: policy}), err
	case kind.Kind == "ValidatingAdmissionPolicyBinding" && len(before) > 0:
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
		err := yaml.UnmarshalStrict([]byte(document), binding)
		before[len(before)-1].Binding = binding
		return before, err
	}
	return nil, fmt.Errorf("a document is of kind %q, or a binding is before its policy", kind.Kind)
}
