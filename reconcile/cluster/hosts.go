package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// hosts are the pods of the controller that have a node, as of some Deployments.
type hosts struct {
	of      string
	running []plan.Host
}

// PoolHosts are those of the pods of Karpenter's controller, as far as it is installed, and
// of the daemon's own, that run on nodes of a NodePool, of any owner.
func (v *View) PoolHosts(ctx context.Context, installed *v1alpha1.KarpenterStatus, own plan.Host, claims []plan.NodeClaim) ([]plan.Host, error) {
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

// PoolHostsOf is PoolHosts, to be asked later.
func (v *View) PoolHostsOf(installed *v1alpha1.KarpenterStatus, own plan.Host, claims []plan.NodeClaim) func(context.Context) ([]plan.Host, error) {
	return func(ctx context.Context) ([]plan.Host, error) { return v.PoolHosts(ctx, installed, own, claims) }
}

// Placed are those of some pods whose node is a NodeClaim's, with its NodePool.
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

// controllerPods are the pods of Karpenter's controller that have a node. They
// are not watched: they are read again when the status of a Deployment has
// changed, which it does when a pod comes or goes.
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

// ControllerPods are the pods of Karpenter's controller in a namespace that have a node and do not end yet.
func ControllerPods(ctx context.Context, reader client.Reader, namespace string) ([]plan.Host, error) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.InNamespace(namespace), client.MatchingLabels(observe.ControllerLabels())); err != nil {
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
