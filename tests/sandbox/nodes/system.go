package nodes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// SystemSelector selects the nodes of the managed node group, which Karpenter does not own.
const SystemSelector = nodegroupLabel + "=" + systemGroup

const (
	nodegroupLabel = "eks.amazonaws.com/nodegroup"
	systemGroup    = "system"
	systemNodes    = 2

	readyTimeout = 60 * time.Second
	readyPoll    = 100 * time.Millisecond
)

// systemTaint keeps workloads off the system nodes, so that they need nodes of Karpenter's. The controllers of a
// cluster, and Karpenter's chart by default, tolerate it.
func systemTaint() corev1.Taint {
	return corev1.Taint{Key: "CriticalAddonsOnly", Value: "true", Effect: corev1.TaintEffectNoSchedule}
}

// systemMachine returns one node of the group: an m5.xlarge that already exists.
func (n *Nodes) systemMachine(i int, kubeletVersion string) machine {
	zone := n.options.Zones[i%len(n.options.Zones)]
	m := machine{
		InstanceID: fmt.Sprintf("i-0000000000000%04d", i+1),
		Type:       "m5.xlarge",
		Arch:       "amd64",
		Zone:       zone,
		IP:         fmt.Sprintf("10.255.0.%d", i+10),
		Size:       size{VCPU: 4, MemoryMiB: 16 << 10, MaxPods: 58},
		Join: join{
			Labels: map[string]string{nodegroupLabel: systemGroup},
			Taints: []corev1.Taint{systemTaint()},
		},
		KubeletVersion: kubeletVersion,
	}
	m.ZoneID = m.region() + "-az" + fmt.Sprint(i+1)
	m.Name = fmt.Sprintf("ip-10-255-0-%d.%s.compute.internal", i+10, m.region())
	return m
}

// startSystem creates the group's Nodes, unless they exist, and waits until kwok manages them.
func (n *Nodes) startSystem(ctx context.Context, kubeletVersion string) error {
	for i := range systemNodes {
		node := n.systemMachine(i, kubeletVersion).node(metav1.Now())
		n.announceKubelet(node)
		_, err := n.options.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create system node %s: %w", node.Name, err)
		}
	}
	err := wait.PollUntilContextTimeout(ctx, readyPoll, readyTimeout, true, n.systemReady)
	if err != nil {
		return fmt.Errorf("wait until the system nodes are Ready (kwok's log is in %s): %w", n.options.Dir, err)
	}
	return nil
}

// announceKubelet sets where the API server finds the node's kubelet: with the only type of address that kube.Start
// configures.
func (n *Nodes) announceKubelet(node *corev1.Node) {
	if n.options.KubeletPort == 0 {
		return
	}
	node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "127.0.0.1"})
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(n.options.KubeletPort)
}

func (n *Nodes) systemReady(ctx context.Context) (bool, error) {
	select {
	case err := <-n.kwok:
		n.kwok = nil
		return false, err
	default:
	}
	found, err := n.options.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: SystemSelector})
	if err != nil {
		return false, fmt.Errorf("list the system nodes: %w", err)
	}
	ready := 0
	for i := range found.Items {
		if isReady(&found.Items[i]) {
			ready++
		}
	}
	return ready >= systemNodes, nil
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
