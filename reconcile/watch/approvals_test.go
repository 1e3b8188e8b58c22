package watch_test

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// approvalCRD is the CRD of Approvals, Established.
func approvalCRD() *apiextensionsv1.CustomResourceDefinition {
	names := apiextensionsv1.CustomResourceDefinitionNames{Kind: v1alpha1.ApprovalKind, ListKind: v1alpha1.ApprovalKind + "List"}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ApprovalCRD},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: v1alpha1.GroupVersion.Group, Names: names,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: v1alpha1.GroupVersion.Version, Served: true, Storage: true}},
		},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			AcceptedNames: names,
			Conditions:    []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}},
		},
	}
}

// TestApprovalsAreWatchedWhereTheyAreServed: with the CRDs of an older plumbline passes go on
// without them.
func TestApprovalsAreWatchedWhereTheyAreServed(t *testing.T) {
	b := newBed(t)
	listens := func(what string, filled, serves bool) {
		t.Helper()
		if got, err := b.Listen(t.Context()); err != nil || got != filled || b.ServesApprovals() != serves {
			t.Errorf("%s: filled %t, serves %t, error %v", what, got, b.ServesApprovals(), err)
		}
	}
	listens("no CRD", true, false)
	if err := b.objects.Create(t.Context(), approvalCRD()); err != nil {
		t.Fatal(err)
	}
	b.cache.Unlisted[v1alpha1.ApprovalKind] = true
	listens("discovery does not list it", true, false)
	if slices.Contains(b.cache.Begun, v1alpha1.ApprovalKind) {
		t.Fatalf("begun: %v", b.cache.Begun)
	}
	delete(b.cache.Unlisted, v1alpha1.ApprovalKind)
	b.cache.Empty[v1alpha1.ApprovalKind] = true
	listens("its cache is empty", false, true)
	delete(b.cache.Empty, v1alpha1.ApprovalKind)
	listens("it is filled", true, true)
	if err := b.objects.Delete(t.Context(), approvalCRD()); err != nil {
		t.Fatal(err)
	}
	listens("the CRD is gone", true, false)
	if !slices.Equal(b.cache.Ended, []string{v1alpha1.ApprovalKind}) {
		t.Errorf("ended: %v", b.cache.Ended)
	}
}
