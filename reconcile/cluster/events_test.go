package cluster_test

import (
	"testing"

	awsstatus "github.com/awslabs/operatorpkg/status"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/cluster"
)

// wakes reports whether an update is admitted. Creations and deletions always are.
func wakes(t *testing.T, p predicate.Predicate, before, after client.Object) bool {
	t.Helper()
	if !p.Create(event.CreateEvent{Object: after}) || !p.Delete(event.DeleteEvent{Object: after}) {
		t.Error("an object that appears or goes does not wake")
	}
	return p.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})
}

// use sets a NodePool's usage, of a limit of ten CPUs.
func use(pool *unstructured.Unstructured, cpu string) {
	pool.Object["spec"] = map[string]any{"limits": map[string]any{"cpu": "10"}}
	status, _ := pool.Object["status"].(map[string]any)
	used := map[string]any{"resources": map[string]any{"cpu": cpu}}
	for name, value := range status {
		used[name] = value
	}
	pool.Object["status"] = used
}

// resolves sets the IDs that Karpenter has found for a selector.
func resolves(list string, ids ...string) func(*unstructured.Unstructured) {
	return func(class *unstructured.Unstructured) {
		var found []any
		for _, id := range ids {
			found = append(found, map[string]any{"id": id, "zone": "eu-west-1a"})
		}
		class.Object["status"] = map[string]any{list: found}
	}
}

// network makes Karpenter's subnets and security groups those of a generation of a class; the current one is 2.
func network(class *unstructured.Unstructured, generation int64) {
	conditions := []any{ready("True", 2)}
	for _, kind := range []string{"SubnetsReady", "SecurityGroupsReady"} {
		conditions = append(conditions, map[string]any{"type": kind, "status": "True", "observedGeneration": generation})
	}
	class.Object["status"] = map[string]any{"conditions": conditions}
}

func TestDefinitionChanged(t *testing.T) {
	fields := func(fields, subresource string, at int64) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			when := metav1.Unix(at, 0)
			u.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m", Operation: "Update", Subresource: subresource, Time: &when, FieldsV1: metav1.NewFieldsV1(fields)}})
		}
	}
	same := func(*unstructured.Unstructured) {}
	cases := map[string]struct {
		before, after func(*unstructured.Unstructured)
		want          bool
	}{
		"nothing": {same, same, false},
		"resync":  {same, func(u *unstructured.Unstructured) { u.SetResourceVersion("9") }, false},
		"spec":    {same, func(u *unstructured.Unstructured) { u.SetGeneration(3) }, true},
		"label":   {same, func(u *unstructured.Unstructured) { u.SetLabels(nil) }, true},
		"annotation": {same, func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{"karpenter.sh/nodepool-hash": "1"})
		}, false},
		"deletion":                          {same, func(u *unstructured.Unstructured) { now := metav1.Unix(1, 0); u.SetDeletionTimestamp(&now) }, true},
		"readiness":                         {same, func(u *unstructured.Unstructured) { u.Object["status"] = pool(ready("False", 2)).Object["status"] }, true},
		"a security group":                  {resolves("securityGroups", "sg-1"), resolves("securityGroups", "sg-1", "sg-2"), true},
		"a subnet":                          {resolves("subnets", "subnet-1"), resolves("subnets", "subnet-2"), true},
		"subnets whose addresses are taken": {resolves("subnets", "subnet-1", "subnet-2"), resolves("subnets", "subnet-2", "subnet-1"), false},
		"subnets and groups of the new spec": {
			func(u *unstructured.Unstructured) { network(u, 1) }, func(u *unstructured.Unstructured) { network(u, 2) }, true,
		},
		"its words": {
			func(u *unstructured.Unstructured) { u.Object["status"] = pool(ready("False", 2)).Object["status"] },
			func(u *unstructured.Unstructured) {
				u.Object["status"] = pool(map[string]any{"type": "Ready", "status": "False", "observedGeneration": int64(2), "reason": "Other"}).Object["status"]
			},
			true,
		},
		"other status": {same, func(u *unstructured.Unstructured) {
			u.Object["status"] = map[string]any{"nodes": int64(4), "conditions": []any{ready("True", 2)}}
		}, false},
		"a limit is reached": {
			func(u *unstructured.Unstructured) { use(u, "9") }, func(u *unstructured.Unstructured) { use(u, "10") }, true,
		},
		"more of a limit is used": {
			func(u *unstructured.Unstructured) { use(u, "8") }, func(u *unstructured.Unstructured) { use(u, "9") }, false,
		},
		"an owner of fields":       {fields(`{"f:spec":{}}`, "", 1), fields(`{"f:spec":{"f:limits":{}}}`, "", 1), true},
		"the time of a write":      {fields(`{"f:spec":{}}`, "", 1), fields(`{"f:spec":{}}`, "", 2), false},
		"an owner of status":       {fields(`{"f:status":{}}`, "status", 1), fields(`{"f:status":{"f:nodes":{}}}`, "status", 2), false},
		"an owner that came along": {same, fields(`{"f:spec":{}}`, "", 1), true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := pool(ready("True", 2)), pool(ready("True", 2))
			c.before(before)
			c.after(after)
			if got := wakes(t, cluster.DefinitionChanged(), kept(t, before), kept(t, after)); got != c.want {
				t.Errorf("wakes: %t, want %t", got, c.want)
			}
		})
	}
}

func TestNodeClaimChanged(t *testing.T) {
	cases := map[string]struct {
		change func(*karpv1.NodeClaim)
		want   bool
	}{
		"nothing":    {func(*karpv1.NodeClaim) {}, false},
		"annotation": {func(n *karpv1.NodeClaim) { n.Annotations = map[string]string{"a": "b"} }, false},
		"instance":   {func(n *karpv1.NodeClaim) { n.Status.ProviderID = "aws:///eu-west-1a/i-2" }, true},
		"deletion":   {func(n *karpv1.NodeClaim) { n.DeletionTimestamp = &metav1.Time{} }, true},
		"condition":  {func(n *karpv1.NodeClaim) { n.Status.Conditions = []awsstatus.Condition{{Type: "Drained"}} }, true},
		"node":       {func(n *karpv1.NodeClaim) { n.Status.NodeName = "node-1" }, true},
		"initialized": {func(n *karpv1.NodeClaim) {
			n.Status.Conditions = []awsstatus.Condition{{Type: "Initialized", Status: metav1.ConditionUnknown}}
		}, false},
		"initialized, and another": {func(n *karpv1.NodeClaim) {
			n.Status.Conditions = []awsstatus.Condition{{Type: "Initialized", Status: metav1.ConditionUnknown}, {Type: "Drained"}}
		}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := &karpv1.NodeClaim{}, &karpv1.NodeClaim{}
			before.Status.ProviderID, after.Status.ProviderID = "aws:///eu-west-1a/i-1", "aws:///eu-west-1a/i-1"
			c.change(after)
			if got := wakes(t, cluster.NodeClaimChanged(), before, after); got != c.want {
				t.Errorf("wakes: %t, want %t", got, c.want)
			}
		})
	}
}

func TestCRDChanged(t *testing.T) {
	established := apiextensionsv1.CustomResourceDefinitionCondition{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}
	cases := map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   bool
	}{
		"nothing": {func(*apiextensionsv1.CustomResourceDefinition) {}, false},
		"schema":  {func(c *apiextensionsv1.CustomResourceDefinition) { c.Generation = 2 }, true},
		"served": {func(c *apiextensionsv1.CustomResourceDefinition) {
			c.Status.Conditions = append(c.Status.Conditions, established)
		}, true},
		"deletion": {func(c *apiextensionsv1.CustomResourceDefinition) { c.DeletionTimestamp = &metav1.Time{} }, true},
		"names":    {func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.AcceptedNames.Kind = "NodePool" }, true},
		"versions": {func(c *apiextensionsv1.CustomResourceDefinition) { c.Status.StoredVersions = []string{"v1"} }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before, after := &apiextensionsv1.CustomResourceDefinition{}, &apiextensionsv1.CustomResourceDefinition{}
			c.change(after)
			if got := wakes(t, cluster.CRDChanged(), before, after); got != c.want {
				t.Errorf("wakes: %t, want %t", got, c.want)
			}
		})
	}
}

// TestStrangeObjectsWake: a predicate admits what it does not know.
func TestStrangeObjectsWake(t *testing.T) {
	for name, p := range map[string]predicate.Predicate{
		"definitions": cluster.DefinitionChanged(), "NodeClaims": cluster.NodeClaimChanged(), "CRDs": cluster.CRDChanged(),
	} {
		if !wakes(t, p, &metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadata{}) {
			t.Errorf("%s: a strange object does not wake", name)
		}
	}
}
