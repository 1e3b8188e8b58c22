package configmap

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

const (
	// ManagedByLabel is on each ConfigMap of plumbline.
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ComponentLabel is on those that are listed by their purpose, which is its value.
	ComponentLabel = "app.kubernetes.io/component"
)

// New returns an empty ConfigMap in the namespace of its NodeSync, which owns it.
func New(sync *v1alpha1.NodeSync, name string) *corev1.ConfigMap {
	owner := metav1.NewControllerRef(sync, v1alpha1.GroupVersion.WithKind(v1alpha1.NodeSyncKind))
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: sync.Namespace, Name: name,
		Labels:          map[string]string{ManagedByLabel: v1alpha1.FieldManager},
		OwnerReferences: []metav1.OwnerReference{*owner},
	}}
}

// NodeSyncOf returns the NodeSync that owns a ConfigMap; ours is false if it is not a ConfigMap of this component.
func NodeSyncOf(object *corev1.ConfigMap, component string) (name types.NamespacedName, uid types.UID, ours bool) {
	ref := metav1.GetControllerOf(object)
	if ref == nil || ref.Kind != v1alpha1.NodeSyncKind || object.Labels[ComponentLabel] != component {
		return types.NamespacedName{}, "", false
	}
	return types.NamespacedName{Namespace: object.Namespace, Name: ref.Name}, ref.UID, true
}
