package allowance

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// nameLabel is the label that Karpenter's pods are selected by.
const nameLabel = "app.kubernetes.io/name"

// serviceAccount checks that the account takes no role but one that is named.
func (c *check) serviceAccount() error {
	var account corev1.ServiceAccount
	if err := c.into(&account); err != nil {
		return err
	}
	if len(account.Secrets) > 0 {
		c.refuse("names Secrets")
	}
	if len(account.ImagePullSecrets) > 0 {
		c.unless("imagePullSecrets", "names Secrets with credentials of registries")
	}
	if role, ok := account.Annotations[roleAnnotation]; ok && !slices.Contains(c.allowance.ControllerRoles, role) &&
		!c.allowance.allows(join("additionalAnnotations", roleAnnotation)) {
		c.unless(roleValue, "takes an IAM role that spec.charts.allow.controllerRoles does not name")
	}
	return nil
}

// service checks that it is reached only inside of the cluster, and leads to Karpenter.
func (c *check) service() error {
	var service corev1.Service
	if err := c.into(&service); err != nil {
		return err
	}
	spec := service.Spec
	if spec.Type != "" && spec.Type != corev1.ServiceTypeClusterIP || len(spec.ExternalIPs) > 0 || spec.ExternalName != "" || spec.LoadBalancerIP != "" {
		c.refuse("is reached from outside of the cluster")
	}
	if spec.Selector[nameLabel] != account {
		c.refuse("leads to other pods than Karpenter's")
	}
	return nil
}

// budget checks that it keeps none but Karpenter's pods.
func (c *check) budget() error {
	var budget policyv1.PodDisruptionBudget
	if err := c.into(&budget); err != nil {
		return err
	}
	if budget.Spec.Selector == nil || budget.Spec.Selector.MatchLabels[nameLabel] != account {
		c.refuse("keeps other pods than Karpenter's from being evicted")
	}
	return nil
}

// monitorFields are those of an endpoint that every ServiceMonitor may have.
var monitorFields = []string{"port", "path", "interval", "metricRelabelings"}

// monitor checks that Prometheus asks Karpenter's port for metrics, and hands nothing over.
func (c *check) monitor() {
	endpoints, _, err := unstructured.NestedSlice(c.object.Object, "spec", "endpoints")
	if err != nil {
		c.refuse("is no such object")
	}
	for _, one := range endpoints {
		endpoint, _ := one.(map[string]any)
		for _, field := range slices.Sorted(maps.Keys(endpoint)) {
			switch {
			case slices.Contains(monitorFields, field):
			case field == "relabelings":
				c.unless("serviceMonitor.relabelings", whyScrape)
			default:
				c.unless("serviceMonitor.endpointConfig."+field, whyScrape)
			}
		}
	}
	names, _, err := unstructured.NestedStringSlice(c.object.Object, "spec", "namespaceSelector", "matchNames")
	if err != nil || slices.ContainsFunc(names, func(name string) bool { return name != c.rendered.Namespace }) {
		c.refuse("selects Services of other namespaces")
	}
}
