package upgrade

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
)

// leaseName is what Karpenter's replicas elect their leader by
// (sigs.k8s.io/karpenter pkg/operator/options/options.go, leader-election-name).
const leaseName = "karpenter-leader-election"

// container is the controller's in its pod (charts/karpenter/templates/deployment.yaml).
const container = "controller"

// Leads says whether a pod of a Deployment's newest template leads: a replica
// can be ready while one of the version before still does the work, since a
// leader that ends does not give up its lease. It reads past the cache.
func Leads(ctx context.Context, reader client.Reader, deployment *appsv1.Deployment) (observe.Readiness, error) {
	lease := &coordinationv1.Lease{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: leaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return observe.Readiness{}, fmt.Errorf("read lease %s: %w", leaseName, err)
	}
	if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		return observe.Readiness{Message: "no replica of deployment/" + deployment.Name + " leads yet"}, nil
	}
	holder, _, _ := strings.Cut(*lease.Spec.HolderIdentity, "_") // client-go: <host name>_<UUID>
	pod := &corev1.Pod{}
	err = reader.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: holder}, pod)
	if apierrors.IsNotFound(err) {
		return observe.Readiness{Message: fmt.Sprintf("lease %s is held by %s, which is gone, until it runs out", leaseName, holder)}, nil
	}
	if err != nil {
		return observe.Readiness{}, fmt.Errorf("read the pod that leads: %w", err)
	}
	whole := &appsv1.Deployment{} // the cache keeps no pod template
	if err := reader.Get(ctx, client.ObjectKeyFromObject(deployment), whole); err != nil {
		return observe.Readiness{}, fmt.Errorf("read deployment/%s: %w", deployment.Name, err)
	}
	if has, want := image(pod.Spec.Containers), image(whole.Spec.Template.Spec.Containers); has != want {
		return observe.Readiness{Message: fmt.Sprintf("pod/%s still leads, with image %s", holder, has)}, nil
	}
	return observe.Readiness{Ready: true}, nil
}

// image of the controller, by tag or digest.
func image(containers []corev1.Container) string {
	for i := range containers {
		if containers[i].Name == container {
			return containers[i].Image
		}
	}
	return ""
}

// ClusterName is the name by which the controller tags and finds its instances;
// empty where its environment does not have it in plain text.
func ClusterName(containers []corev1.Container) string {
	for i := range containers {
		if containers[i].Name != container {
			continue
		}
		for _, variable := range containers[i].Env {
			if variable.Name == "CLUSTER_NAME" {
				return variable.Value
			}
		}
	}
	return ""
}

// Tag of the controller's image: its version as a rule, and "unknown" where the
// image has none.
func Tag(containers []corev1.Container) string {
	reference, _, _ := strings.Cut(image(containers), "@")
	name := reference[strings.LastIndex(reference, "/")+1:]
	if _, tag, ok := strings.Cut(name, ":"); ok {
		return tag
	}
	return "unknown"
}
