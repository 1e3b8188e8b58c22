package review_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/apply/applytest"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/review"
	"github.com/plumbline-dev/plumbline/reconcile/upgrade/installtest"
	"github.com/plumbline-dev/plumbline/render"
	"github.com/plumbline-dev/plumbline/render/schema"
)

// TestReservedNodesThatEndFirst are named if a commit removes their pool and Karpenter's feature gate is on.
func TestReservedNodesThatEndFirst(t *testing.T) {
	const words = "reserved capacity: if the reservation is full, Karpenter terminates node node-1 before its replacement is launched (feature gate TerminateFirstDrift)"
	for name, c := range map[string]struct {
		gates, capacity string
		names           bool
	}{
		"it is on":        {"TerminateFirstDrift=true", karpv1.CapacityTypeReserved, true},
		"it is off":       {"TerminateFirstDrift=false", karpv1.CapacityTypeReserved, false},
		"a node of spot":  {"TerminateFirstDrift=true", karpv1.CapacityTypeSpot, false},
		"nothing is said": {"", karpv1.CapacityTypeReserved, false},
	} {
		t.Run(name, func(t *testing.T) {
			made := withoutAPool(t, c.gates, c.capacity, func(*review.Step) {})
			if len(made.Plan.Removals) != 1 || slices.Contains(made.Warnings, words) != c.names {
				t.Errorf("%d removals, warnings %q", len(made.Plan.Removals), made.Warnings)
			}
		})
	}
}

// withoutAPool is a preview of a commit without the pool general, which has a node of a capacity type.
func withoutAPool(t *testing.T, gates, capacity string, change func(*review.Step)) *review.Preview {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), cluster.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	sync := &v1alpha1.NodeSync{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prod", UID: "11", Generation: 1}}
	sync.Status.Karpenter = &v1alpha1.KarpenterStatus{Management: string(render.Managed), Version: "1.14.1", Namespace: "kube-system", Cluster: "eu", Region: "eu-west-1"}
	pool := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.sh/v1", "kind": render.NodePool, "spec": map[string]any{}}}
	pool.SetName("general")
	pool.SetUID("p")
	pool.SetLabels(map[string]string{v1alpha1.OwnerLabel: "ns.prod"})
	pool.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: "karpenter.sh/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:plumbline.dev/nodesync":{}}}}`),
	}})
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "general-1", UID: "c1", Labels: map[string]string{karpv1.NodePoolLabelKey: "general", karpv1.CapacityTypeLabelKey: capacity}},
		Status:     karpv1.NodeClaimStatus{NodeName: "node-1"},
	}
	installed := installtest.Installed()
	controller, _ := installed[0].(*appsv1.Deployment)
	controller.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: []corev1.EnvVar{{Name: "FEATURE_GATES", Value: gates}}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(append(installed, sync.DeepCopy(), pool, claim)...).Build()
	step := &review.Step{
		Tools: review.Tools{
			Client: c, Helm: &installtest.Helm{}, Schemas: &schema.Cache{},
			CRDs:  func(string) ([]*apiextensionsv1.CustomResourceDefinition, error) { return applytest.CRDs(), nil },
			Store: registry{installtest.ChartFolder(t, "1.14.1", applytest.CRDs()...)},
		},
		Sync: sync, Now: time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), Withheld: true,
		Snapshot: &render.Snapshot{Revision: "main@sha1:a", Commit: "a", FS: fstest.MapFS{
			"plumbline.yaml": {Data: []byte("apiVersion: config.plumbline.dev/v1alpha1\nkind: Karpenter\ncluster: {name: eu, region: eu-west-1}\nversion: 1.14.1\nnodes: [./nodes]\n")},
			"nodes/batch.yaml": {Data: []byte("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: batch}\nspec:\n  template:\n    spec:\n" +
				"      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]\n")},
			"nodes/class.yaml": {Data: []byte("apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n  role: nodes\n" +
				"  amiSelectorTerms: [{alias: al2023@v20251002}]\n  subnetSelectorTerms: [{id: subnet-1234}]\n  securityGroupSelectorTerms: [{id: sg-1234}]\n")},
		}},
		HideValues: func([]string) {}, HideCredential: func(string) {},
	}
	change(step)
	made, err := step.Make(t.Context())
	if err != nil || made.Plan == nil {
		t.Fatalf("%v: %+v", err, made)
	}
	return made
}

// TestAStaticPoolWithoutRoom: limits.nodes that leave no room for a replacement are a warning, which depends on
// Karpenter's feature gate.
func TestAStaticPoolWithoutRoom(t *testing.T) {
	const of = "NodePool/fixed: limits.nodes 2 leaves no room to replace one of its 2 replicas: "
	for gates, c := range map[string]struct {
		words string
		stuck int
	}{
		"TerminateFirstDrift=false": {of + "Karpenter replaces no outdated node: set it to at least 3, or enable feature gate TerminateFirstDrift (Karpenter 1.15)", 1},
		"TerminateFirstDrift=true":  {of + "Karpenter terminates an outdated node before it launches the replacement (feature gate TerminateFirstDrift)", 0},
	} {
		t.Run(gates, func(t *testing.T) {
			made := withoutAPool(t, gates, karpv1.CapacityTypeSpot, func(s *review.Step) {
				files, _ := s.Snapshot.FS.(fstest.MapFS)
				fixed := strings.Replace(string(files["nodes/batch.yaml"].Data), "name: batch}\nspec:\n", "name: fixed}\nspec:\n  replicas: 2\n  limits: {nodes: 2}\n", 1)
				files["nodes/fixed.yaml"] = &fstest.MapFile{Data: []byte(fixed)}
			})
			if !slices.Contains(made.Warnings, c.words) || len(made.NodeLimits) != c.stuck {
				t.Errorf("%v, warnings %q", made.NodeLimits, made.Warnings)
			}
		})
	}
}
