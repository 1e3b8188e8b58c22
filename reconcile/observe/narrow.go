package observe

import (
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dnsNamespace is where the main chart creates a Role for the cluster's DNS, whatever its own namespace is
// (charts/karpenter/templates/role.yaml in karpenter-provider-aws).
const dnsNamespace = metav1.NamespaceSystem

// Narrow limits the watches of Karpenter's Deployment and of what its charts make to namespaces, so that a Role
// in each of them is enough. No namespaces: all, which needs a ClusterRole.
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
