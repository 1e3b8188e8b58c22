package cluster

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podTemplate is what a Deployment of Karpenter's controller runs, as of a generation.
type podTemplate struct {
	generation int64
	containers []corev1.Container
}

// templates are those of the Deployments of the controller, by UID.
type templates map[types.UID]podTemplate

// Containers are those of a Deployment of Karpenter's controller; none where it is gone.
// The cache keeps no pod template, so that it is read again where the Deployment has
// changed.
func (v *View) Containers(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Container, error) {
	if known, read := v.Memory.templates[deployment.UID]; read && known.generation == deployment.Generation {
		return known.containers, nil
	}
	whole := &appsv1.Deployment{}
	if err := v.Uncached.Get(ctx, client.ObjectKeyFromObject(deployment), whole); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read deployment/%s: %w", deployment.Name, err)
	}
	if v.Memory.templates == nil {
		v.Memory.templates = templates{}
	}
	found := podTemplate{generation: whole.Generation, containers: whole.Spec.Template.Spec.Containers}
	v.Memory.templates[deployment.UID] = found
	return found.containers, nil
}
