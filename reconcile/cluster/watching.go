package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// Labelled defines which Secrets and ConfigMaps the watch cache contains: those in one namespace with the label that
// allows a plumbline.yaml to take chart values from them.
func Labelled(namespace string) map[client.Object]cache.ByObject {
	rule := cache.ByObject{
		Namespaces: map[string]cache.Config{namespace: {}},
		Label:      labels.SelectorFromSet(ValuesLabels()),
		Transform:  trimLabelled,
	}
	return map[client.Object]cache.ByObject{&corev1.Secret{}: rule, &corev1.ConfigMap{}: rule}
}

// ValuesLabels returns the labels of a Secret or ConfigMap that chart values may be taken from.
func ValuesLabels() labels.Set { return labels.Set{v1alpha1.ValuesLabel: "true"} }

// trimLabelled removes managed fields and annotations, because kubectl stores a copy of the content in an annotation.
func trimLabelled(obj any) (any, error) {
	if object, ok := obj.(metav1.Object); ok {
		object.SetManagedFields(nil)
		object.SetAnnotations(nil)
	}
	return obj, nil
}

// dnsNamespace is where the main chart creates a Role for the cluster's DNS, whatever its own namespace is
// (charts/karpenter/templates/role.yaml in karpenter-provider-aws).
const dnsNamespace = metav1.NamespaceSystem

// Narrow limits the watches of Karpenter's Deployment and of the charts' objects to namespaces, so that a Role in each
// of them is sufficient. No namespaces means all, which requires a ClusterRole.
func Narrow(objects map[client.Object]cache.ByObject, namespaces []string) {
	if len(namespaces) == 0 {
		return
	}
	for object, rule := range objects {
		var kind string
		switch o := object.(type) {
		case *appsv1.Deployment:
			kind = "Deployment"
		case *metav1.PartialObjectMetadata:
			kind = o.Kind
		}
		switch kind {
		case "", "ClusterRole", "ClusterRoleBinding":
			continue
		}
		rule.Namespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			rule.Namespaces[namespace] = cache.Config{}
		}
		if kind == "Role" || kind == "RoleBinding" {
			rule.Namespaces[dnsNamespace] = cache.Config{}
		}
		objects[object] = rule
	}
}

// AddToScheme registers NodeClaims with a scheme. Karpenter's own package registers its types only with client-go's
// global scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	version := schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	scheme.AddKnownTypes(version, &karpv1.NodeClaim{}, &karpv1.NodeClaimList{})
	metav1.AddToGroupVersion(scheme, version)
	return nil
}
