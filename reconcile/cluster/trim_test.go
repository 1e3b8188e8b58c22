package cluster_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	awsstatus "github.com/awslabs/operatorpkg/status"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/provision/owners"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// kept returns what the watch cache keeps of an object, by the rules for its type.
func kept[T client.Object](t *testing.T, obj T) T {
	t.Helper()
	options := cluster.CacheOptions(&cluster.Refusals{})
	transform := options.DefaultTransform
	for of, rule := range options.ByObject {
		if _, ok := of.(T); ok {
			transform = rule.Transform
		}
	}
	trimmed, err := transform(obj)
	if err != nil {
		t.Fatal(err)
	}
	again, err := transform(trimmed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(trimmed, again); diff != "" {
		t.Errorf("trimmed twice:\n%s", diff)
	}
	return trimmed.(T)
}

// TestTrimApproval: only the parts of an Approval that plumbline reads are kept, because its creator controls its
// content.
func TestTrimApproval(t *testing.T) {
	labels := map[string]string{"a": strings.Repeat("x", 63)}
	of := &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", Labels: labels, Annotations: labels, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}, Spec: v1alpha1.ApprovalSpec{Digest: "sha256:1"}}
	want := &v1alpha1.Approval{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}, Spec: v1alpha1.ApprovalSpec{Digest: "sha256:1"}}
	if diff := cmp.Diff(want, kept(t, of.DeepCopy())); diff != "" {
		t.Error(diff)
	}
}

// claim is a NodeClaim of realistic size: 60 instance types to choose from, nine conditions, all labels.
func claim() *karpv1.NodeClaim {
	yes := true
	deleted := metav1.Unix(1_700_000_000, 0)
	n := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "general-x7k2p", UID: "5f6d2f5e-7a51-4f6f-9f5b-0c1f0b9d8a11", ResourceVersion: "123456", Generation: 1,
		CreationTimestamp: metav1.Unix(deleted.Unix()-95, 0), DeletionTimestamp: &deleted, Finalizers: []string{"karpenter.sh/termination"},
		Labels:      map[string]string{karpv1.NodePoolLabelKey: "general"},
		Annotations: map[string]string{"karpenter.sh/nodepool-hash": strings.Repeat("1", 20)},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "karpenter.sh/v1", Kind: "NodePool", Name: "general", UID: "c2e6b3b0-5b0e-4d50-8c9e-7d7f3c1a2b33", BlockOwnerDeletion: &yes,
		}},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "karpenter", FieldsV1: metav1.NewFieldsV1(`{"f:spec":"` + strings.Repeat("x", 3000) + `"}`)}},
	}}
	for i := range 20 {
		n.Labels[fmt.Sprintf("karpenter.k8s.aws/instance-property-%d", i)] = "value"
	}
	n.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	requirement := karpv1.NodeSelectorRequirementWithMinValues{Key: "node.kubernetes.io/instance-type", Operator: corev1.NodeSelectorOpIn}
	for i := range 60 {
		requirement.Values = append(requirement.Values, fmt.Sprintf("m%d.24xlarge", i))
	}
	n.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{requirement}
	n.Status.ProviderID, n.Status.NodeName, n.Status.ImageID = "aws:///eu-west-1a/i-0123456789abcdef0", "ip-10-0-0-1.ec2.internal", "ami-0123456789abcdef0"
	n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("96"), corev1.ResourceMemory: resource.MustParse("384Gi")}
	n.Status.Allocatable = n.Status.Capacity
	for _, kind := range []string{"Launched", "Registered", "Initialized", "Consolidatable", "Drifted", "Drained", "VolumesDetached", "InstanceTerminating", "Ready"} {
		n.Status.Conditions = append(n.Status.Conditions, awsstatus.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: deleted, ObservedGeneration: 1})
	}
	return n
}

func TestTrimNodeClaim(t *testing.T) {
	full := claim()
	before, known := size(t, full), cluster.NodeClaim(full)
	trimmed := kept(t, full.DeepCopy())

	if diff := cmp.Diff(known, cluster.NodeClaim(trimmed)); diff != "" {
		t.Errorf("what a Plan asks about has changed:\n%s", diff)
	}
	if diff := cmp.Diff(full.Status.Conditions[4:8], trimmed.Status.Conditions); diff != "" {
		t.Errorf("conditions, of which a diagnosis is made:\n%s", diff)
	}
	if diff := cmp.Diff(full.Finalizers, trimmed.Finalizers); diff != "" || trimmed.ResourceVersion != full.ResourceVersion {
		t.Errorf("what a delete's precondition needs: %q %s", trimmed.ResourceVersion, diff)
	}
	const most = 2350
	if after := size(t, trimmed); after > most || before < 2*after {
		t.Errorf("a NodeClaim of %d bytes is kept with %d, want at most %d", before, after, most)
	}
}

// TestTrimmedNodeClaimsAreInitializedOrNot: the state is kept, but not the reason, which changes often.
func TestTrimmedNodeClaimsAreInitializedOrNot(t *testing.T) {
	for is, want := range map[metav1.ConditionStatus][]awsstatus.Condition{
		metav1.ConditionUnknown: {{Type: "Initialized", Status: metav1.ConditionUnknown}},
		metav1.ConditionFalse:   {{Type: "Initialized", Status: metav1.ConditionUnknown}},
		metav1.ConditionTrue:    nil,
	} {
		full := &karpv1.NodeClaim{}
		full.Status.NodeName = "ip-10-0-0-1.ec2.internal"
		full.Status.Conditions = []awsstatus.Condition{{Type: "Initialized", Status: is, Reason: "NodeNotReady", Message: "status: False", LastTransitionTime: metav1.Now()}}
		for _, claim := range []*karpv1.NodeClaim{full, kept(t, full.DeepCopy())} {
			if got := cluster.NodeClaim(claim).Initialized; got != (want == nil) {
				t.Errorf("%s: initialized %t", is, got)
			}
		}
		if diff := cmp.Diff(want, kept(t, full).Status.Conditions); diff != "" {
			t.Errorf("%s:\n%s", is, diff)
		}
	}
}

func TestTrimCRD(t *testing.T) {
	full := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "nodepools.karpenter.sh", UID: "1", Generation: 4, ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "helm"}, {Manager: "eks", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:versions":{}}}`)},
		}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{
			{Name: "v1", Served: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Description: strings.Repeat("long ", 20_000)}}},
		}},
		Status: apiextensionsv1.CustomResourceDefinitionStatus{
			Conditions:    []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}},
			AcceptedNames: apiextensionsv1.CustomResourceDefinitionNames{Kind: "NodePool", ListKind: "NodePoolList"},
		},
	}
	trimmed := kept(t, full)
	if pools, _ := render.KindOf(render.NodePool); !cluster.Serves(trimmed, pools.GVK).Ready || trimmed.Name != full.Name || trimmed.Generation != 4 {
		t.Errorf("kept: %+v", trimmed)
	}
	if !owners.ServedByEKS(trimmed, false) {
		t.Errorf("who wrote it is not kept: %+v", trimmed.ManagedFields)
	}
	if got := size(t, trimmed); got > 1000 {
		t.Errorf("a CRD is kept with %d bytes", got)
	}
}

func TestTrimDeployment(t *testing.T) {
	full := deployment(func(d *appsv1.Deployment) {
		d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "helm"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "controller", Env: []corev1.EnvVar{{Name: "SECRET", Value: strings.Repeat("x", 5000)}}}}
	})
	trimmed := kept(t, full)
	if got := cluster.RolledOut(trimmed); !got.Ready {
		t.Errorf("complete before, now %s", got.Message)
	}
	if got := size(t, trimmed); got > 1000 {
		t.Errorf("a Deployment is kept with %d bytes", got)
	}
}

// TestCacheSeesKarpenterAlone: other Deployments take no memory.
func TestCacheSeesKarpenterAlone(t *testing.T) {
	for of, rule := range cluster.CacheOptions(&cluster.Refusals{}).ByObject {
		if _, ok := of.(*appsv1.Deployment); !ok {
			continue
		}
		if rule.Label.Matches(labels.Set{"app.kubernetes.io/name": "coredns"}) || !rule.Label.Matches(labels.Set{"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "x"}) {
			t.Errorf("the cache selects %s", rule.Label)
		}
		return
	}
	t.Error("Deployments are not selected by label")
}

func size(t *testing.T, obj any) int {
	t.Helper()
	raw, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return len(raw)
}

// full is a NodePool as the API server has it after some weeks.
func full() *unstructured.Unstructured {
	object := pool(
		map[string]any{"type": "NodeClassReady", "status": "True", "message": strings.Repeat("x", 500)},
		map[string]any{"type": "Ready", "status": "True", "observedGeneration": int64(2), "lastTransitionTime": "2026-11-21T00:00:00Z"},
	)
	object.Object["spec"] = map[string]any{"weight": int64(3), "limits": map[string]any{"cpu": "10"}, "list": []any{"a", map[string]any{"b": int64(1)}}}
	object.Object["status"].(map[string]any)["resources"] = map[string]any{"cpu": "10", "memory": "4Gi"}
	object.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 3000), "team": "a"})
	when := metav1.Unix(1, 0)
	object.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "plumbline", Operation: "Apply", APIVersion: "karpenter.sh/v1", Time: &when, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:weight":{}}}`)},
		{Manager: "karpenter", Operation: "Update", Subresource: "status", Time: &when, FieldsV1: metav1.NewFieldsV1(`{"f:status":{"f:conditions":{}}}`)},
	})
	return object
}

// TestTrimmingLeavesTheObjectAlone: an object that is trimmed again is shared, and may be read at that time.
func TestTrimmingLeavesTheObjectAlone(t *testing.T) {
	transform := cluster.CacheOptions(&cluster.Refusals{}).DefaultTransform
	for _, name := range []string{"as it came", "trimmed"} {
		object := full()
		if name == "trimmed" {
			object = kept(t, object)
		}
		before := object.DeepCopy()
		if trimmed, err := transform(object); err != nil || trimmed == any(object) {
			t.Errorf("%s: given back itself, %v", name, err)
		}
		if diff := cmp.Diff(before, object); diff != "" {
			t.Errorf("%s: changed:\n%s", name, diff)
		}
	}
}

func TestTrimDefinition(t *testing.T) {
	want := full()
	trimmed := kept(t, full())
	if diff := cmp.Diff(want.Object["spec"], trimmed.Object["spec"]); diff != "" {
		t.Errorf("spec:\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"team": "a"}, trimmed.GetAnnotations()); diff != "" {
		t.Errorf("annotations:\n%s", diff)
	}
	if !plan.Applied(trimmed) {
		t.Error("it is not known any more that we applied it")
	}
	if before, after := cluster.Ready(plan.NewObject(want)), cluster.Ready(plan.NewObject(trimmed)); before != after || !after.Ready {
		t.Errorf("readiness %+v, was %+v", after, before)
	}
	if used := trimmed.Object["status"].(map[string]any)["resources"]; !cmp.Equal(used, map[string]any{"cpu": "10"}) || plan.LimitReached(trimmed) != "cpu" {
		t.Errorf("kept of what it uses: %v; limit reached: %q", used, plan.LimitReached(trimmed))
	}
	metadata := []any{trimmed.GetName(), trimmed.GetGeneration(), trimmed.GetLabels(), trimmed.GroupVersionKind()}
	if diff := cmp.Diff([]any{want.GetName(), want.GetGeneration(), want.GetLabels(), want.GroupVersionKind()}, metadata); diff != "" {
		t.Errorf("metadata:\n%s", diff)
	}
	if got := size(t, trimmed); got > 700 {
		t.Errorf("kept with %d bytes: %v", got, trimmed.Object)
	}
}

// TestTrimmedClassesAreResolvedOrNot: after a restart, nodes are compared with the subnets and security groups of the current spec.
func TestTrimmedClassesAreResolvedOrNot(t *testing.T) {
	for name, c := range map[string]struct {
		generation int64
		subnets    string
		want       string
	}{
		"resolved":          {1, "True", ""},
		"for an older spec": {2, "True", "Karpenter has not resolved the subnets and security groups of EC2NodeClass/default"},
		"not found":         {1, "False", "EC2NodeClass/default: SubnetsReady: SubnetsNotFound: none matches"},
	} {
		condition := func(kind, status string) any {
			return map[string]any{"type": kind, "status": status, "observedGeneration": int64(1), "reason": "SubnetsNotFound", "message": "none matches", "lastTransitionTime": "2026-11-24T12:00:00Z"}
		}
		class := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": "default", "generation": c.generation},
			"status": map[string]any{"conditions": []any{condition("SubnetsReady", c.subnets), condition("SecurityGroupsReady", "True")}},
		}}
		if got := plan.UnresolvedNetwork(plan.NewObject(kept(t, class))); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestTrimmedClassesKeepWhatTheyResolveTo: only the IDs, in a stable order.
func TestTrimmedClassesKeepWhatTheyResolveTo(t *testing.T) {
	class := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "karpenter.k8s.aws/v1", "kind": render.EC2NodeClass, "metadata": map[string]any{"name": "default"}}}
	resolves("subnets", "subnet-2", "subnet-1")(class)
	want := map[string]any{"subnets": []any{map[string]any{"id": "subnet-1"}, map[string]any{"id": "subnet-2"}}}
	if diff := cmp.Diff(want, kept(t, class).Object["status"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
