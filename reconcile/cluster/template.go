package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podTemplate is what a Deployment of Karpenter's controller runs, as of a generation.
type podTemplate struct {
	generation int64
	containers []corev1.Container
	// serviceAccount is empty if the Deployment is gone.
	serviceAccount string
}

// templates are those of the Deployments of the controller, by UID.
type templates map[types.UID]podTemplate

// Containers are those of a Deployment of Karpenter's controller; none if it is gone.
func (v *View) Containers(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Container, error) {
	template, err := v.template(ctx, deployment)
	return template.containers, err
}

// ServiceAccounts are the user names of the ServiceAccounts under which Karpenter's controllers in a namespace run.
func (v *View) ServiceAccounts(ctx context.Context, namespace string) ([]string, error) {
	deployments, err := v.Controllers(ctx, namespace)
	if err != nil {
		return nil, err
	}
	var users []string
	for i := range deployments {
		template, err := v.template(ctx, &deployments[i])
		if err != nil {
			return nil, err
		}
		if template.serviceAccount != "" {
			users = append(users, "system:serviceaccount:"+namespace+":"+template.serviceAccount)
		}
	}
	slices.Sort(users)
	return slices.Compact(users), nil
}

// template is the pod template of a Deployment of Karpenter's controller. The cache keeps none, so the
// Deployment is read again when its generation changes.
func (v *View) template(ctx context.Context, deployment *appsv1.Deployment) (podTemplate, error) {
	if known, read := v.Memory.templates[deployment.UID]; read && known.generation == deployment.Generation {
		return known, nil
	}
	whole := &appsv1.Deployment{}
	err := v.Uncached.Get(ctx, client.ObjectKeyFromObject(deployment), whole)
	if client.IgnoreNotFound(err) != nil {
		return podTemplate{}, fmt.Errorf("read deployment/%s: %w", deployment.Name, err)
	}
	if v.Memory.templates == nil {
		v.Memory.templates = templates{}
	}
	found := podTemplate{generation: whole.Generation}
	if spec := whole.Spec.Template.Spec; err == nil {
		found.containers, found.serviceAccount = spec.Containers, cmp.Or(spec.ServiceAccountName, "default")
	}
	v.Memory.templates[deployment.UID] = found
	return found, nil
}
