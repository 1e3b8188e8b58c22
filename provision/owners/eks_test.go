package owners

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestServedByEKS: a mark of EKS decides; beside Auto Mode, so does an unknown origin. What kubectl or Helm installed
// stays adoptable.
func TestServedByEKS(t *testing.T) {
	wrote := func(manager, fields, subresource string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const spec, labels = `{"f:spec":{"f:versions":{}}}`, `{"f:metadata":{"f:labels":{}}}`
	managers := func(entries ...metav1.ManagedFieldsEntry) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "nodepools.karpenter.sh", ManagedFields: entries}
	}
	marked := func(value string, entries ...metav1.ManagedFieldsEntry) metav1.ObjectMeta {
		object := managers(entries...)
		object.Labels = map[string]string{"app.kubernetes.io/managed-by": value}
		object.Annotations = map[string]string{"meta.helm.sh/release-name": "karpenter-crd", "meta.helm.sh/release-namespace": "kube-system"}
		return object
	}
	class := managers(wrote("unknown", spec, ""))
	class.Name = "ec2nodeclasses.karpenter.k8s.aws"
	for name, c := range map[string]struct {
		crd metav1.ObjectMeta
		// plain is the result without Auto Mode, and beside that with it.
		plain, beside bool
	}{
		"EKS's label":                         {marked("eks"), true, true},
		"EKS's label, as on its add-ons":      {marked("EKS"), true, true},
		"EKS's field manager":                 {managers(wrote("eks", spec, ""), wrote("kubectl-edit", spec, "")), true, true},
		"of Helm, which EKS writes since":     {marked("Helm", wrote("helm", spec, ""), wrote("eks", spec, "")), true, true},
		"EKS wrote something else":            {managers(wrote("kubectl", spec, ""), wrote("eks", labels, "")), false, false},
		"EKS wrote the status":                {managers(wrote("kubectl", spec, ""), wrote("eks", spec, "status")), false, false},
		"eksctl is another tool":              {marked("eksctl", wrote("kubectl", spec, "")), false, false},
		"of Helm":                             {marked("Helm", wrote("helm", spec, "")), false, false},
		"of kubectl":                          {managers(wrote("kubectl-client-side-apply", spec, "")), false, false},
		"of Terraform":                        {managers(wrote("Terraform", spec, "")), false, false},
		"of an unknown client":                {managers(wrote("unknown", spec, "")), false, true},
		"of unknown origin":                   {managers(), false, true},
		"of an unknown client, not shared":    {class, false, false},
		"trimmed, EKS's field manager":        {managers(TrimManagers(managers(wrote("eks", spec, "")).ManagedFields)...), true, true},
		"trimmed, of kubectl, and the status": {managers(TrimManagers([]metav1.ManagedFieldsEntry{wrote("kubectl", spec, ""), wrote("eks", spec, "status")})...), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if plain, beside := ServedByEKS(&c.crd, false), ServedByEKS(&c.crd, true); plain != c.plain || beside != c.beside {
				t.Errorf("ServedByEKS() = %t, and %t beside Auto Mode; want %t and %t", plain, beside, c.plain, c.beside)
			}
		})
	}
	if says := Of(&metav1.ObjectMeta{Labels: map[string]string{"app.kubernetes.io/managed-by": "eks"}}).String(); says != "managed by EKS" {
		t.Errorf("its owner is %q", says)
	}
}
