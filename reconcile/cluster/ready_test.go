package cluster_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
	"github.com/plumbline-dev/plumbline/render"
)

// deployment is one whose rollout of two replicas is complete.
func deployment(change func(*appsv1.Deployment)) *appsv1.Deployment {
	two := int32(2)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "karpenter", Generation: 3},
		Spec:       appsv1.DeploymentSpec{Replicas: &two},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2},
	}
	change(d)
	return d
}

func TestRolledOut(t *testing.T) {
	cases := map[string]struct {
		change func(*appsv1.Deployment)
		want   string
	}{
		"complete":          {func(*appsv1.Deployment) {}, ""},
		"no replicas named": {func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, ""},
		"none named, none there": {func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Status = nil, appsv1.DeploymentStatus{ObservedGeneration: 3}
		}, "deployment/karpenter: 0 of 1 replicas updated and available"},
		"scaled to none": {func(d *appsv1.Deployment) {
			*d.Spec.Replicas, d.Status = 0, appsv1.DeploymentStatus{ObservedGeneration: 3}
		}, "deployment/karpenter is scaled to 0"},
		"never observed":      {func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }, "deployment/karpenter: newest spec not observed yet"},
		"older spec observed": {func(d *appsv1.Deployment) { d.Status.ObservedGeneration = 2 }, "deployment/karpenter: newest spec not observed yet"},
		"one not updated":     {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }, "deployment/karpenter: 1 of 2 replicas updated and available"},
		"one of the old left": {func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, "deployment/karpenter: 2 of 2 replicas updated and available"},
		"one not available":   {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }, "deployment/karpenter: 1 of 2 replicas updated and available"},
		"being deleted":       {func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }, "deployment/karpenter is being deleted"},
		"progressing": {func(d *appsv1.Deployment) {
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}}
		}, ""},
		"over its deadline": {func(d *appsv1.Deployment) {
			d.Status.AvailableReplicas = 0
			d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}, "deployment/karpenter: rollout exceeded its progress deadline"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := cluster.RolledOut(deployment(c.change))
			if diff := cmp.Diff(cluster.Readiness{Ready: c.want == "", Message: c.want}, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAlive(t *testing.T) {
	cases := map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"complete":                        {func(*appsv1.Deployment) {}, true},
		"one of two ready":                {func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }, true},
		"no replicas named":               {func(d *appsv1.Deployment) { d.Spec.Replicas = nil }, true},
		"none ready":                      {func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 0 }, false},
		"scaled to none, one still ready": {func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 }, false},
		"being deleted":                   {func(d *appsv1.Deployment) { d.DeletionTimestamp = &metav1.Time{} }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cluster.Alive(deployment(c.change)); got != c.want {
				t.Errorf("alive: %t, want %t", got, c.want)
			}
		})
	}
}

func TestEstablished(t *testing.T) {
	condition := func(kind apiextensionsv1.CustomResourceDefinitionConditionType, status apiextensionsv1.ConditionStatus) apiextensionsv1.CustomResourceDefinitionStatus {
		return apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{{Type: kind, Status: status}}}
	}
	cases := map[string]struct {
		status  apiextensionsv1.CustomResourceDefinitionStatus
		deleted *metav1.Time
		want    string
	}{
		"established":     {status: condition(apiextensionsv1.Established, apiextensionsv1.ConditionTrue)},
		"not established": {status: condition(apiextensionsv1.Established, apiextensionsv1.ConditionFalse), want: "nodepools.karpenter.sh is not Established yet"},
		"names alone":     {status: condition(apiextensionsv1.NamesAccepted, apiextensionsv1.ConditionTrue), want: "nodepools.karpenter.sh is not Established yet"},
		"new":             {want: "nodepools.karpenter.sh is not Established yet"},
		"being deleted":   {status: condition(apiextensionsv1.Established, apiextensionsv1.ConditionTrue), deleted: &metav1.Time{}, want: "nodepools.karpenter.sh is being deleted with every object of its kind"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "nodepools.karpenter.sh", DeletionTimestamp: c.deleted}, Status: c.status}
			if diff := cmp.Diff(cluster.Readiness{Ready: c.want == "", Message: c.want}, cluster.Established(crd)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestServes: the CRD of a kind that is no longer served stays Established.
func TestServes(t *testing.T) {
	const not = "nodepools.karpenter.sh does not serve v1 of NodePool"
	pools, _ := render.KindOf(render.NodePool)
	for name, c := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   string
	}{
		"as released":      {func(*apiextensionsv1.CustomResourceDefinition) {}, ""},
		"not served":       {func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[1].Served = false }, not},
		"another version":  {func(c *apiextensionsv1.CustomResourceDefinition) { c.Spec.Versions[1].Name = "v2" }, not},
		"another kind":     {func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.AcceptedNames.Kind = "Pool" }, not},
		"lists of another": {func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.AcceptedNames.ListKind = "Pools" }, not},
		"not established":  {func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.Conditions = nil }, "nodepools.karpenter.sh is not Established yet"},
	} {
		t.Run(name, func(t *testing.T) {
			crd := &apiextensionsv1.CustomResourceDefinition{
				ObjectMeta: metav1.ObjectMeta{Name: pools.CRD},
				Spec:       apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1beta1", Served: true}, {Name: "v1", Served: true}}},
				Status: apiextensionsv1.CustomResourceDefinitionStatus{
					Conditions:    []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}},
					AcceptedNames: apiextensionsv1.CustomResourceDefinitionNames{Kind: "NodePool", ListKind: "NodePoolList"},
				},
			}
			c.change(crd)
			if diff := cmp.Diff(cluster.Readiness{Ready: c.want == "", Message: c.want}, cluster.Serves(crd, pools.GVK)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// pool is a NodePool of generation 2 with conditions.
func pool(conditions ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "karpenter.sh/v1", "kind": "NodePool",
		"metadata": map[string]any{"name": "general", "generation": int64(2), "labels": map[string]any{"team": "a"}},
		"status":   map[string]any{"conditions": conditions},
	}}
}

func ready(status string, observed int64) map[string]any {
	return map[string]any{"type": "Ready", "status": status, "observedGeneration": observed, "reason": "NodeClassNotReady", "message": "no subnet"}
}

// denied is a pool that is not Ready for two reasons, with Karpenter's messages (karpenter-provider-aws
// pkg/controllers/nodeclass/validation.go).
func denied() *unstructured.Unstructured {
	return pool(ready("False", 2),
		map[string]any{"type": "ValidationSucceeded", "status": "False", "reason": "CreateFleetAuthCheckFailed", "message": "Controller isn't authorized to call ec2:CreateFleet"},
		map[string]any{"type": "SubnetsReady", "status": "True", "reason": "SubnetsReady", "message": "all is well"},
		map[string]any{"type": "AMIsReady", "status": "False", "reason": "AMINotFound", "message": "AMISelector did not match any AMIs"},
		map[string]any{"type": "Drifting", "status": "Unknown", "reason": "AwaitingReconciliation", "message": "object is awaiting reconciliation"},
		map[string]any{"type": "Wordless", "status": "False", "reason": "Odd"})
}

const deniedWords = "; AMIsReady: AMINotFound: AMISelector did not match any AMIs" +
	"; ValidationSucceeded: CreateFleetAuthCheckFailed: Controller isn't authorized to call ec2:CreateFleet"

// TestTheCacheKeepsWhyOneIsNotReady, and admits the event if that changes.
func TestTheCacheKeepsWhyOneIsNotReady(t *testing.T) {
	want := cluster.Ready(plan.NewObject(denied())).Message
	before, after := kept(t, pool(ready("False", 2))), kept(t, denied())
	if got := cluster.Ready(plan.NewObject(after)).Message; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if !cluster.DefinitionChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("nobody is woken by it")
	}
	conditions, _, _ := unstructured.NestedSlice(after.Object, "status", "conditions")
	if len(conditions) != 5 { // Ready, those that are False, and SubnetsReady
		t.Errorf("kept: %v", conditions)
	}
}

func TestReady(t *testing.T) {
	deleted := pool(ready("True", 2))
	deleted.SetDeletionTimestamp(&metav1.Time{Time: metav1.Now().Time})
	broken := pool()
	broken.Object["status"] = "odd"
	cases := map[string]struct {
		object *unstructured.Unstructured
		want   string
	}{
		"ready":                 {pool(ready("True", 2)), ""},
		"ready of an old spec":  {pool(ready("True", 1)), "NodePool/general: newest spec not observed yet"},
		"says no generation":    {pool(map[string]any{"type": "Ready", "status": "True"}), "NodePool/general: newest spec not observed yet"},
		"not ready":             {pool(ready("False", 2)), "NodePool/general is not Ready: NodeClassNotReady: no subnet"},
		"unknown":               {pool(ready("Unknown", 2)), "NodePool/general is not Ready: NodeClassNotReady: no subnet"},
		"why":                   {denied(), "NodePool/general is not Ready: NodeClassNotReady: no subnet" + deniedWords},
		"other conditions only": {pool(map[string]any{"type": "ValidationSucceeded", "status": "True", "observedGeneration": int64(2)}), "NodePool/general has no Ready condition yet"},
		"second of two":         {pool(map[string]any{"type": "ValidationSucceeded", "status": "False"}, ready("True", 2)), ""},
		"no condition":          {pool(), "NodePool/general has no Ready condition yet"},
		"a status that is text": {broken, "NodePool/general has no Ready condition yet"},
		"ready, being deleted":  {deleted, "NodePool/general is being deleted"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(cluster.Readiness{Ready: c.want == "", Message: c.want}, cluster.Ready(plan.NewObject(c.object))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestNotReadySince is the later of the transition and the apply; entries of others, and of the status, do not count.
func TestNotReadySince(t *testing.T) {
	entry := func(manager, operation, subresource, at string) any {
		return map[string]any{"manager": manager, "operation": operation, "subresource": subresource, "time": at}
	}
	ready := map[string]any{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-03-01T12:00:00Z"}
	for name, c := range map[string]struct {
		conditions, fields []any
		want               string
	}{
		"no condition":          {nil, []any{entry("plumbline", "Apply", "", "2026-03-01T13:00:00Z")}, "0001-01-01T00:00:00Z"},
		"an older apply":        {[]any{ready}, []any{entry("plumbline", "Apply", "", "2026-03-01T11:00:00Z")}, "2026-03-01T12:00:00Z"},
		"a newer apply":         {[]any{ready}, []any{entry("plumbline", "Apply", "", "2026-03-01T13:00:00Z")}, "2026-03-01T13:00:00Z"},
		"a write by Karpenter":  {[]any{ready}, []any{entry("karpenter", "Update", "", "2026-03-01T13:00:00Z")}, "2026-03-01T12:00:00Z"},
		"a write of the status": {[]any{ready}, []any{entry("plumbline", "Apply", "status", "2026-03-01T13:00:00Z")}, "2026-03-01T12:00:00Z"},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"managedFields": c.fields}, "status": map[string]any{"conditions": c.conditions}}}
		if got := cluster.NotReadySince(object).UTC().Format(time.RFC3339); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestOptionalKindsAreReadyUntilKarpenterSaysOtherwise: it reports nothing while their feature gate is off.
func TestOptionalKindsAreReadyUntilKarpenterSaysOtherwise(t *testing.T) {
	condition := func(kind, status, reason string) map[string]any {
		return map[string]any{"type": kind, "status": status, "observedGeneration": int64(2), "reason": reason, "message": "because"}
	}
	for name, c := range map[string]struct {
		ref        render.Ref
		conditions []any
		want       string
	}{
		"an overlay, gate off":           {ref: render.Ref{Kind: render.NodeOverlay, Name: "a"}},
		"an overlay":                     {ref: render.Ref{Kind: render.NodeOverlay, Name: "a"}, conditions: []any{condition("Ready", "True", "Ready")}},
		"an overlay in conflict":         {render.Ref{Kind: render.NodeOverlay, Name: "a"}, []any{condition("Ready", "False", "UnhealthyDependents"), condition("ValidationSucceeded", "False", "Conflict")}, "NodeOverlay/a is not Ready: UnhealthyDependents: because; ValidationSucceeded: Conflict: because"},
		"a buffer, gate off":             {ref: render.Ref{Kind: render.CapacityBuffer, Name: "shop/a"}},
		"a buffer that needs nodes":      {ref: render.Ref{Kind: render.CapacityBuffer, Name: "shop/a"}, conditions: []any{condition("ReadyForProvisioning", "True", "Resolved"), condition("Provisioning", "False", "RequiresNewCapacity")}},
		"a buffer without a PodTemplate": {render.Ref{Kind: render.CapacityBuffer, Name: "shop/a"}, []any{condition("ReadyForProvisioning", "False", "PodTemplateNotFound"), condition("Provisioning", "False", "NotReadyForProvisioning")}, "CapacityBuffer/shop/a is not Ready: PodTemplateNotFound: because"},
	} {
		t.Run(name, func(t *testing.T) {
			object := c.ref.Empty()
			object.SetGeneration(2)
			object.Object["status"] = map[string]any{"conditions": c.conditions, "replicas": int64(3)}
			if diff := cmp.Diff(cluster.Readiness{Ready: c.want == "", Message: c.want}, cluster.Ready(plan.NewObject(object))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			trimmed := kept(t, object)
			if diff := cmp.Diff(cluster.Readiness{Ready: c.want == "", Message: c.want}, cluster.Ready(plan.NewObject(trimmed))); diff != "" {
				t.Errorf("in the cache (-want +got):\n%s", diff)
			}
			if replicas, _, _ := unstructured.NestedInt64(trimmed.Object, "status", "replicas"); replicas != 3 {
				t.Errorf("the cache keeps %d replicas", replicas)
			}
		})
	}
}
