package main

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plumbline-dev/plumbline/reconcile/api/v1alpha1"
	sees "github.com/plumbline-dev/plumbline/reconcile/cluster"
	"github.com/plumbline-dev/plumbline/reconcile/plan"
)

// seeHosts refuses to end the nodes that run Karpenter's controller or the daemon that leads: once these end,
// nothing ends the rest. What an earlier run has begun goes on, and the daemon holds such a NodePool.
func (t *teardown) seeHosts(ctx context.Context, sync *v1alpha1.NodeSync, leaves *teardownPlan) error {
	if len(leaves.claims) == 0 || sync.Drains() && (sync.DeletionTimestamp != nil || t.downTo.keeps()) {
		return nil
	}
	var running []plan.Host
	if k := sync.Status.Karpenter; k != nil {
		pods, err := sees.ControllerPods(ctx, t.c, k.Namespace)
		if err != nil {
			return explain(err, "list the pods of Karpenter's controller")
		}
		running = pods
	}
	if leaves.WithoutDaemon == "" {
		daemon, err := t.leader(ctx)
		if err != nil {
			return err
		}
		running = append(running, daemon...)
	}
	hosts := sees.Placed(running, leaves.claims)
	if len(hosts) == 0 {
		return nil
	}
	var names []string
	for _, h := range hosts {
		names = append(names, fmt.Sprintf("%s (pod %s on node %s of NodePool/%s)", h.Workload, h.Pod, h.Node, h.NodePool))
	}
	return fmt.Errorf("the nodes that would end run %s, and once that ends nothing ends the rest: move it to nodes that Karpenter does not manage, such as a managed node group; "+
		"or, where the cluster goes as well, delete that, and end its instances by `plumbline teardown --cluster-gone --terminate`; nothing was changed", strings.Join(names, ", "))
}

// leader is the daemon's pod that holds the lease, where one does in the cluster.
func (t *teardown) leader(ctx context.Context) ([]plan.Host, error) {
	namespace := t.c.in(ctx)
	lease, ok := readLease(ctx, t.c, namespace)
	if !ok {
		return nil, nil
	}
	name, _, _ := strings.Cut(ptr.Deref(lease.Spec.HolderIdentity, ""), "_") // hostname_uuid, by client-go
	pod := &corev1.Pod{}
	if name == "" {
		return nil, nil
	}
	if err := t.c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); client.IgnoreNotFound(err) != nil {
		return nil, explain(err, "read pod "+namespace+"/"+name+" of the daemon")
	}
	return []plan.Host{{Workload: "plumbline", Pod: namespace + "/" + name, Node: pod.Spec.NodeName}}, nil
}
