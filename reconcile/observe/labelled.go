package observe

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Labelled says what the watch cache holds of Secrets and ConfigMaps: those of one
// namespace whose label lets a plumbline.yaml take values of the chart from them.
func Labelled(namespace string) map[client.Object]cache.ByObject {
	rule := cache.ByObject{
		Namespaces: map[string]cache.Config{namespace: {}},
		Label:      labels.SelectorFromSet(ValuesLabels()),
		Transform:  trimLabelled,
	}
	return map[client.Object]cache.ByObject{&corev1.Secret{}: rule, &corev1.ConfigMap{}: rule}
}

// ValuesLabels are those of a Secret or ConfigMap that values may be taken from.
func ValuesLabels() labels.Set { return labels.Set{v1alpha1.ValuesLabel: "true"} }

// trimLabelled takes off what is noted on an object: kubectl notes all that is in
// it once more.
func trimLabelled(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
		object.SetAnnotations(nil)
	}
	return obj, nil
}
