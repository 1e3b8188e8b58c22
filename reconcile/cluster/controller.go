package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// hosts are the controller's scheduled pods, for a version of its Deployments.
type hosts struct {
	of      string
	running []plan.Host
}

// PoolHosts returns those pods of Karpenter's controller, if it is installed, and of the daemon itself that run on
// nodes of a NodePool, of any owner.
func (v *View) PoolHosts(
	ctx context.Context, installed *v1alpha1.KarpenterStatus, own plan.Host, claims []plan.NodeClaim,
) ([]plan.Host, error) {
	if len(claims) == 0 {
		return nil, nil
	}
	namespace := ""
	if installed != nil {
		namespace = installed.Namespace
	}
	running, err := v.controllerPods(ctx, namespace)
	if err != nil {
		return nil, err
	}
	return Placed(append(slices.Clip(running), own), claims), nil
}

// Placed returns those of the pods whose node has a NodeClaim, with its NodePool.
func Placed(running []plan.Host, claims []plan.NodeClaim) []plan.Host {
	var hosts []plan.Host
	for _, host := range running {
		at := slices.IndexFunc(claims, func(c plan.NodeClaim) bool { return c.Node != "" && c.Node == host.Node })
		if at >= 0 {
			host.NodePool = claims[at].Pool
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// controllerPods returns the scheduled pods of Karpenter's controller. They are not watched, but read again when a
// Deployment's status has changed, which it does when a pod comes or goes.
func (v *View) controllerPods(ctx context.Context, namespace string) ([]plan.Host, error) {
	if namespace == "" {
		return nil, nil
	}
	deployments, err := v.Controllers(ctx, namespace)
	if err != nil {
		return nil, err
	}
	versions := []string{namespace}
	for i := range deployments {
		versions = append(versions, string(deployments[i].UID)+"/"+deployments[i].ResourceVersion)
	}
	slices.Sort(versions)
	of := strings.Join(versions, " ")
	if of == v.Memory.hosts.of {
		return v.Memory.hosts.running, nil
	}
	running, err := ControllerPods(ctx, v.Uncached, namespace)
	if err != nil {
		return nil, err
	}
	v.Memory.hosts = hosts{of: of, running: running}
	return running, nil
}

// ControllerPods returns the pods of Karpenter's controller in a namespace that are scheduled and not terminating.
func ControllerPods(ctx context.Context, reader client.Reader, namespace string) ([]plan.Host, error) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(ControllerLabels())); err != nil {
		return nil, fmt.Errorf("read which nodes the pods of Karpenter's controller run on: %w", err)
	}
	var running []plan.Host
	for i := range pods.Items {
		if pod := &pods.Items[i]; pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			running = append(running, plan.Host{Workload: "Karpenter's controller", Pod: pod.Namespace + "/" + pod.Name, Node: pod.Spec.NodeName})
		}
	}
	return running, nil
}

// podTemplate is the pod template of a Deployment of Karpenter's controller, at a generation.
type podTemplate struct {
	generation int64
	containers []corev1.Container
	// serviceAccount is empty if the Deployment does not exist.
	serviceAccount string
}

// templates are those of the controller's Deployments, by UID.
type templates map[types.UID]podTemplate

// Containers returns those of a Deployment of Karpenter's controller; none if it does not exist.
func (v *View) Containers(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Container, error) {
	template, err := v.template(ctx, deployment)
	return template.containers, err
}

// ServiceAccounts returns the user names of the ServiceAccounts of Karpenter's controllers in a namespace.
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

// template returns the pod template of a Deployment of Karpenter's controller. The cache keeps none, so the Deployment
// is read again when its generation changes.
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
