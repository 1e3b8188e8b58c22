package observe

import (
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// ChartedKinds are what Karpenter's main chart makes beside its Deployment
// (charts/karpenter/templates in karpenter-provider-aws). All of it bears
// ControllerLabels. A ServiceMonitor is of a kind that not every cluster serves,
// and is not watched.
func ChartedKinds() []schema.GroupVersionKind {
	kind := func(group, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
	}
	return []schema.GroupVersionKind{
		kind("", "Service"),
		kind("", "ServiceAccount"),
		kind("policy", "PodDisruptionBudget"),
		kind("rbac.authorization.k8s.io", "ClusterRole"),
		kind("rbac.authorization.k8s.io", "ClusterRoleBinding"),
		kind("rbac.authorization.k8s.io", "Role"),
		kind("rbac.authorization.k8s.io", "RoleBinding"),
	}
}

// Charted stands for the objects of one of ChartedKinds, of which the cache
// holds only metadata.
func Charted(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	return object
}

// Version is equal for two looks at an object between which nobody wrote to it,
// its status apart. Of the kinds that count no generations nobody writes a
// status all the time.
func Version(object client.Object) string {
	written := object.GetResourceVersion()
	if generation := object.GetGeneration(); generation != 0 {
		written = strconv.FormatInt(generation, 10)
	}
	return fmt.Sprintf("%s/%s/%s/%t/%v/%v", object.GetName(), object.GetUID(), written, object.GetDeletionTimestamp() != nil, object.GetLabels(), object.GetAnnotations())
}

// Rewritten lets the events of an object through that change its Version.
func Rewritten() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return Version(e.ObjectOld) != Version(e.ObjectNew)
	}}
}
