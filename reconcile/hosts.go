package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/observe"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// poolHosts are the pods of Karpenter's controller and of the daemon itself that run
// on nodes of a NodePool, whoever owns it.
func (p *pass) poolHosts(ctx context.Context) ([]plan.Host, error) {
	if len(p.live.NodeClaims) == 0 {
		return nil, nil
	}
	running, err := p.controllerPods(ctx)
	if err != nil {
		return nil, err
	}
	if p.Settings.Node != "" {
		running = append(slices.Clone(running), plan.Host{Workload: "plumbline", Pod: p.Settings.Namespace + "/" + p.Settings.Pod, Node: p.Settings.Node})
	}
	return placed(running, p.live.NodeClaims), nil
}

// placed are those of some pods whose node is a NodeClaim's, with its NodePool.
func placed(running []plan.Host, claims []plan.NodeClaim) []plan.Host {
	var hosts []plan.Host
	for _, host := range running {
		at := slices.IndexFunc(claims, func(c plan.NodeClaim) bool { return c.Node == host.Node })
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
func (p *pass) controllerPods(ctx context.Context) ([]plan.Host, error) {
	if p.sync.Status.Karpenter == nil {
		return nil, nil
	}
	deployments, err := p.controllers(ctx)
	if err != nil {
		return nil, err
	}
	versions := []string{p.sync.Status.Karpenter.Namespace}
	for i := range deployments {
		versions = append(versions, string(deployments[i].UID)+"/"+deployments[i].ResourceVersion)
	}
	slices.Sort(versions)
	of := strings.Join(versions, " ")
	if of == p.memory.hostsOf {
		return p.memory.hosts, nil
	}
	running, err := readControllerPods(ctx, p.Uncached, p.sync.Status.Karpenter.Namespace)
	if err != nil {
		return nil, err
	}
	p.memory.hostsOf, p.memory.hosts = of, running
	return running, nil
}

// ControllerHosts are the pods of Karpenter's controller that run on nodes of a
// NodePool, as they are now.
func ControllerHosts(ctx context.Context, reader client.Reader, namespace string, claims []plan.NodeClaim) ([]plan.Host, error) {
	running, err := readControllerPods(ctx, reader, namespace)
	if err != nil {
		return nil, err
	}
	return placed(running, claims), nil
}

func readControllerPods(ctx context.Context, reader client.Reader, namespace string) ([]plan.Host, error) {
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
