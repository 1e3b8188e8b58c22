package teardown

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/plumbline-dev/plumbline/provision/cloud"
	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
)

// NodeOf returns an instance from AWS's responses that is a Node of the cluster; empty if there is none.
func NodeOf(nodes []corev1.Node, answers []cloud.Answer) string {
	theirs := map[string]bool{}
	for i := range nodes {
		if _, id, err := cloud.ParseProviderID(nodes[i].Spec.ProviderID); err == nil {
			theirs[id] = true
		}
	}
	for _, answer := range answers {
		for _, r := range answer.Resources {
			if theirs[r.ID] {
				return r.ID
			}
		}
	}
	return ""
}

// NameKnown returns, as a sentence, what in a cluster uses the cluster's name; empty if nothing does. The Deployments
// are those of Karpenter's controller.
func NameKnown(name string, syncs []v1alpha1.NodeSync, deployments []appsv1.Deployment) string {
	for i := range syncs {
		if k := syncs[i].Status.Karpenter; k != nil && k.Cluster == name {
			return fmt.Sprintf("nodesync/%s in it belongs to cluster %s", syncs[i].Name, name)
		}
	}
	for i := range deployments {
		for _, container := range deployments[i].Spec.Template.Spec.Containers {
			for _, variable := range container.Env {
				if variable.Name == "CLUSTER_NAME" && variable.Value == name {
					return fmt.Sprintf("deployment/%s in it runs Karpenter for cluster %s", deployments[i].Name, name)
				}
			}
		}
	}
	return ""
}
