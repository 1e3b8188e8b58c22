package survey

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// TestWhoseEditItWas: of those that own a field that is not as the chart has it,
// whoever wrote last.
func TestWhoseEditItWas(t *testing.T) {
	image := fieldpath.MakePathOrDie("spec", "template", "spec", "containers", fieldpath.KeyByFields("name", "controller"), "image")
	entry := func(manager, operation string, second int64, fields string) metav1.ManagedFieldsEntry {
		at := metav1.Unix(second, 0)
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationType(operation), Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const (
		owned     = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"controller\"}":{"f:image":{}}}}}}}`
		elsewhere = `{"f:spec":{"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"sidecar\"}":{"f:image":{}}}}}}}`
	)
	rules := fieldpath.MakePathOrDie("rules")
	columns := fieldpath.MakePathOrDie("spec", "versions", fieldpath.KeyByFields("name", "v1"), "additionalPrinterColumns")
	cases := map[string]struct {
		fields   []fieldpath.Path
		managers []metav1.ManagedFieldsEntry
		want     string
	}{
		"one of several": {
			[]fieldpath.Path{image},
			[]metav1.ManagedFieldsEntry{entry("plumbline", "Update", 1, `{"f:spec":{"f:replicas":{}}}`), entry("kubectl-set", "Update", 2, owned), entry("kube-controller-manager", "Update", 3, `{"f:status":{"f:replicas":{}}}`)},
			`Deployment karpenter: spec.template.spec.containers[name="controller"].image was edited by kubectl-set (Update)`,
		},
		"the last of two": {
			[]fieldpath.Path{rules},
			[]metav1.ManagedFieldsEntry{entry("late", "Apply", 3, `{"f:rules":{}}`), entry("early", "Update", 2, `{"f:rules":{}}`)},
			"Deployment karpenter: rules was edited by late (Apply)",
		},
		"the whole that it is a part of": {
			[]fieldpath.Path{columns},
			[]metav1.ManagedFieldsEntry{entry("kubectl-patch", "Update", 2, `{"f:spec":{"f:versions":{}}}`)},
			`Deployment karpenter: spec.versions[name="v1"].additionalPrinterColumns was edited by kubectl-patch (Update)`,
		},
		"nobody owns it": {
			[]fieldpath.Path{image},
			[]metav1.ManagedFieldsEntry{entry("istio", "Update", 2, elsewhere)},
			`Deployment karpenter: spec.template.spec.containers[name="controller"].image was changed by an unknown client`,
		},
		"many fields": {
			[]fieldpath.Path{fieldpath.MakePathOrDie("d"), fieldpath.MakePathOrDie("c"), fieldpath.MakePathOrDie("b"), fieldpath.MakePathOrDie("a")},
			[]metav1.ManagedFieldsEntry{entry("k9s", "Update", 2, `{"f:b":{}}`)},
			"Deployment karpenter: a, b, c and 1 more was edited by k9s (Update)",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := edited("Deployment karpenter", c.fields, c.managers)
			if diff := cmp.Diff(c.want, got.String()); err != nil || diff != "" {
				t.Errorf("edited() (-want +got):\n%s%v", diff, err)
			}
		})
	}
	gone := Drifts([]Drift{{Object: "Role kube-system/karpenter", Deleted: true}, {Object: "Service kube-system/karpenter", Fields: []string{"spec.ports"}}})
	if want := "Role kube-system/karpenter was deleted by an unknown client; Service kube-system/karpenter: spec.ports was changed by an unknown client"; gone != want {
		t.Errorf("Drifts() = %q, want %q", gone, want)
	}
}
