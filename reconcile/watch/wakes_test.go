package watch_test

import (
	"errors"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
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

// serving reports whether Approvals are watched, and their watch is not rejected.
func serving(t *testing.T, b *bed) bool {
	t.Helper()
	serves, refused := b.ServesApprovals()
	if refused != nil {
		t.Errorf("refused: %v", refused)
	}
	return serves
}

// TestApprovalsAreWatchedWhereTheyAreServed: with the CRDs of an older plumbline, reconciles continue without them.
func TestApprovalsAreWatchedWhereTheyAreServed(t *testing.T) {
	b := newBed(t)
	listens := func(what string, filled, serves bool) {
		t.Helper()
		if got, err := b.Listen(t.Context()); serving(t, b) != serves || err != nil || got != filled {
			t.Errorf("%s: filled %t, serves %t, error %v", what, got, serving(t, b), err)
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

// reflector is one that fills the cache of Approvals once a role allows it.
type reflector struct{ version string }

func (r *reflector) LastSyncResourceVersion() string { return r.version }
func (r *reflector) TypeDescription() string         { return "*v1alpha1.Approval" }

// TestARoleWithoutApprovals: with the roles of an older plumbline, reconciles continue, and the missing permission is
// reported. Once it is granted, Approvals are read without a restart.
func TestARoleWithoutApprovals(t *testing.T) {
	b := newBed(t, approvalCRD())
	b.cache.Empty[v1alpha1.ApprovalKind] = true
	if filled, err := b.Listen(t.Context()); filled || err != nil {
		t.Fatalf("before the API server has answered: filled %t, error %v", filled, err)
	}
	watch := &reflector{}
	b.Refusals.Note(watch, apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("approvals").GroupResource(), "", errors.New("no role")))
	if filled, err := b.Listen(t.Context()); !filled || err != nil {
		t.Fatalf("refused: filled %t, error %v", filled, err)
	}
	if serves, refused := b.ServesApprovals(); serves || !apierrors.IsForbidden(refused) {
		t.Errorf("refused: serves %t, as %v", serves, refused)
	}
	watch.version = "7"
	delete(b.cache.Empty, v1alpha1.ApprovalKind)
	if filled, err := b.Listen(t.Context()); !filled || err != nil || !serving(t, b) {
		t.Errorf("allowed: filled %t, error %v", filled, err)
	}
}

// TestAnotherWatchThatIsRefused blocks reconciles: what is missing from its cache may exist.
func TestAnotherWatchThatIsRefused(t *testing.T) {
	b := newBed(t)
	b.Refusals.Note(claimReflector{}, apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("nodeclaims").GroupResource(), "", errors.New("no role")))
	if _, err := b.Listen(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
}

type claimReflector struct{}

func (claimReflector) LastSyncResourceVersion() string { return "" }
func (claimReflector) TypeDescription() string         { return "*v1.NodeClaim" }

// overlayReflector fills the cache of NodeOverlays.
type overlayReflector struct{ version string }

func (r *overlayReflector) LastSyncResourceVersion() string { return r.version }
func (r *overlayReflector) TypeDescription() string         { return "karpenter.sh/v1alpha1, Kind=NodeOverlay" }

// TestAnOptionalKindIsWatchedWhileItIsServed: no reconcile waits for its CRD, nor for a watch that the roles of an older
// version do not allow.
func TestAnOptionalKindIsWatchedWhileItIsServed(t *testing.T) {
	b := newBed(t, served()...)
	listens := func(what string, begun, ended int) {
		t.Helper()
		if filled, err := b.Listen(t.Context()); !filled || err != nil || len(b.cache.Begun) != begun || len(b.cache.Ended) != ended {
			t.Errorf("%s: filled %t, error %v, begun: %v, ended: %v", what, filled, err, b.cache.Begun, b.cache.Ended)
		}
	}
	listens("without its CRD", always+3, 0)
	crd := installtest.Served("nodeoverlays.karpenter.sh")
	if err := b.objects.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	b.cache.Unlisted["NodeOverlay"] = true
	listens("which discovery does not list yet", always+3, 0)
	delete(b.cache.Unlisted, "NodeOverlay")
	b.cache.Empty["NodeOverlay"] = true
	if filled, err := b.Listen(t.Context()); filled || err != nil {
		t.Errorf("not synced: filled %t, error %v", filled, err)
	}
	overlays, _ := render.KindOf(render.NodeOverlay)
	refused := &overlayReflector{}
	b.Refusals.Note(refused, apierrors.NewForbidden(overlays.GVR.GroupResource(), "", errors.New("no role")))
	listens("refused", always+4, 0)
	if b.Refusals.Of(overlays) == nil {
		t.Error("it is not refused")
	}
	refused.version = "7"
	delete(b.cache.Empty, "NodeOverlay")
	listens("allowed", always+4, 0)
	if err := b.objects.Delete(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	listens("no longer served", always+4, 1)
}
