package plan_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

func TestOwnerLabel(t *testing.T) {
	long := strings.Repeat("n", 40)
	tests := map[string]struct {
		owner             plan.Owner
		label, annotation string
	}{
		"short":          {plan.OwnerOf("ns", "prod"), "ns.prod", ""},
		"exactly 63":     {plan.OwnerOf(strings.Repeat("a", 31), strings.Repeat("b", 31)), strings.Repeat("a", 31) + "." + strings.Repeat("b", 31), ""},
		"one too many":   {plan.OwnerOf(strings.Repeat("a", 31), strings.Repeat("b", 32)), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbb-895d2334f5", strings.Repeat("a", 31) + "." + strings.Repeat("b", 32)},
		"a long one":     {plan.OwnerOf(long, long), "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn.nnnnnnnnnnn-13dfd1c8bf", long + "." + long},
		"a long sibling": {plan.OwnerOf(long, long+"x"), "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn.nnnnnnnnnnn-2f0f11f05e", long + "." + long + "x"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			label, annotation := test.owner.Label()
			if label != test.label || annotation != test.annotation {
				t.Errorf("got %q and %q, want %q and %q", label, annotation, test.label, test.annotation)
			}
			if problems := validation.IsValidLabelValue(label); len(problems) > 0 {
				t.Errorf("%q is no label value: %v", label, problems)
			}
		})
	}
}

func TestOwns(t *testing.T) {
	long := plan.OwnerOf(strings.Repeat("n", 40), strings.Repeat("n", 40))
	label, annotation := long.Label()
	tests := map[string]struct {
		labels, annotations map[string]string
		want                bool
	}{
		"both":               {map[string]string{v1alpha1.OwnerLabel: label}, map[string]string{v1alpha1.OwnerLabel: annotation}, true},
		"the label alone":    {map[string]string{v1alpha1.OwnerLabel: label}, nil, true},
		"another annotation": {map[string]string{v1alpha1.OwnerLabel: label}, map[string]string{v1alpha1.OwnerLabel: "x.y"}, false},
		"nothing":            {nil, nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{Object: map[string]any{}}
			object.SetLabels(test.labels)
			object.SetAnnotations(test.annotations)
			if got := long.Owns(object); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
