package reconcile

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

// containers are those of a Deployment of Karpenter's controller; none where it is gone.
// The cache keeps no pod template, so that it is read again where the Deployment has
// changed.
func (p *pass) containers(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Container, error) {
	if known, read := p.memory.templates[deployment.UID]; read && known.generation == deployment.Generation {
		return known.containers, nil
	}
	whole := &appsv1.Deployment{}
	if err := p.Uncached.Get(ctx, client.ObjectKeyFromObject(deployment), whole); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read deployment/%s: %w", deployment.Name, err)
	}
	if p.memory.templates == nil {
		p.memory.templates = map[types.UID]podTemplate{}
	}
	found := podTemplate{generation: whole.Generation, containers: whole.Spec.Template.Spec.Containers}
	p.memory.templates[deployment.UID] = found
	return found.containers, nil
}
