package apply_test

import (
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/render"
)

// rewritten returns a commit in which some values are spelled differently; for those of the kubelet, this changes
// Karpenter's hash.
func rewritten(t *rapid.T, set *render.Set) *render.Set {
	after := &render.Set{Revision: "after"}
	for _, object := range set.Objects {
		if rapid.Bool().Draw(t, "rewrites "+object.Ref.String()) {
			object.Desired, object.Defaulted = inOtherWords(object.Desired), inOtherWords(object.Defaulted)
		}
		after.Objects = append(after.Objects, object)
	}
	return after
}

func inOtherWords(object *unstructured.Unstructured) *unstructured.Unstructured {
	words := map[any]any{"20": "20000m", "20000m": int64(20), "2Gi": "2048Mi", "1m": "60s", "24h": "1440m", "100m": "0.1", "1Ti": "1024Gi"}
	var rewrite func(value any) any
	rewrite = func(value any) any {
		switch v := value.(type) {
		case map[string]any:
			for key := range v {
				v[key] = rewrite(v[key])
			}
		case []any:
			for i := range v {
				v[i] = rewrite(v[i])
			}
		case string:
			if other, ok := words[v]; ok {
				return other
			}
		}
		return value
	}
	object = object.DeepCopy()
	rewrite(object.Object["spec"])
	requirements, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "requirements")
	if len(requirements) > 0 {
		slices.Reverse(requirements)
		_ = unstructured.SetNestedSlice(object.Object, requirements, "spec", "template", "spec", "requirements")
	}
	return object
}

// onlyRewritten reports whether an apply has only changed how values are spelled, by Karpenter's own types and its own
// hash.
func onlyRewritten(t *rapid.T, before, after *unstructured.Unstructured) bool {
	marks := func(o *unstructured.Unstructured) []any {
		entries := o.GetManagedFields()
		for i := range entries {
			entries[i].Time = nil
		}
		slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
			return strings.Compare(a.Manager+string(a.Operation), b.Manager+string(b.Operation))
		})
		return []any{o.GetLabels(), o.GetAnnotations(), entries}
	}
	return cmp.Equal(marks(before), marks(after)) && sameToKarpenter(t, before, after)
}

// sameToKarpenter compares what Karpenter reads of two definitions, and its hashes of them.
func sameToKarpenter(t *rapid.T, a, b *unstructured.Unstructured) bool {
	if a.GetKind() == render.EC2NodeClass {
		before, after, bundle := read[awsv1.EC2NodeClass](t, a), read[awsv1.EC2NodeClass](t, b), ""
		return before.Hash(&bundle) == after.Hash(&bundle) && alike(before.Spec, after.Spec)
	}
	before, after := read[karpv1.NodePool](t, a), read[karpv1.NodePool](t, b)
	return before.Hash() == after.Hash() && alike(before.Spec, after.Spec)
}

func alike(a, b any) bool {
	return cmp.Equal(a, b, cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 }),
		cmpopts.IgnoreFields(karpv1.NillableDuration{}, "Raw"),
		cmpopts.SortSlices(func(a, b karpv1.NodeSelectorRequirementWithMinValues) bool { return a.Key < b.Key }),
		cmpopts.SortSlices(func(a, b string) bool { return a < b }),
	)
}

func read[T any](t *rapid.T, object *unstructured.Unstructured) *T {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		t.Fatal(err)
	}
	return into
}
